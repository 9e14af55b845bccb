"""Describe the status of a recorded sweep, for `status`: its counts, failures and tracebacks."""

import statistics
import time
from collections import Counter
from collections.abc import Sequence

from orchestrator.interface.trainer import MEMBERS_FOLDER
from orchestrator.record.ledger.folders import REPORT_HTML
from orchestrator.record.ledger.lock import describe_running_driver
from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.lineage import CONFIRMS, IMPORTED
from orchestrator.record.state.repackings import describe_repackings
from orchestrator.record.state.state import SweepState
from orchestrator.results.confirmation import read_search_labels
from orchestrator.results.failure_values import describe_shared_values
from orchestrator.results.pack_environments import PackEnvironments, describe_code, name_recorded_pack
from orchestrator.results.pack_seeds import name_pack_seeds
from orchestrator.results.race_rounds import describe_round, describe_rung
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.results.scoring.validation_scores import has_early_stops, list_early_stops
from orchestrator.results.seed_failures import describe_retry_start, make_failure_rows, make_retry_command
from orchestrator.results.sweep_status import describe_end_status, shorten_end_message
from orchestrator.running.watching.meter import (
    count_seeds,
    count_steps,
    count_steps_done,
    find_best_configuration,
    format_best_score,
)
from orchestrator.text.wording import (
    describe_better,
    format_command,
    format_count,
    format_duration,
    format_label,
    format_lengths,
    format_metric,
    format_steps,
    group_errors,
    join_first_few,
)

MAX_NAMED_PACKS = 4  # of the packs with the same error
NO_TRACE = "no traceback was kept: the process died and left none, or an earlier version of lengthwise ran it"


def make_status_rows(state: SweepState, *, traces_follow: bool = False) -> list[tuple[str, str]]:
    """Return the status of a recorded sweep as rows of label and text.

    `traces_follow`: the rows are shown above the tracebacks, so none names the command that shows them.
    """
    # Count seeds and steps, and find out whether a driver is running the sweep.
    members, noun = state.members, name_recorded_pack(state)
    counts = Counter(member.status for member in members)
    reasons = ", ".join(
        f"{count} {reason}"
        for reason, count in (("crashed", state.seeds_crashed), ("diverged", counts["failed"] - state.seeds_crashed))
        if count
    )
    owner, seed_count = describe_running_driver(state.folder), count_seeds(state)
    done_steps = sum(count_steps_done(state).values())
    total_steps = count_steps(state)
    done_share = f"{100 * done_steps / total_steps:.0f} %" if total_steps else "none yet"
    status = f"running, by {owner}" if owner else describe_end_status(state)
    # A stopped sweep names the command in its message; if all packs failed so far, others would fail as well.
    retry = "" if owner else make_retry_command(state)
    retry_start = describe_retry_start(state) if retry else ""
    all_failed = retry and all(pack.status == "failed" for pack in state.packs.values() if pack.has_ended)
    needs_no_resume = owner or all_failed or state.end_status in ("complete", "failed", STOPPED_BY_BUDGET)
    ended = not owner and state.end_status in ("complete", "failed")
    end_message, page = shorten_end_message(state), state.folder / REPORT_HTML

    # Rows that most sweeps do not need are left out.
    rows = [
        ("sweep", f"{state.name} (study {state.study}) in {state.folder}"),
        *_make_confirms_row(state),
        ("state", f"{status}: {end_message}" if end_message else status),
        *([] if needs_no_resume else [("continue with", format_command("resume", state.folder))]),
        ("configurations", f"{state.configurations_done}/{count_planned(state)}"),
        ("seeds", f"{counts['complete'] + counts['failed']}/{seed_count}"),
        ("seeds failed", f"{counts['failed']}{f' ({reasons})' if reasons else ''}"),
        *_make_reason_rows(state),
        *_make_crashes_row(state),
        *([("tracebacks", f"{format_command('status', state.folder)} --trace")] if retry and not traces_follow else []),
        *([("when fixed, retry", retry)] if retry else []),
        *([("retry starts", retry_start)] if retry_start else []),
        *_make_stopped_row(state, seed_count),
        *_make_race_rows(state),
        *([] if noun == "run" else [(f"{noun}s", _count_ended_packs(state))]),  # a run is a seed
        *(("packs repacked", sentence) for sentence in describe_repackings(state.repackings)),
        *([] if ended else [("steps", done_share)]),
        *(_make_time_rows(state, done_steps, total_steps) if owner else []),
        ("best score" if ended else "best so far", f"{format_best_score(state)}{_describe_objective(state)}"),
    ]

    # Rows without content are left out, so that failed packs stand out.
    if page.is_file():
        rows.append(("page", str(page)))
    if state.published_at:
        rows.append(("published at", ", ".join(state.published_at)))
    if state.codes:
        rows.append(("code version", describe_code(state.codes[-1])))
    rows += [(f"{noun}s differ", sentence) for sentence in PackEnvironments.from_state(state).sentences]
    return rows


