"""The tables of a race over seeds: its rounds and the rungs of the first one, the deciding values and the survivors."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from orchestrator.report.tables.columns import NONE, Columns, Section, make_cells
from orchestrator.results.race_rounds import decided_by, race_sentence
from orchestrator.results.summary import Summary
from orchestrator.wording import label, spans

NAMED = 12  # survivors of a round that are listed
NOTES = (
    "Members: how many were trained in the round. A decision depends only on the judged values at the selection "
    "lengths, of all seeds up to its round.",
    "The configurations ranked first were chosen by the scores shown here, which are therefore optimistic; scores on "
    "fresh seeds (confirm) are not.",
)


RUNG_NOTES = (
    "Packs pause at a rung, and configurations are compared by the median over the seeds of the judged value at the "
    "selection lengths. The guard keeps configurations that still improve by more than their seeds differ: the median "
    "over the seeds of the improvement since the step in the second column is above the interquartile range at the "
    "rung.",
    "A pruned configuration keeps its curves up to its rung, and has no score.",
)


def race_section(result: Summary) -> list[Section]:
    """Return the sections of the race, of its rungs if it has any; none without a race."""
    if result.race is None:
        return []
    staying = partial(_labels, {row.config_id: row.number for row in result.rows})
    columns: Columns = {
        "round": lambda line: str(line[0]),
        "seeds": lambda line: spans(line[1].new_seeds),
        "configurations": lambda line: str(len(line[1].contenders)),
        "members": lambda line: str(line[1].members),
        "decided by": lambda line: decided_by(line[1]) or NONE,
        "stay": lambda line: str(len(line[1].decision.survivors)) if line[1].decision else NONE,
        "which": lambda line: staying(line[1].decision.survivors) if line[1].decision else NONE,
    }
    cells = make_cells(list(enumerate(result.race.rounds, start=1)), columns)
    sentence = f"{race_sentence(result.race)}."
    rounds = Section(heading="Race over seeds", cells=cells, paragraphs=[sentence], notes=NOTES, csv="race.csv")
    if not result.race.rungs:
        return [rounds]
    rungs: Columns = {
        "rung at step": lambda line: f"{line.step:,}",
        "improvement since": lambda line: f"{line.since:,}",
        "configurations": lambda line: str(len(line.values)),
        "train on": lambda line: str(len(line.survivors)),
        "kept by the guard": lambda line: staying(line.guarded) or NONE,
        "pruned": lambda line: staying(line.pruned) or NONE,
    }
    cells = make_cells(result.race.rungs, rungs)
    return [rounds, Section(heading="Pruned in the course of training", cells=cells, notes=RUNG_NOTES, csv="rungs.csv")]


def race_lines(result: Summary) -> list[dict[str, Any]]:
    """Return a line for every configuration of every round of a race: its seeds, what decided, whether it stays.

    `value` is its median score or rank sum over all seeds up to the round; `stays` is empty until it is decided.
    """
    return [
        {
            "round": place,
            "config_id": name,
            "new_seeds": spans(one.new_seeds),
            "decided_by": one.decision.by if one.decision else "",
            "value": one.decision.values.get(name) if one.decision else None,
            "p": one.decision.p if one.decision else None,
            "stays": name in one.decision.survivors if one.decision else "",
        }
        for place, one in enumerate(result.race.rounds if result.race else (), start=1)
        for name in one.contenders
    ]


def rung_lines(result: Summary) -> list[dict[str, Any]]:
    """Return a line for every configuration of every rung of a race, with the value that decided.

    `value` is its median score at the step; `improvement`, the median since an earlier step, and `spread` are those of
    the guard; `outcome` is ahead, guarded or pruned.
    """
    return [
        {
            "step": one.step,
            "since": one.since,
            "config_id": name,
            "value": value,
            "improvement": one.improvements.get(name),
            "spread": one.spreads.get(name),
            "outcome": "guarded" if name in one.guarded else "ahead" if name in one.survivors else "pruned",
        }
        for one in (result.race.rungs if result.race else ())
        for name, value in one.values.items()
    ]


def _labels(numbers: Mapping[str, int], names: Collection[str]) -> str:
    """Return the labels of configurations, at most NAMED."""
    chosen = sorted(numbers[name] for name in names)
    return ", ".join(map(label, chosen[:NAMED])) + (" ..." if len(chosen) > NAMED else "")
