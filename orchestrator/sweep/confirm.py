"""Confirm a sweep: train its best configurations again, on seeds that were not used for selection.

The score of a selected configuration is optimistic, because the winner of many is partly luck (selection bias). A
confirmation is a sweep with the sampler `listed`, in the same storage as the sweep that it confirms.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.mirror.fetch import fetch_storage
from orchestrator.plan.recorded_configurations import refuse_missing_initial_weights
from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.lineage import (
    CONFIRMS,
    find_used_seeds,
    name_confirmation,
    read_lineage,
    refuse_imported,
)
from orchestrator.record.state.state import SweepState
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.results.summary import ConfigurationResult
from orchestrator.session.session import Outcome
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN, explain_too_few
from orchestrator.sweep.derived_sweep import DerivedSweep, make_listed_spec, run_derived
from orchestrator.sweep.selection import choose_rows, is_eligible, refuse_top_and_configurations, refuse_unfinished
from orchestrator.text.consoles import say
from orchestrator.text.wording import describe_wrong_numbers, format_label, format_ranges, read_numbers
from search_spaces.grammar.values import LARGEST_SEED, MAX_SEEDS

DEFAULT_TOP, DEFAULT_SEEDS = 3, 10


def confirm_sweep(
    folder: Path,
    console: Console,
    plan: Callable[[SweepState], DerivedSweep],
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Run the confirmation of the sweep in `folder` in the same storage, then write the report of both.

    `plan` is `plan_confirmation` with its options bound. Raises what `plan` and `run_sweep` raise.
    """
    fetch_storage(folder.resolve().parent)  # other sweeps may have used seeds
    outcome = run_derived(folder, console, plan, max_seconds=max_seconds)
    if outcome.status in ("complete", STOPPED_BY_BUDGET):
        page, _ = write_report(folder)
        say(console, f"report with both scores: {page}")
        _publish_again(folder, console)
    return outcome


def _publish_again(folder: Path, console: Console) -> None:
    """Send the report with both scores to MLflow if the confirmed sweep was published; print a line if that fails."""
    from orchestrator.tracking.publish import publish  # MLflow takes seconds to import

    if not SweepState.load(folder).published_at:
        return
    try:
        publish(folder)
    except LengthwiseError as error:
        say(console, f"report with both scores not published: {error}")