def _make_reason_rows(state: SweepState) -> list[tuple[str, str]]:
    """Return the rows on diverged seeds, then those on crashed ones: which and why, and the values that they share."""
    rows = make_failure_rows(state, read_search_labels(state.provenance)) + describe_shared_values(state)
    return sorted(rows, key=lambda row: not row[0].startswith("diverged"))


def _make_crashes_row(state: SweepState) -> list[tuple[str, str]]:
    """Return the row with the number of crashes, if packs were retried or go on after a crash."""
    # A pack that crashed once, and for good, is in the rows of failed seeds.
    crashed = [pack for pack in state.packs.values() if pack.attempts]
    if not any(len(pack.attempts) > 1 or pack.status != "failed" for pack in crashed):
        return []
    attempts = [text for pack in crashed for text in pack.attempts]
    noun = name_recorded_pack(state)
    text = f"{len(attempts)} in {format_count(len(crashed), noun)}, counting retries"

    # Errors of failed packs are in other rows.
    if lasting := [pack for pack in crashed if pack.status != "failed"]:
        completed = sum(pack.status == "complete" for pack in lasting)
        text += f"; {completed} of these {noun}s completed" if completed else ""
        text += f"; last: {lasting[-1].attempts[-1]}"
    return [("crashes", text)]


def _make_time_rows(state: SweepState, done_steps: int, total_steps: int) -> list[tuple[str, str]]:
    """Return rows with the time since the running driver began and, where the record has its speed, the time left."""
    began_at, last_at = state.sessions.spans[-1]
    now = max(time.time(), last_at)  # the driver may run on a machine whose clock is ahead
    rows = [("elapsed", format_duration(now - began_at))]

    # How many steps were done before a later driver began is not recorded.
    if len(state.sessions.spans) == 1 and 0 < done_steps < total_steps:
        seconds_left = (last_at - began_at) * (total_steps - done_steps) / done_steps - (now - last_at)
        rows += [("time left", f"about {format_duration(seconds_left)}")] if seconds_left >= 1.0 else []
    return rows


def _count_ended_packs(state: SweepState) -> str:
    """Return the number of packs that have ended and of all as text: "3/12"."""
    return f"{sum(pack.has_ended for pack in state.packs.values())}/{len(state.packs)}"


def _describe_objective(state: SweepState) -> str:
    """Return the metric, lengths and direction of the best score as text to append; empty without a score."""
    objective = state.spec.get("objective")
    if objective is None or find_best_configuration(state) is None:
        return ""
    metric = format_metric(objective["metric"], objective["average"])
    lengths = format_lengths(objective["lengths"], "selection")
    return f": {metric} at the {lengths}, {describe_better(objective['direction'])}"


