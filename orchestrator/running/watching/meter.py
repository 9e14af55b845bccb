"""Measure the progress of a running sweep: its speed, the time left, the best score so far."""

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.labels import make_label
from orchestrator.record.state.lineage import may_have_checkpoint
from orchestrator.record.state.race import read_common_seeds
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.search_design import count_planned, count_specified
from orchestrator.results.scoring.validation_scores import has_early_stops
from orchestrator.running.driving.running_pack import RunningPack
from orchestrator.statistics.failed_seeds import get_sign
from orchestrator.text.wording import describe_better, format_count, format_duration, format_metric, format_number

MIN_STARTS = 4  # the first pack shows the speed of all once it has trained this many times as long as it started
PHASES = {"compile": "compiling", "train": "training", "evaluate": "evaluating"}


class SpeedMeter:
    """The speed of a sweep since the creation of this meter, without the work of earlier drivers.

    A pack that resumes may start from a checkpoint newer than the record, so it counts from the step at which it is
    first seen.
    """

    def __init__(self, state: SweepState) -> None:
        self._began_at = time.monotonic()
        self._is_first_driver = len(state.sessions.spans) <= 1
        # Packs that train again steps that are recorded, because they have no checkpoint.
        self._restarting = {
            pack.pack_id
            for pack in state.packs.values()
            if pack.step and not pack.has_ended and not may_have_checkpoint(state, pack)
        }
        self._steps_before = count_steps_done(state, restarting=self._restarting)
        self._ended_before = {pack.pack_id for pack in state.packs.values() if pack.has_ended}
        self._first_steps: dict[str, int] = {}  # by pack_id: the step at which it was first seen training
        self._started_at: float | None = None  # the time at which a worker was first seen with a pack
        self._training_since: float | None = None  # the time at which a pack was first seen training

    def make_rows(
        self, state: SweepState, running: Mapping[str, RunningPack], interim_best: str = ""
    ) -> list[tuple[str, str]]:
        """Return the current progress of a sweep with these running packs as rows of label and text.

        `interim_best` is the best configuration before any has ended.
        """
        # A pack that has trained all recorded steps again counts like any other.
        self._restarting -= {pack_id for pack_id, pack in running.items() if pack.step >= state.packs[pack_id].step}
        now, steps = time.monotonic(), count_steps_done(state, running, self._restarting)
        if running and self._started_at is None:
            self._started_at = now
        for pack_id in running.keys() - self._first_steps.keys():
            if steps[pack_id] > self._steps_before.get(pack_id, 0):
                self._first_steps[pack_id] = steps[pack_id]
                self._training_since = self._training_since or now

        speed = self._measure_speed(state, running, steps, now)
        return make_progress_rows(
            state,
            running,
            elapsed=now - self._began_at,
            speed=speed,
            phase=self._describe_phase(state, running, steps),
            interim_best=interim_best,
            restarting=self._restarting,
        )

    def _describe_phase(self, state: SweepState, running: Mapping[str, RunningPack], steps: Mapping[str, int]) -> str:
        """Return as text what the running packs do, from the steps done by pack_id; "-" between packs."""
        phases = {PHASES.get(pack.phase, pack.phase) for pack in running.values() if pack.phase != "starting"}
        if phases:
            return ", ".join(sorted(phases))

        # Workers have started once a pack has trained or ended under this driver.
        have_started = any(count > self._steps_before.get(pack_id, 0) for pack_id, count in steps.items())
        if have_started or any(
            pack.has_ended for pack in state.packs.values() if pack.pack_id not in self._ended_before
        ):
            return "starting the next seeds" if running else "-"
        return "starting workers"

    def _measure_speed(
        self, state: SweepState, running: Mapping[str, RunningPack], steps: Mapping[str, int], now: float
    ) -> float:
        """Return the member-steps per second, from those done by pack_id; 0.0 while the speed is unknown."""
        # Over less than a second it is too inaccurate to show.
        if self._training_since is None or self._started_at is None or now - self._training_since <= 1.0:
            return 0.0
        steps_before, began_at = self._steps_before | self._first_steps, self._training_since

        # Packs that wait must start, too: how long that takes is known once one has ended, or matters little.
        is_waiting = any(not pack.has_ended and pack.pack_id not in running for pack in state.packs.values())
        if is_waiting or count_seeds(state) > len(state.members):
            ended = {pack.pack_id for pack in state.packs.values() if pack.has_ended}
            start_seconds = self._training_since - self._started_at
            if ended <= self._ended_before and now - self._training_since < MIN_STARTS * start_seconds:
                return 0.0
            steps_before = self._steps_before if self._is_first_driver else steps_before
            began_at = self._started_at
        return sum(max(count - steps_before.get(pack_id, 0), 0) for pack_id, count in steps.items()) / (now - began_at)


