"""Measures a running sweep: from a driver to what a person wants to know about it."""

import math
import statistics
import time
from collections import Counter

from orchestrator.plan import search
from orchestrator.record.ledger.lock import running
from orchestrator.record.state.parts import ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.results.ran_under import RanUnder, code_sentence
from orchestrator.results.scoring.validation_scores import may_stop, stopped_at
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.watching.progress import Snapshot
from orchestrator.wording import command, counted, label

NO_TRACE = "no traceback was kept: the process died and left none, or an earlier version of lengthwise ran it"
PHASES = {"starting": "starting workers", "compile": "compiling", "train": "training", "evaluate": "evaluating"}


class Meter:
    """Counts from the moment it is made: what an earlier driver did does not enter the rates."""

    def __init__(self, state: SweepState) -> None:
        self._began = time.monotonic()
        self._before = sum(_steps_done(state).values())
        self._moving: float | None = None  # when the first step of this driver was seen

    def snapshot(self, driver: SweepDriver) -> Snapshot:
        """Where the sweep stands now."""
        state, spec, now = driver.state, driver.spec, time.monotonic()
        steps = _steps_done(state)
        for pack_id, at in driver.running.items():
            pack = state.packs[pack_id]
            steps[pack_id] = max(steps[pack_id], at.step * len(pack.members))
        done, total = sum(steps.values()), self._total(driver)
        if self._moving is None and done > self._before:
            self._moving = now
        speed = (done - self._before) / (now - self._moving) if self._moving and now - self._moving > 1.0 else 0.0
        members = [member for found in state.configurations.values() for member in found.members.values()]
        ended = Counter(member.status for member in members)
        best = best_configuration(state)
        phases = Counter(PHASES.get(at.phase, at.phase) for at in driver.running.values())
        planned = search.total(spec)
        duplicates = len(state.draws) - len(state.configurations)
        return Snapshot(
            phase=", ".join(sorted(phases)) or "starting workers",
            configurations_done=sum(found.finished for found in state.configurations.values()),
            configurations_total=planned - duplicates,
            packs_running=len(driver.running),
            packs_done=sum(pack.status in ("complete", "failed") for pack in state.packs.values()),
            packs_total=len(state.packs),
            seeds_done=ended["complete"] + ended["failed"],
            seeds_total=(planned - duplicates) * len(spec.seeds),
            seeds_failed=ended["failed"],
            best_score=best.score if best else None,
            best_number=best.number if best else None,
            member_steps=done,
            member_steps_total=total,
            rate=sum(at.rate for at in driver.running.values()),
            elapsed=now - self._began,
            time_left=(total - done) / speed if speed else None,
            seeds_stopped=sum(one.stopped_at is not None for one in members) if may_stop(state) else None,
        )

    def _total(self, driver: SweepDriver) -> int:
        """Member-steps of the whole sweep; configurations not drawn yet count as the mean of those that are."""
        state, planned = driver.state, search.total(driver.spec)
        known = sum(pack.steps * len(pack.members) for pack in state.packs.values())
        drawn = len(state.draws)
        return round(known * planned / drawn) if drawn else 0


def best_configuration(state: SweepState) -> ConfigurationState | None:
    """The finished configuration with the best finite score, None while there is none."""
    sign = 1.0 if state.spec.get("objective", {}).get("direction") != "maximize" else -1.0
    ranked = [
        (sign * found.score, found.number, found)
        for found in state.configurations.values()
        if found.score is not None and math.isfinite(found.score)
    ]
    return min(ranked)[2] if ranked else None  # numbers are distinct: configurations themselves are never compared


def status_rows(state: SweepState) -> list[tuple[str, str]]:
    """Label and text of where a recorded sweep stands, for somebody who is not its driver."""
    members = [member for found in state.configurations.values() for member in found.members.values()]
    ended = Counter(member.status for member in members)
    crashed = sum(member.status == "failed" and member.failed_at is None for member in members)
    best, owner = best_configuration(state), running(state.folder)
    steps = _steps_done(state)
    total = sum(pack.steps * len(pack.members) for pack in state.packs.values())
    standing = f"running, by {owner}" if owner else state.ended or "not running"
    attempts = [text for pack in state.packs.values() for text in pack.attempts]
    finished = sum(found.finished for found in state.configurations.values())
    rows = [
        ("sweep", f"{state.name} (study {state.study}) in {state.folder}"),
        ("state", f"{standing}: {state.message}" if state.message else standing),
        *([] if owner or state.ended in ("complete", "failed") else [("go on with", command("resume", state.folder))]),
        ("configurations", f"{finished}/{len(state.configurations)}"),
        ("seeds", f"{ended['complete'] + ended['failed']}/{len(members)}"),
        ("seeds failed", f"{ended['failed']} ({crashed} crashed, {ended['failed'] - crashed} diverged)"),
        *_stopped_row(state, len(members)),
        ("packs", f"{sum(pack.status in ('complete', 'failed') for pack in state.packs.values())}/{len(state.packs)}"),
        ("member-steps", f"{100 * sum(steps.values()) / total:.0f} %" if total else "none yet"),
        ("best so far", f"{best.score:.4g} ({label(best.number)})" if best else "none yet"),
    ]
    if state.codes:
        rows.append(("code", code_sentence(state.codes[-1])))
    rows += [("packs differ", sentence) for sentence in RanUnder.from_state(state).sentences]
    if attempts:
        rows.append(("packs that died", f"{len(attempts)}, last: {attempts[-1]}"))
    rows += [("pack given up", f"{pack_id}: {error}") for pack_id, error in state.deaths]
    if state.deaths:
        rows.append(("try them again", f"{command('resume', state.folder)} --retry-failed"))
    return rows


def _stopped_row(state: SweepState, members: int) -> list[tuple[str, str]]:
    """How many seeds stopped early and when, where they may."""
    if not may_stop(state):
        return []
    steps = [step for found in state.configurations.values() for step in stopped_at(found)]
    when = f", median at step {statistics.median(steps):,g}" if steps else ""
    return [("seeds stopped early", f"{len(steps)}/{members}{when}")]


def trace_lines(state: SweepState) -> list[str]:
    """Every error that ended a pack with its traceback, each once, and the packs that it ended."""
    packs: dict[tuple[str, str | None], list[str]] = {}
    for pack in state.packs.values():
        for error, trace in zip(pack.attempts, pack.traces, strict=True):
            packs.setdefault((error, trace), []).append(pack.pack_id)
    if not packs:
        return ["no pack has died: there is no traceback"]
    lines = []
    for (error, trace), of in packs.items():
        names = list(dict.fromkeys(of))
        lines += ["", f"{counted(len(of), 'attempt')} of {counted(len(names), 'pack')} ({', '.join(names)}): {error}"]
        lines += (trace or NO_TRACE).rstrip().splitlines()
    return lines


def _steps_done(state: SweepState) -> Counter[str]:
    """Member-steps of every pack as the ledger has them; an ended pack has nothing left to do."""
    ended = ("complete", "failed")
    return Counter(
        {
            pack.pack_id: (pack.steps if pack.status in ended else pack.step) * len(pack.members)
            for pack in state.packs.values()
        }
    )