def _make_confirms_row(state: SweepState) -> list[tuple[str, str]]:
    """Return the row with the confirmed search and the labels of the configurations in that search."""
    labels = [
        f"{format_label(number)} is {search_label}"
        for number, search_label in read_search_labels(state.provenance).items()
    ]
    return [("confirms", f"{state.provenance[CONFIRMS]['sweep']} ({', '.join(labels)} there)")] if labels else []


def _make_race_rows(state: SweepState) -> list[tuple[str, str]]:
    """Return a row for every rung that is decided and for every round of a race."""
    race = state.race
    rungs = [(f"rung at step {decision.step}", describe_rung(decision)) for decision in state.rungs]
    rounds = enumerate(race.rounds if race else (), start=1)
    return rungs + [
        (f"round {number}", describe_round(decision, race is not None and race.has_ended))
        for number, decision in rounds
    ]


def _make_stopped_row(state: SweepState, seeds: int) -> list[tuple[str, str]]:
    """Return the row of seeds that stopped early, if early stopping is on."""
    if not has_early_stops(state):
        return []
    steps = [step for configuration in state.configurations.values() for step in list_early_stops(configuration)]
    when = f", median at step {format_steps(statistics.median(steps))}" if steps else ""
    return [("seeds stopped early", f"{len(steps)}/{seeds}{when}")]


def make_trace_lines(state: SweepState) -> list[str]:
    """Return the lines that `status --trace` adds: every traceback, or why there is none."""
    if traces := list_traces(state):
        return [line for trace in traces for line in ("", *trace.splitlines())]
    if IMPORTED in state.provenance:
        return ["imported results have no tracebacks"]

    # Seeds that diverged raised no exception; what a script printed is in its folder.
    diverged = sum(member.status == "failed" and not member.has_crashed for member in state.members)
    if not diverged:
        return [f"no tracebacks: no {name_recorded_pack(state)} crashed"]
    output = f"; their output is in {state.folder / MEMBERS_FOLDER}" if "program" in state.spec else ""
    return [f"no tracebacks: {format_count(diverged, 'seed')} diverged, none crashed{output}"]


def list_traces(state: SweepState) -> list[str]:
    """Return every error that ended a pack, with its packs and its traceback; similar errors are listed once."""
    noun = name_recorded_pack(state)
    # What a script printed before its traceback differs between attempts that have the same cause.
    groups = group_errors(
        (f"{error}\n{_cut_output(trace or NO_TRACE)}", (pack.pack_id, f"{error}\n{trace or NO_TRACE}"))
        for pack in state.packs.values()
        for error, trace in zip(pack.attempts, pack.traces, strict=True)
    )
    return [
        f"{_describe_crashes(state, [pack_id for pack_id, _ in attempts], noun)}: {attempts[0][1]}".rstrip()
        for attempts in groups.values()
    ]


def _cut_output(trace: str) -> str:
    """Return a trace without the lines of a log before its first traceback; unchanged without a traceback."""
    return trace[max(0, trace.find("Traceback (most recent call last)")) :]


def _describe_crashes(state: SweepState, crashed: Sequence[str], noun: str) -> str:
    """Return which packs crashed how often: "2 packs crashed twice each (0c1b with #0 seeds 0-3, 3f00 with #2 seed 5)".

    `crashed` has the pack_id of each crash. Runs of a program have no pack_id: "2 runs crashed twice each (#0 seeds
    1-2)".
    """
    counts = Counter(crashed)
    if "program" in state.spec:
        names = name_pack_seeds(state, counts)
    else:
        names = join_first_few(
            [f"{pack_id} with {name_pack_seeds(state, [pack_id])}" for pack_id in counts], MAX_NAMED_PACKS
        )

    most = max(counts.values())
    times = {1: "", 2: " twice"}.get(most, f" {most} times") + (" each" if most > 1 and len(counts) > 1 else "")
    if min(counts.values()) < most:
        times = f" {len(crashed)} times in all"
    return f"{format_count(len(counts), noun)} crashed{times} ({names})"