def make_progress_rows(
    state: SweepState,
    running: Mapping[str, RunningPack],
    *,
    elapsed: float,
    speed: float,
    phase: str,
    interim_best: str = "",
    restarting: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Return the progress of a sweep with these running packs as rows of label and text.

    The rows of a sweep stay the same from its start to its end, so that a live table does not jump. In a race, totals
    and time left are for the present round. `speed`, in member-steps per second, is shown until a pack has measured its
    own speed; `interim_best`, the best configuration before any has ended, until one has a score. For `restarting` see
    `count_steps_done`.
    """
    # Running packs measure their own speed, which is newer than the sweep's.
    done, total = sum(count_steps_done(state, running, restarting).values()), count_steps(state)
    counts = Counter(member.status for member in state.members)
    started = [state.packs[pack_id] for pack_id, running_pack in running.items() if running_pack.phase != "starting"]
    in_training = sum(member.status in ("planned", "running") for pack in started for member in pack.member_states)
    training_text = f", {in_training} training" if in_training else ""
    member_steps_per_second = sum(running_pack.member_steps_per_second for running_pack in running.values()) or speed

    objective = state.spec.get("objective")
    metric = format_metric(objective["metric"], objective["average"]) if objective else ""

    # A race and early stopping have rows that other sweeps do not show.
    rows = [("round of the race", str(len(state.race.rounds)))] if state.race else []
    rows += [
        ("seeds", f"{counts['complete'] + counts['failed']}/{count_seeds(state)}{training_text}"),
        ("seeds failed", str(counts["failed"])),
    ]
    if has_early_stops(state):
        rows.append(("seeds stopped early", str(sum(member.stopped_at is not None for member in state.members))))
    rows.append(("configurations", f"{state.configurations_done}/{count_planned(state)}"))
    return [
        *rows,
        ("first evaluation", _describe_first_evaluation(state, running)),
        ("best so far", format_best_score(state, interim_best or "none yet")),
        *([("scored by", f"{metric}, {describe_better(objective['direction'])}")] if objective else []),
        ("steps", f"{100 * done / total:.0f} %, {member_steps_per_second:,.0f} per second" if total else "-"),
        ("elapsed", format_duration(elapsed)),
        ("time left", _describe_time_left(total - done, speed)),
        ("phase", phase),
    ]


def _describe_time_left(steps: int, speed: float) -> str:
    """Return as text how long these member-steps take at a speed; without steps only the last evaluation is left."""
    if not speed:
        return "-"
    return f"about {format_duration(steps / speed)}" if steps else "the last evaluation"


def _describe_first_evaluation(state: SweepState, running: Mapping[str, RunningPack]) -> str:
    """Return as text when the first evaluation of a sweep begins; "done" after it, "-" if that is unknown."""
    if any(pack.evaluations for pack in state.packs.values()):
        return "done"
    seconds = _estimate_first_evaluation(state, running)
    if seconds is None:
        return "-"
    return f"begins in about {format_duration(seconds)}" if seconds else "under way"


def _estimate_first_evaluation(state: SweepState, running: Mapping[str, RunningPack]) -> float | None:
    """Return the seconds until the first evaluation of a sweep begins, by the speed that running packs have measured.

    0 during an evaluation; None before a pack has measured its speed.
    """
    seconds = []
    for pack_id, running_pack in running.items():
        pack = state.packs[pack_id]
        interval = state.configurations[pack.members[0][0]].resolved.get("evaluation", {}).get("every") or pack.steps
        if running_pack.phase == "evaluate":
            seconds.append(0.0)
        elif running_pack.member_steps_per_second:
            steps = min((running_pack.step // interval + 1) * interval, pack.steps) - running_pack.step
            seconds.append(steps * len(pack.members) / running_pack.member_steps_per_second)
    return min(seconds, default=None)


def count_seeds(state: SweepState) -> int:
    """Return the seeds of all configurations, also of those not drawn yet."""
    drawn = sum(len(state.list_planned_seeds(config_id)) for config_id in state.configurations)
    return drawn + (count_specified(state.spec) - len(state.draws)) * len(read_common_seeds(state.specs))


def count_steps(state: SweepState) -> int:
    """Return the member-steps of the sweep; members that are in no pack yet count as the mean of the others.

    In a race, configurations that are not pruned yet count as trained to the end. A failed pack has only the steps that
    it trained, so that a sweep with crashed seeds ends at 100 %.
    """
    packs = state.packs.values()
    planned_steps = sum(pack.sum_member_steps(pack.steps) for pack in packs)
    packed = sum(len(pack.members) for pack in packs)
    unpacked_steps = round(planned_steps * max(count_seeds(state) - packed, 0) / packed) if packed else 0
    failed_packs = [pack for pack in packs if pack.status == "failed"]
    lost_steps = sum(pack.sum_member_steps(pack.steps) - pack.sum_member_steps(pack.step) for pack in failed_packs)
    return planned_steps + unpacked_steps - lost_steps


def find_best_configuration(state: SweepState) -> ConfigurationState | None:
    """Return the configuration with the best finite score, in a race among its contenders; None without a score.

    While it trains more seeds, its earlier score counts.
    """
    return next((configuration for _, _, configuration in _rank_configurations(state)), None)


def _rank_configurations(state: SweepState) -> list[tuple[float, int, ConfigurationState]]:
    """Return (score, number, configuration) of each finite score, the best first; maximized scores are negated."""
    sign = get_sign(state.spec.get("objective", {}).get("direction", "minimize"))
    candidates = [
        state.configurations[config_id] for config_id in (state.race.contenders if state.race else state.configurations)
    ]
    # Numbers are distinct, so configurations themselves are never compared.
    return sorted(
        (sign * score, configuration.number, configuration)
        for configuration in candidates
        for score in configuration.scores[-1:]
        if score is not None and math.isfinite(score) and configuration.pruned_at is None
    )


def format_best_score(state: SweepState, placeholder: str = "none yet") -> str:
    """Return the best score so far with its configuration, "0.0262 (#8)"; `placeholder` without one.

    The label is the same as in the report; in a confirmation it is the label in the search. Ties are counted.
    """
    ranked = _rank_configurations(state)
    if not ranked:
        return placeholder
    score, number, best = ranked[0]
    ties = sum(other == score for other, *_ in ranked) - 1
    tied = f" tied with {format_count(ties, 'other')}" if ties else ""  # a line of a log ends a row at its first comma
    return f"{format_number(best.scores[-1])} ({make_label(state.provenance, number)}{tied})"


def count_steps_done(
    state: SweepState,
    running: Mapping[str, RunningPack] = MappingProxyType({}),
    restarting: Collection[str] = (),
) -> dict[str, int]:
    """Return the member-steps done by pack_id, recorded or reported by its heartbeat; all steps of a complete pack.

    restarting: packs whose recorded steps are trained again, so that they do not count.
    """
    steps = {}
    for pack in state.packs.values():
        step = pack.steps if pack.status == "complete" else pack.step
        if pack.pack_id in restarting and not pack.has_ended:
            step = 0
        if pack.pack_id in running:
            step = max(step, running[pack.pack_id].step)
        steps[pack.pack_id] = pack.sum_member_steps(step)
    return steps
