"""Track the used budget of a running sweep, and find packs that fit into the remaining budget.

The time of a pack is estimated from the seconds per member-step of packs of the same structure, or of all packs if none
of that structure has trained. Before any pack has trained the estimate is zero.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.record.state.entities import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_duration
from search_spaces import Budget, SweepSpec


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One limit of a budget.

    `text` has the amounts that are used now and allowed. `used_after` is the amount that a forecast expects, `needed`
    the amount that the pack of the forecast needs. `option` is the option of `resume` that raises the limit.
    `blocked_pack_id` is the pack that the limit keeps from starting.
    """

    used_after: float
    allowed: float
    text: str
    needed: str = ""
    option: str = ""
    blocked_pack_id: str = ""


class SweepBudget:
    """The budget of a sweep while a driver runs it, with `max_seconds` for this driver alone."""

    def __init__(
        self,
        spec: SweepSpec,
        state: SweepState,
        max_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = spec.budget
        self._gpus = spec.resources.gpus
        self._state = state
        self._max_seconds = max_seconds
        self._clock = clock
        self._began_at = clock()
        self._seconds_before = state.sessions.seconds
        self._is_limited = max_seconds is not None or spec.budget != Budget()
        self._steps_before = state.trained.member_steps if self._is_limited else 0  # it reads all packs

    def find_pack_within_budget(self, queue: Iterable[str], running: Collection[str]) -> tuple[str | None, list[Limit]]:
        """Return the first of these packs that would end within the budget beside the running ones.

        If none would, return the limits that the first of them would exceed. Until this driver has recorded a step, its
        `max_seconds` keeps no pack from starting.
        """
        packs = self._state.packs
        if not self._is_limited:
            return next(iter(queue), None), []

        # A pack may need more than `max_seconds`, or the time until now may have used them up. Unless a pack starts
        # nevertheless, and stops at its next evaluation, no number of commands would complete the sweep.
        has_trained = self._state.trained.member_steps > self._steps_before
        max_seconds = self._max_seconds if has_trained else None

        # Smaller packs may still fit; if none does, the first pack explains why.
        step_times = _StepTimes(packs.values())
        blocking = list[Limit]()
        for pack_id in queue:
            others = [packs[other] for other in running if other != pack_id]
            limits = self._forecast_limits([packs[pack_id]], others, step_times, max_seconds)
            exceeded = [replace(limit, blocked_pack_id=pack_id) for limit in limits if limit.used_after > limit.allowed]
            if not exceeded:
                return pack_id, []
            blocking = blocking or exceeded
        return None, blocking

    def list_reached_limits(self) -> list[Limit]:
        """Return the limits that are used up; each `option` raises its limit enough for the packs in progress."""
        limits = list(self._list_limits_after(self._max_seconds))
        if all(limit.used_after < limit.allowed for limit in limits):
            return []

        # Otherwise a resumed sweep would stop again at once.
        begun_packs = [pack for pack in self._state.packs.values() if pack.step and not pack.has_ended]
        forecast = self._forecast_limits(begun_packs, (), _StepTimes(self._state.packs.values()), self._max_seconds)
        return [
            replace(limit, option=limit_after.option)
            for limit, limit_after in zip(limits, forecast, strict=True)
            if limit.used_after >= limit.allowed
        ]

    def _forecast_limits(
        self,
        chosen: Sequence[PackState],
        others: Sequence[PackState],
        step_times: "_StepTimes",
        max_seconds: float | None,
    ) -> Iterator[Limit]:
        """Return every limit with the amount used when these packs have ended.

        `others` run in parallel: their work counts, but only `chosen` decide the duration.
        """
        race = self._state.race
        pause_at = race.next_rung.step if race and race.next_rung else None

        # The slowest chosen pack determines the time; work adds up over all packs.
        packs = [*chosen, *others]
        steps = [_count_steps_left(pack, pause_at) for pack in packs]
        seconds = [step_times.estimate(pack) * count for pack, count in zip(packs, steps, strict=True)]
        return self._list_limits_after(max_seconds, max(seconds[: len(chosen)], default=0.0), sum(seconds), sum(steps))

    def _list_limits_after(
        self, max_seconds: float | None, seconds: float = 0.0, pack_seconds: float = 0.0, steps: int = 0
    ) -> Iterator[Limit]:
        """Yield every limit with its use after this many more seconds, pack-seconds and steps."""
        # The option --max-time limits this driver alone, the budget all drivers together.
        elapsed, budget = self._clock() - self._began_at, self._budget
        if (allowed := max_seconds) is not None:
            text = f"{format_duration(elapsed)} of --max-time {format_duration(allowed)}"
            yield Limit(used_after=elapsed + seconds, allowed=allowed, text=text, needed=format_duration(seconds))
        if (allowed := budget.hours) is not None:
            used = (self._seconds_before + elapsed) / 3600
            yield _make_limit("hours", used, seconds / 3600, allowed, f"{used:.3g} of {allowed:g} hours")

        # GPU time and steps add up over packs that run in parallel.
        if (allowed := budget.gpu_hours) is not None:
            used, needed = (amount * self._gpus / 3600 for amount in (self._state.trained.seconds, pack_seconds))
            yield _make_limit("gpu_hours", used, needed, allowed, f"{used:.3g} of {allowed:g} GPU-hours")
        if (allowed := budget.member_steps) is not None:
            used = self._state.trained.member_steps
            yield _make_limit("member_steps", used, steps, allowed, f"{used:,} of {allowed:,.0f} member-steps")


class _StepTimes:
    """The seconds that a step of a member takes, estimated from the packs that have trained."""

    def __init__(self, packs: Iterable[PackState]) -> None:
        # Sums by structure, because structures differ in their speed.
        self._all_packs = _Sums()
        self._by_structure: dict[str, _Sums] = {}
        for pack in packs:
            if pack.step:
                for sums in (self._all_packs, self._by_structure.setdefault(pack.structural_key, _Sums())):
                    sums.seconds += pack.seconds
                    sums.member_steps += pack.sum_member_steps(pack.step)

    def estimate(self, pack: PackState) -> float:
        """Return the seconds for a step of a member of `pack`, 0 before any pack has trained."""
        sums = self._by_structure.get(pack.structural_key, self._all_packs)
        return sums.seconds / sums.member_steps if sums.member_steps else 0.0


@dataclass
class _Sums:
    """The seconds and member-steps of several packs together."""

    seconds: float = 0.0
    member_steps: int = 0


def _make_limit(key: str, used: float, needed: float, allowed: float, text: str) -> Limit:
    """Return a limit of the sweep file; its option sets twice the limit, or twice the amount after the forecast."""
    used_after = used + needed
    return Limit(
        used_after=used_after,
        allowed=allowed,
        text=text,
        needed=f"{needed:,}" if isinstance(needed, int) else f"{needed:.3g}",
        option=f"--set budget.{key}={2 * max(used_after, allowed):g}",
    )


def _count_steps_left(pack: PackState, pause_at: int | None) -> int:
    """Return the member-steps of a pack until it ends or pauses at a rung; 0 if it has ended."""
    end_step = pack.steps if pause_at is None else max(pause_at, pack.step)
    return 0 if pack.has_ended else pack.sum_member_steps(end_step) - pack.sum_member_steps(pack.step)
