"""The claims on strings of symbols, copying, induction and seven instructions: rows right as a whole, by bucket.

A bucket of length s has strings of up to s symbols, and of more than the next smaller one has.
"""

from dataclasses import replace

import pandas as pd

from orchestrator.studies.claims import NOT_TESTABLE, Claim, Part, Table, span
from orchestrator.studies.measures import Effect, Sweep, paired_effect
from orchestrator.studies.threshold_attention.measures import arms
from trainers.tasks.recall.multi_instruction import INSTRUCTIONS

RIGHT = "accuracy"
STRINGS = (
    ("T1, copying", "copying a string", "table1_copy_cpu"),
    ("T1, induction", "what followed a symbol", "table1_induct_cpu"),
    ("T1, instructions", "seven instructions, a substitute for the third task", "multi_instruction_cpu"),
)


def strings_claim(letter: str, task: str, sweep: Sweep) -> Claim:
    """(T1) More rows right than with other attention, beyond the trained bucket."""
    of, least = arms(sweep), sweep.objective.threshold
    tables = [_of_seeds_that_learned(sweep), _of_all_seeds(sweep)]
    return Claim(
        letter=letter,
        says=f"TRA generalizes better than RoPE, the Forgetting Transformer and CoPE: {task}.",
        sweep=sweep,
        measured=f"the share of rows whose answer is right as a whole. A seed that has less than {least:.0%} of the "
        f"rows of the trained bucket right has not learned the task: it is counted, and left out where seeds that "
        f"learned are compared. Beyond the trained bucket means those that end at {span(sweep.test)} symbols, the mean "
        f"over buckets",
        parts=[_against(sweep, of["tra"], other, name) for name, other in of.items() if name != "tra"],
        tables=[*tables, _by_instruction(sweep)] if _instructions(sweep) else tables,
        shown=len(of) - 1,
    )


def right(sweep: Sweep, name: str, lengths: tuple[int, ...], metric: str = RIGHT) -> pd.DataFrame:
    """One row per seed of a configuration: `value`, the share of right rows, mean over buckets."""
    rows = sweep.members(metric, "raw", lengths)
    return rows[rows["config_id"] == name]


def learned(sweep: Sweep, name: str) -> set[int]:
    """The seeds that have as many rows of the trained bucket right as `objective.threshold` says."""
    rows = right(sweep, name, sweep.trained)
    return set(rows.loc[rows["value"] >= (sweep.objective.threshold or 0.0), "seed"].tolist())


def _against(sweep: Sweep, tra: str, other: str, name: str) -> Part:
    """The question to the seeds that learned with both, and again to all where some have not."""
    both = learned(sweep, tra) & learned(sweep, other)
    counts = [f"{one} {len(learned(sweep, config_id))}" for one, config_id in (("tra", tra), (name, other))]
    every = set(right(sweep, tra, sweep.trained)["seed"])
    said = f"seeds that learned: {', '.join(counts)}, both {len(both)} of {len(every)}"
    asked = f"are more rows right beyond the trained bucket with tra than with {name}?"
    effect, answer = _outcome(sweep, tra, other, both)
    found = Part(asked=asked, effect=f"{effect}; {said}" if both else said, answer=answer)
    if both == every:
        return found
    effect, answer = _outcome(sweep, tra, other, every)
    again = Part(asked=asked, effect=str(effect), answer=answer, of="all seeds")
    return replace(found, of="seeds that learned with both", again=again)


def _outcome(sweep: Sweep, tra: str, other: str, seeds: set[int]) -> tuple[Effect, str]:
    """The difference over these seeds; there is nothing to test without seeds, or where no row of any is right."""
    one, two = (right(sweep, name, sweep.test) for name in (tra, other))
    one, two = (rows[rows["seed"].isin(seeds)] for rows in (one, two))
    effect = paired_effect(one, two, on=("seed",))
    some = bool(seeds) and bool((one["value"] > 0).any() or (two["value"] > 0).any())
    return effect, effect.verdict("larger") if some else NOT_TESTABLE


def _of_seeds_that_learned(sweep: Sweep) -> Table:
    rows = []
    for name, config_id in arms(sweep).items():
        good, every = learned(sweep, config_id), right(sweep, config_id, sweep.trained)
        cells = []
        for length in sweep.lengths:
            of_seeds = right(sweep, config_id, (length,))
            values = 100 * of_seeds.loc[of_seeds["seed"].isin(good), "value"]
            cells.append(f"{values.median():.3g} ({values.min():.3g} to {values.max():.3g})" if len(values) else "-")
        rows.append((name, f"{len(good)} of {len(every)}", *cells))
    title = f"rows right in % of the seeds that learned, median (least to greatest), by bucket, {sweep.name}"
    return Table(title=title, head=("attention", "learned", *_heads(sweep)), rows=rows)


def _of_all_seeds(sweep: Sweep) -> Table:
    rows = [
        (name, *(_median(sweep, config_id, RIGHT, length) for length in sweep.lengths))
        for name, config_id in arms(sweep).items()
    ]
    return Table(title="the same of all seeds, median", head=("attention", *_heads(sweep)), rows=rows)


def _by_instruction(sweep: Sweep) -> Table:
    ends = (sweep.trained[-1], sweep.test[0], sweep.test[-1])
    rows = [
        (name, instruction.replace("_", " "), *(_median(sweep, config_id, f"accuracy_{instruction}", s) for s in ends))
        for instruction in INSTRUCTIONS
        for name, config_id in arms(sweep).items()
    ]
    head = ("attention", "instruction", *(f"up to {end}" for end in ends))
    return Table(title="rows right in % by instruction, of all seeds, median", head=head, rows=rows)


def _instructions(sweep: Sweep) -> bool:
    return any(metric.startswith("accuracy_") for metric in next(iter(sweep.measured.values())).metrics)


def _heads(sweep: Sweep) -> list[str]:
    return [f"up to {length}" for length in sweep.lengths]


def _median(sweep: Sweep, name: str, metric: str, length: int) -> float:
    return float(100 * right(sweep, name, (length,), metric)["value"].median())
