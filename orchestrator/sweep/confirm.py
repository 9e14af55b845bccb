"""Confirmation: the best configurations of a sweep trained again, on seeds that no selection has seen.

The score of a selected configuration is optimistic: the best of many was also lucky with its seeds (selection bias).
A confirmation is a sweep like any other, of the sampler `listed`, beside the one it confirms.
"""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.ending.ending import Outcome
from orchestrator.errors import SweepExists, UserError
from orchestrator.mirror.fetch import fetch_storage
from orchestrator.plan.recorded import (
    list_recorded_values,
    refuse_changed,
    refuse_corrected,
    refuse_without_data,
    with_recorded_defaults,
)
from orchestrator.plan.search import draw, total
from orchestrator.record.kept.code import find_program, import_recorded
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.imported import refuse_imported
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.lineage import CONFIRMS, relative, used_seeds
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import write_report
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Row, Summary
from orchestrator.sweep import sweep
from orchestrator.sweep.specification import SETTINGS, SPEC_FILE, refuse_fixed
from orchestrator.wording import command, label, read_numbers, spans
from search_spaces import SweepSpec, differences, dump_yaml, parse_sweep
from search_spaces.grammar.spec.values import LARGEST_SEED, MAX_SEEDS

TOP, SEEDS = 3, 10


@dataclass(frozen=True, kw_only=True)
class SweepBeside:
    """A sweep to run beside another: its specification, the origin that its ledger records, and what the user reads."""

    spec: SweepSpec
    origin: dict[str, Any]
    lines: tuple[str, ...] = ()


def confirm(folder: Path, console: Console, plan: Callable[[SweepState], SweepBeside]) -> Outcome:
    """Run the confirmation of the sweep in `folder` beside it, then draw the report of both.

    `plan` is `plan_confirmation` with its options. Raises what it and `run_sweep` raise.
    """
    folder = folder.resolve()
    fetch_storage(folder.parent)  # other sweeps may have used seeds
    planned = plan(SweepState.load(folder))
    if (files := planned.spec.folder) is not None and files.is_relative_to(folder):
        say(console, f"note: the files of the program have changed since; their copies in {files} are used")
    outcome = sweep.run_sweep(planned.spec, folder.parent, console, planned.origin)
    if outcome.exit_code == 0:
        page, _ = write_report(folder)
        say(console, f"Both scores side by side: {page}; in MLflow after: {command('publish', folder)}")
    return outcome


def plan_confirmation(
    state: SweepState,
    *,
    top: int | None = None,
    seeds: str = str(SEEDS),
    configurations: Sequence[str] = (),
    name: str | None = None,
    allow_unfinished: bool = False,
    overrides: Sequence[str] = (),
) -> SweepBeside:
    """Return the confirmation of a sweep; writes nothing.

    `seeds` is a number of fresh seeds, or a list such as "100,101"; `configurations` are labels of those to confirm,
    instead of the `top` ones, by default three. Raises UserError for `top` with `configurations`, an unfinished sweep
    without `allow_unfinished`, a configuration that does not exist or did not succeed, more configurations than
    succeeded, seeds that were used before, overrides of anything but SETTINGS; SweepExists when the name is taken;
    SweepFileError for a wrong name or override.
    """
    if top is not None and configurations:
        raise UserError("--top and --configuration both say which configurations are confirmed; give one of them")
    refuse_imported(state)
    import_recorded(state)
    result = summary(state)
    if not result.finished and not allow_unfinished:
        raise UserError(
            f"{state.folder}: this sweep is not finished ({result.configurations_finished} of {result.planned} "
            f"configurations); resume it with: {command('resume', state.folder)}\n"
            "--allow-unfinished confirms the best of those that are"
        )
    if top is None:
        top = min(TOP, max(1, sum(map(_is_good, result.rows))))
    chosen = named_rows(result, state, configurations) if configurations else best_rows(result, top)
    used = used_seeds(state)
    which = ", ".join(label(row.number) for row in chosen) if configurations else f"its first {len(chosen)}"
    header = {
        "name": name or f"{state.name}-confirm",
        "description": f"Confirmation of {state.name}: {which} of {result.configurations_finished} by "
        f"{result.score_label}, on fresh seeds.",
        "seeds": list(fresh_seeds(seeds, used)),
    }
    spec = make_listed_spec(state, chosen, header, overrides, "confirmed")
    own = relative(state.folder)
    origin = {
        "sweep": state.name,
        "spec_hash": state.spec_hash,
        "root": {"sweep": own.root.sweep, "spec_hash": own.root.spec_hash},
        "finished": result.finished,
        "of": result.configurations_finished,
        "used_seeds": sorted(used),
        "configurations": [_search_result(row) for row in chosen],
    }
    return SweepBeside(spec=spec, origin={CONFIRMS: origin})


