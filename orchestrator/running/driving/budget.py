"""The budget a running sweep has used, and which packs fit into the rest.

The time of a pack is estimated from the seconds per member-step of packs of the same structure, or of all packs if none
of that structure has trained. Before any pack has trained the estimate is zero.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from orchestrator.record.state.parts import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_duration
from search_spaces import Budget, SweepSpec


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One limit of a budget: the used and allowed amounts, their text, and the option of `resume` that raises it."""

    used: float
    allowed: float
    words: str
    option: str = ""


class SweepBudget:
    """The budget of a sweep while a driver runs it, with `max_seconds` for this driver alone."""

    def __init__(
        self,
        spec: SweepSpec,
        state: SweepState,
        max_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget, self._gpus, self._state = spec.budget, spec.resources.gpus, state
        self._max_seconds, self._clock, self._began = max_seconds, clock, clock()
        self._before = state.sessions.seconds
        self._is_limited = max_seconds is not None or spec.budget != Budget()

    def first_fitting(self, queue: Iterable[str], running: Collection[str]) -> tuple[str | None, list[Limit]]:
        """Return the first of these packs that would end within the budget beside the running ones.

        If none would, return the limits that the first of them would exceed.
        """
        packs = self._state.packs
        if not self._is_limited:
            return next(iter(queue), None), []

        # Without a fitting pack, name the limits that the first one would exceed.
        forecast, blocking = self._forecast(), list[Limit]()
        for pack_id in queue:
            limits = forecast([packs[pack_id]], [packs[name] for name in running if name != pack_id])
            exceeded = [limit for limit in limits if limit.used > limit.allowed]
            if not exceeded:
                return pack_id, []
            blocking = blocking or exceeded
        return None, blocking

    def used_up(self) -> list[Limit]:
        """Return the reached limits, [] if none; the option of each raises it enough for the packs that have begun."""
        limits = list(self._limits_after())
        if all(limit.used < limit.allowed for limit in limits):
            return []

        # The option of a limit that is reached comes from a forecast for the packs that have begun.
        begun = [pack for pack in self._state.packs.values() if pack.step and not pack.has_ended]
        later = self._forecast()(begun, ())
        return [
            replace(limit, option=after.option)
            for limit, after in zip(limits, later, strict=True)
            if limit.used >= limit.allowed
        ]

    def _forecast(self) -> Callable[[Sequence[PackState], Sequence[PackState]], Iterator[Limit]]:
        """Return a function `limits(own, others)` that yields the use of every limit once these packs have ended.

        `others` run in parallel: their work is counted, but only `own` decide how long it takes.
        """
        race = self._state.race
        pause_at = race.next_rung.step if race and race.next_rung else None
        rate, steps_left = self._seconds_per_step(), partial(_count_steps_left, pause_at)

        def limits(own: Sequence[PackState], others: Sequence[PackState]) -> Iterator[Limit]:
            packs = [*own, *others]
            seconds = [rate(pack) * steps_left(pack) for pack in packs]
            longest = max(seconds[: len(own)], default=0.0)
            return self._limits_after(longest, sum(seconds), sum(map(steps_left, packs)))

        return limits

    def _limits_after(self, seconds: float = 0.0, pack_seconds: float = 0.0, steps: int = 0) -> Iterator[Limit]:
        """Yield every limit with its use after this many more seconds, pack-seconds and steps."""
        # The time of this driver alone, then of all drivers together.
        elapsed, budget = self._clock() - self._began, self._budget
        if (allowed := self._max_seconds) is not None:
            words = f"{format_duration(elapsed)} of --max-time {format_duration(allowed)}"
            yield Limit(used=elapsed + seconds, allowed=allowed, words=words)
        if (allowed := budget.hours) is not None:
            used = (self._before + elapsed) / 3600
            words, used = f"{used:.3g} of {allowed:g} hours", used + seconds / 3600
            yield Limit(used=used, allowed=allowed, words=words, option=_make_option("hours", used, allowed))

        # The GPU time and the steps of all packs.
        if (allowed := budget.gpu_hours) is not None:
            used = self._state.trained.seconds * self._gpus / 3600
            words, used = f"{used:.3g} of {allowed:g} GPU-hours", used + pack_seconds * self._gpus / 3600
            yield Limit(used=used, allowed=allowed, words=words, option=_make_option("gpu_hours", used, allowed))
        if (allowed := budget.member_steps) is not None:
            used = self._state.trained.member_steps
            words, used = f"{used:,} of {allowed:,.0f} member-steps", used + steps
            yield Limit(used=used, allowed=allowed, words=words, option=_make_option("member_steps", used, allowed))

    def _seconds_per_step(self) -> Callable[[PackState], float]:
        """Return the estimated seconds per step of a member, from the packs that have trained."""
        # Sum (seconds, member-steps) over all packs, and over the packs of each structure.
        all_packs, by_structure = [0.0, 0], dict[str, list[float]]()
        for pack in self._state.packs.values():
            for sums in (all_packs, by_structure.setdefault(pack.structural_key, [0.0, 0])) if pack.step else ():
                sums[0] += pack.seconds
                sums[1] += pack.sum_member_steps(pack.step)

        def rate(pack: PackState) -> float:
            seconds, steps = by_structure.get(pack.structural_key, all_packs)
            return seconds / steps if steps else 0.0

        return rate


def _make_option(key: str, used: float, allowed: float) -> str:
    """Return the option of `resume` that sets twice the limit, or twice the used amount if that is larger."""
    return f" --set budget.{key}={2 * max(used, allowed):g}"


def _count_steps_left(pause_at: int | None, pack: PackState) -> int:
    """Return the member-steps of a pack until it ends or pauses at a rung; 0 if it has ended."""
    until = pack.steps if pause_at is None else max(pause_at, pack.step)
    return 0 if pack.has_ended else pack.sum_member_steps(until) - pack.sum_member_steps(pack.step)