def plan_confirmation(
    state: SweepState,
    *,
    top: int | None = None,
    seeds: str = str(DEFAULT_SEEDS),
    labels: Sequence[str] = (),
    name: str | None = None,
    allow_unfinished: bool = False,
    overrides: Sequence[str] = (),
) -> DerivedSweep:
    """Return the confirmation of a sweep; writes nothing.

    `seeds` is a number of fresh seeds, or a list such as "100,101"; `labels` are configurations to confirm instead of
    the `top` configurations, by default three. Raises UserError for `top` with `labels`, an unfinished sweep
    without `allow_unfinished`, a configuration that does not exist or did not succeed, more configurations than
    succeeded, used seeds, overrides of anything but CHANGEABLE_SECTIONS; SweepExists if the name is taken;
    SweepFileError for an invalid name or override.
    """
    refuse_top_and_configurations(top, labels, "are confirmed")
    refuse_imported(state)
    import_recorded(state)

    # The best configurations may change until the sweep ends, so the user must allow an earlier confirmation.
    summary = summarize(state)
    if not allow_unfinished:
        refuse_unfinished(summary, str(state.folder), "or confirm the best so far with --allow-unfinished")
    default_top = min(DEFAULT_TOP, max(1, sum(map(is_eligible, summary.rows))))
    chosen = choose_rows(summary, state, default_top if top is None else top, labels)

    # Seeds of any sweep in the chain of confirmations may have been lucky in the selection, so they are not used again.
    sweep_by_seed = find_used_seeds(state)
    selection = ", ".join(format_label(row.number) for row in chosen) if labels else f"its first {len(chosen)}"
    header = {
        "name": name or name_confirmation(state.name),
        "description": f"Confirmation of {state.name}: {selection} of {summary.complete_configurations} by "
        f"{summary.score_label}, on fresh seeds.",
        "seeds": list(choose_fresh_seeds(seeds, sweep_by_seed)),
    }
    spec = make_listed_spec(state, chosen, header, overrides, "confirmed")
    members = ((state.configurations[row.config_id], spec.seeds) for row in chosen)
    refuse_missing_initial_weights(members, f"{state.folder} cannot be confirmed")

    # Record the search results for the report of the confirmation, because this sweep may be deleted later.
    lineage = read_lineage(state.folder)
    origin = {
        "sweep": state.name,
        "spec_hash": state.spec_hash,
        "root": {"sweep": lineage.root.sweep, "spec_hash": lineage.root.spec_hash},
        "finished": summary.has_ended,
        "of": summary.complete_configurations,
        "used_seeds": sorted(sweep_by_seed),
        "configurations": [_make_search_result(row) for row in chosen],
    }
    messages = []
    if spec.folder is not None and spec.folder.is_relative_to(state.folder.resolve()):
        messages.append(f"note: the files of the program have changed; using their copies in {spec.folder}")

    # The first two configurations are compared by pairs of seeds; say it before the training if these are too few.
    if len(chosen) > 1 and len(spec.seeds) < MIN_FOR_MEDIAN:
        messages.append(f"note: {explain_too_few(len(spec.seeds), MIN_FOR_MEDIAN, 'seeds')}; {DEFAULT_SEEDS} are usual")
    return DerivedSweep(spec=spec, origin={CONFIRMS: origin}, messages=tuple(messages))


def choose_fresh_seeds(option: str, sweep_by_seed: dict[int, str]) -> tuple[int, ...]:
    """Return the seeds to confirm on: the N smallest unused seeds, or the listed seeds if all are unused.

    choose_fresh_seeds("2", {0: "a", 1: "a", 3: "a"}) -> (2, 4); choose_fresh_seeds("7,9", {0: "a"}) -> (7, 9)
    """
    numbers = read_numbers(option)
    is_count = len(numbers) == 1 and not {",", "-"} & set(option)
    if not numbers or (is_count and numbers[0] < 1):
        allowed = "a number of seeds such as 10, or different seeds such as 100-109 or 100,103"
        raise UserError(f"--seeds {option!r}: {describe_wrong_numbers(option)}; allowed: {allowed}")
    refuse_many_seeds(option, numbers[0] if is_count else len(numbers))
    if is_count:
        unused = (seed for seed in range(LARGEST_SEED + 1) if seed not in sweep_by_seed)
        return tuple(itertools.islice(unused, numbers[0]))

    if used_before := sorted(seed for seed in set(numbers) if seed in sweep_by_seed):
        sweeps = ", ".join(dict.fromkeys(sweep_by_seed[seed] for seed in used_before))
        hint = format_ranges(choose_fresh_seeds(str(len(numbers)), sweep_by_seed))
        raise UserError(
            f"--seeds {option}: already used by {sweeps}: {format_ranges(used_before)}; allowed: unused seeds, "
            f"such as {hint}"
        )
    return numbers


def refuse_many_seeds(option: str, number: int) -> None:
    """Raise UserError for more seeds than a sweep can have."""
    if number > MAX_SEEDS:
        raise UserError(f"--seeds {option}: too many seeds; allowed: up to {MAX_SEEDS}")


def _make_search_result(row: ConfigurationResult) -> dict[str, Any]:
    """Return the fields of a configuration's search result for the ledger of the confirmation."""
    test = row.test_quartiles
    return {
        "config_id": row.config_id,
        "number": row.number,
        "values": row.values,
        "rank": row.rank,
        "score": [row.score, row.score_q25, row.score_q75],
        "test": [test.median, test.q25, test.q75] if test else None,
    }