def make_listed_spec(
    state: SweepState, chosen: Sequence[Row], header: dict[str, Any], overrides: Sequence[str], action: str
) -> SweepSpec:
    """Return the specification of a sweep beside this one that lists chosen configurations of it.

    `header` has its name, description and seeds; errors say that the sweep cannot be `action` ("confirmed").
    Raises UserError where today's code would train something else, SweepExists when the name is taken.
    """
    allowed = f"{', '.join(SETTINGS)}; --name gives the new sweep its name"
    refuse_fixed(overrides, allowed)
    what, source = f"{state.folder} cannot be {action}", f"{state.folder / SPEC_FILE} (to be {action})"
    recorded = [state.configurations[row.config_id] for row in chosen]
    refuse_corrected(recorded, what)
    refuse_without_data(recorded, what)
    search = {"sampler": "listed", "listed": [row.values for row in chosen]}
    listed = {**state.spec, **header, "space": {}, "search": search}
    plain = with_recorded_defaults(parse_sweep(dump_yaml(listed), source, name=header["name"]), recorded)
    resolved = plain.resolved()
    resolved["search"]["listed"] = list_recorded_values(plain, recorded)  # written out: new defaults change nothing
    spec = parse_sweep(dump_yaml(resolved), source, overrides, header["name"]).as_recorded()
    if changes := differences(parse_sweep(dump_yaml(resolved), str(spec.name)), spec):
        keys = ", ".join(key for key, _, _ in changes)
        raise UserError(
            f"--set {keys}: cannot be changed, because the new sweep trains what this one trained; allowed: {allowed}"
        )
    target = state.folder.resolve().parent / spec.name
    if (target / LEDGER_FILE).exists():
        raise SweepExists(
            f"{target} holds a sweep already; resume it with: {command('resume', target)}\n"
            "or give another --name to the new one"
        )
    again = zip(recorded, draw(spec, range(total(spec))), strict=True)
    refuse_changed(spec, [replace(one, values=now.values) for one, now in again], what)
    return spec.in_folder(find_program(state))


def fresh_seeds(asked: str, used: dict[int, str]) -> tuple[int, ...]:
    """Return the seeds to confirm on: the N smallest unused ones, or the listed ones if none of them was used.

    fresh_seeds("2", {0: "a", 1: "a", 3: "a"}) -> (2, 4); fresh_seeds("7,9", {0: "a"}) -> (7, 9)
    """
    numbers = read_numbers(asked)
    is_count = len(numbers) == 1 and not {",", "-"} & set(asked)
    if not numbers or (is_count and numbers[0] < 1):
        allowed = "a number of seeds such as 10, or different seeds such as 100-109 or 100,103"
        raise UserError(f"--seeds {asked!r}: not seeds; allowed: {allowed}")
    refuse_many_seeds(asked, numbers[0] if is_count else len(numbers))
    if is_count:
        return tuple(itertools.islice((seed for seed in range(LARGEST_SEED + 1) if seed not in used), numbers[0]))
    if taken := sorted(seed for seed in set(numbers) if seed in used):
        by = ", ".join(dict.fromkeys(used[seed] for seed in taken))
        hint = spans(fresh_seeds(str(len(numbers)), used))
        raise UserError(
            f"--seeds {asked}: already used by {by}: {spans(taken)}; a score on a used seed confirms nothing; "
            f"unused are for example {hint}"
        )
    return numbers


def refuse_many_seeds(asked: str, number: int) -> None:
    """Raise UserError for more seeds than a sweep file may ask for."""
    if number > MAX_SEEDS:
        raise UserError(f"--seeds {asked}: too many seeds; allowed: {MAX_SEEDS} in all")


def best_rows(result: Summary, top: int, good: Collection[str] | None = None) -> list[Row]:
    """Return the first `top` rows by the objective, of `good` config_ids, by default those with a finite score.

    Raises UserError when there are fewer of them, and while a race is not over.
    """
    if result.race is not None and not result.race.is_over:
        raise UserError(
            f"--top {top}: the race of {result.name} is not over, so which are first is not known; resume it, "
            "or name configurations by --configuration"
        )
    rows = [row for row in result.rows if _is_good(row, good)]
    allowed = f"a number from 1 to {len(rows)}" if rows else "nothing: there is none"
    if top < 1:
        raise UserError(f"--top {top} is not a number of configurations; allowed: {allowed}")
    if top > len(rows):
        ended = [row for row in result.rows if row.complete and row not in rows]
        counts = {
            "failed": sum(row.failed for row in ended),
            "have no finite score": sum(not row.failed for row in ended),
            "were pruned": (pruned := sum(row.pruned_at is not None for row in result.rows)),
            "have not ended": result.planned - result.configurations_finished - pruned,
        }
        why = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "it has no more"
        raise UserError(
            f"--top {top}: {len(rows)} configurations of {result.name} succeeded ({why}); allowed: {allowed}"
        )
    return rows[:top]


def named_rows(
    result: Summary, state: SweepState, names: Sequence[str], good: Collection[str] | None = None
) -> list[Row]:
    """Return the rows of these configurations, best first.

    Raises UserError for one that is not in `good`, by default for one without a finite score.
    """
    asked = {find_configuration(state, name).config_id: name for name in names}
    for row in result.rows:
        if row.config_id in asked and not _is_good(row, good):
            why = "failed" if row.failed else "has no finite score" if row.complete else row.why_incomplete
            raise UserError(
                f"--configuration {asked[row.config_id]}: {label(row.number)} {why}; allowed: one that succeeded"
            )
    return [row for row in result.rows if row.config_id in asked]


def _is_good(row: Row, good: Collection[str] | None = None) -> bool:
    if good is not None:
        return row.config_id in good
    return row.rank is not None and row.score is not None and math.isfinite(row.score)


def _search_result(row: Row) -> dict[str, Any]:
    """Return a configuration's search result for the confirmation's ledger, so its report needs no other folder."""
    test = row.test
    return {
        "config_id": row.config_id,
        "number": row.number,
        "values": row.values,
        "rank": row.rank,
        "score": [row.score, row.score_q25, row.score_q75],
        "test": [test.median, test.q25, test.q75] if test else None,
    }
