"""The story of a sweep: plan it, record where it came from, run its packs, score, publish, draw.

`run_sweep` begins one and `resume_sweep` goes on with one; from then on they are the same, and whatever happens is in
the ledger before anything else hears of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orchestrator.deaths import counted, death_sentence
from orchestrator.errors import LedgerError, SpecChanged, SweepExists
from orchestrator.plan import search
from orchestrator.plan.configurations import LARGEST_PACK, Configuration, Pack, make_packs, warnings_for
from orchestrator.plan.soundness import configurations_of
from orchestrator.record.curves import write_curves
from orchestrator.record.ledger import LEDGER_FILE, Ledger, Record
from orchestrator.record.provenance import provenance
from orchestrator.record.state import SweepState
from orchestrator.running.driver import SweepDriver, is_finished
from orchestrator.running.interrupts import EXIT_CODE, Interrupts
from orchestrator.running.meter import Meter
from orchestrator.running.progress import Progress
from orchestrator.running.ray_session import Cluster, connected
from search_spaces import SweepSpec, dump_yaml, load_sweep, with_new_names
from trainers.config.member import MemberConfig
from trainers.cost import Cost, estimate
from trainers.files.atomic_file import write_whole

if TYPE_CHECKING:
    from orchestrator.tracking.publish import Publisher

SPEC_FILE = "sweep.yaml"
PASSIVE = ("name", "description", "resources", "tracking")  # keys of a sweep file that do not change what is computed
UNWRITTEN = {"objective.evaluation": "last"}  # a default that resolved specifications leave out
STEP_FLOPS_CPU, STEP_FLOPS_GPU = 1.5e7, 1.0e10  # operations in the 2 ms that a step takes however few its members
MEMORY_SHARE = 0.5  # of what a worker has, for the members of one pack


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a sweep ended: complete, failed or interrupted, and the exit code that says so."""

    folder: Path
    status: str
    exit_code: int


def run_sweep(spec: SweepSpec, storage: Path, console: Console, origin: Mapping[str, Any] | None = None) -> Outcome:
    """Run a sweep in a new folder of `storage`; `origin` is added to what the ledger keeps of where it came from.

    Raises SweepFileError for anything in the spec that cannot be built, SweepExists or SpecChanged when the folder
    holds a sweep already, LedgerError when it cannot be written. Nothing is written before the first three are ruled
    out.
    """
    folder = storage / spec.name
    refuse_existing(spec, folder)
    check(spec, console)
    first = {
        "name": spec.name,
        "study": spec.study,
        "spec": spec.resolved(),
        "spec_hash": spec.spec_hash,
        "provenance": {**provenance(), **(origin or {})},
    }
    with Ledger.create(folder, first) as ledger:
        _write_spec(spec.resolved(), folder)
        _print(console, f"sweep {spec.name} in {folder.resolve()}")
        return _drive(spec, ledger, SweepState.load(folder), console)


def resume_sweep(
    folder: Path, console: Console, overrides: Sequence[str] = (), *, retry_failed: bool = False
) -> Outcome:
    """Go on with the sweep in `folder`; what is finished is not done again.

    With `retry_failed` packs that were given up are tried again, from their newest checkpoints, and their
    configurations are scored anew; seeds that diverged stay failed. A sampler that learns from scores keeps what it
    has drawn.

    Raises NotASweep, SweepLocked, DamagedLedger, and SpecChanged when sweep.yaml or `overrides` change more than
    resources and tracking.
    """
    with Ledger.open(folder) as ledger:
        if ledger.notice:
            _print(console, ledger.notice)
        state = SweepState.load(folder)
        if not (folder / SPEC_FILE).exists():
            _write_spec(state.spec, folder)
        spec = load_sweep(folder / SPEC_FILE, overrides)
        if changes := differences(state.spec, spec.resolved()):
            raise SpecChanged(folder, changes)
        if retry_failed:
            _reopen(ledger, state, console)
        done = sum(found.finished for found in state.configurations.values())
        share = f"{done} of {search.total(spec)} configurations are done"
        _print(console, f"sweep {spec.name} in {folder.resolve()}: {share}")
        if not is_finished(spec, state):
            state.apply(ledger.append("resume", provenance=provenance()))
        return _drive(spec, ledger, state, console)


def check(spec: SweepSpec, console: Console | None = None) -> list[Configuration]:
    """Build every configuration of the first generation, so that nothing is left to go wrong on a worker.

    Prints warnings to `console`. Raises SweepFileError with every problem found.
    """
    drawn = search.draw(spec, search.generations(spec)[0])
    configurations = configurations_of(spec, [(draw.number, draw.values) for draw in drawn])
    if console is not None:
        for warning in warnings_for(spec, configurations[0].member(spec.seeds[0])):
            _print(console, f"warning: {warning}")
    return configurations


def refuse_existing(spec: SweepSpec, folder: Path) -> None:
    """Raise SpecChanged with the differences, or SweepExists, when `folder` holds a sweep already."""
    if (folder / LEDGER_FILE).exists():
        if changes := differences(SweepState.load(folder).spec, spec.resolved()):
            raise SpecChanged(folder, changes)
        raise SweepExists(f"{folder} holds this sweep already; go on with it by: lengthwise resume {folder}")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, object, object]]:
    """(dotted key, before, now) of everything that would change what is computed."""
    before = with_new_names(before)
    old = UNWRITTEN | _flat({key: value for key, value in before.items() if key not in PASSIVE})
    new = UNWRITTEN | _flat({key: value for key, value in now.items() if key not in PASSIVE})
    keys = [*old, *(key for key in new if key not in old)]
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def packing(spec: SweepSpec, cluster: Cluster) -> Any:
    """How this sweep cuts configurations into packs on that cluster."""
    costs: dict[str, Cost] = {}
    per_step = STEP_FLOPS_GPU if spec.resources.gpus else STEP_FLOPS_CPU

    def cost(member: MemberConfig) -> Cost:
        if member.structural_key not in costs:
            costs[member.structural_key] = estimate(member)
        return costs[member.structural_key]

    def capacity(member: MemberConfig) -> int:
        if spec.resources.pack != "auto":
            return int(spec.resources.pack)
        fits = int(MEMORY_SHARE * cluster.bytes_per_worker / max(1, cost(member).bytes_per_member))
        return max(1, min(LARGEST_PACK, fits))

    def pack(configurations: list[Configuration], done: set[tuple[str, int]]) -> list[Pack]:
        return make_packs(
            configurations,
            spec.seeds,
            workers=cluster.workers,
            capacity=capacity,
            work=lambda member, count: (per_step + cost(member).flops_per_step * count) * member.optimization.steps,
            even=spec.resources.pack == "auto",
            done=done,
        )

    return pack


def _reopen(ledger: Ledger, state: SweepState, console: Console) -> None:
    pack_ids = [pack_id for pack_id, _ in state.deaths]
    if pack_ids:
        state.apply(ledger.append("retry", pack_ids=pack_ids))
        _print(console, f"{counted(len(pack_ids), 'pack')} that died will be tried again")
    else:
        _print(console, "no pack has died; there is nothing to try again")


def _drive(spec: SweepSpec, ledger: Ledger, state: SweepState, console: Console) -> Outcome:
    """From a ledger to the end of its sweep, or to the signal that interrupts it."""
    from orchestrator.running.scheduler import (
        run_packs,  # Ray Tune is slow to import and the rest of this module does without
    )

    progress, meter, publishing = Progress(console, spec.name), Meter(state), _Publishing(spec, ledger.folder)
    with Interrupts() as interrupts:

        def tick(driver: SweepDriver) -> None:
            interrupts.check()
            if progress.due:
                progress.show(meter.snapshot(driver))

        try:
            if not is_finished(spec, state):
                resources = spec.resources
                with connected(resources.cpus, resources.gpus) as cluster:
                    interrupts.install()  # ray.init has put its own handlers in their place
                    progress.say(f"{cluster.description}: up to {cluster.workers} packs at once")
                    driver = SweepDriver(
                        spec,
                        ledger,
                        state,
                        pack=packing(spec, cluster),
                        held=interrupts.held,
                        seen=publishing.seen,
                        say=progress.say,
                        tick=tick,
                    )
                    with progress.showing(), _recorded(ledger, state):
                        run_packs(
                            driver,
                            cpus=resources.cpus,
                            gpus=resources.gpus,
                            retries=resources.retries,
                            slots=min(cluster.workers + 1, 256),
                        )
            return _finish(ledger, state, console, publishing, interrupts)
        except KeyboardInterrupt:
            _record_interruption(ledger, state)
            _print(console, f"interrupted; go on with: lengthwise resume {ledger.folder}")
            return Outcome(folder=ledger.folder, status="interrupted", exit_code=EXIT_CODE)


@contextmanager
def _recorded(ledger: Ledger, state: SweepState) -> Iterator[None]:
    """Record an interruption at once: leaving Ray takes a while, and SIGKILL may follow in three seconds."""
    try:
        yield
    except KeyboardInterrupt:
        _record_interruption(ledger, state)
        raise


def _record_interruption(ledger: Ledger, state: SweepState) -> None:
    if state.ended is None:
        state.apply(ledger.append("end", status="interrupted", message="stopped by a signal"))


def present(folder: Path, console: Console) -> None:
    """Draw the report of a sweep, finished or not, and print its tables.

    Raises NotASweep, DamagedLedger and DamagedCurves.
    """
    from orchestrator.figures.maps import damaged_maps
    from orchestrator.report.files import read_summary, render_terminal, write_report

    result = read_summary(folder)
    page, table = write_report(folder, result)
    console.print(render_terminal(result))
    for line in damaged_maps(result):
        _print(console, f"no maps: {line}")
    _print(console, f"Report: {page}\nTable: {table}")


def _finish(
    ledger: Ledger, state: SweepState, console: Console, publishing: "_Publishing", interrupts: Interrupts
) -> Outcome:
    """Say how it ended, then draw everything that can be drawn again."""
    scores = [found.score for found in state.configurations.values()]
    succeeded = sum(score is not None and math.isfinite(score) for score in scores)
    status = "complete" if succeeded else "failed"
    message = f"{succeeded} of {len(scores)} configurations succeeded"
    deaths = death_sentence([error for _, error in state.deaths], ledger.folder)
    if state.ended not in ("complete", "failed"):
        with interrupts.held():
            state.apply(ledger.append("end", status=status, message=message))
    write_curves(state)
    present(ledger.folder, console)
    publishing.close(ledger, console)
    _print(console, f"{status}: {message}" + (f"; {deaths}" if deaths else ""))
    return Outcome(folder=ledger.folder, status=status, exit_code=0 if succeeded else 1)


class _Publishing:
    """The background publisher of a sweep, begun with its first score: mlflow is slow to import, and idle before."""

    def __init__(self, spec: SweepSpec, folder: Path) -> None:
        self._section, self._folder = spec.tracking, folder
        self._publisher: Publisher | None = None

    def seen(self, record: Record) -> None:
        """Publish what a score completes."""
        if record.kind == "score" and self._section.enabled:
            self._begun().notify()

    def close(self, ledger: Ledger, console: Console) -> None:
        """Publish the rest; what could not be published is said, recorded, and does not fail the sweep."""
        if not self._section.enabled:
            return
        publisher = self._begun()
        problem = publisher.close()
        published = publisher.latest
        uri = published.uri if published is not None else self._section.uri
        ledger.append("publish", uri=uri, ok=problem is None, message=problem or "")
        if problem is not None:
            _print(console, f"not published: {problem}")
        elif published is not None:
            for what, link in published.links:
                _print(console, f"{what}: {link}")

    def _begun(self) -> "Publisher":
        if self._publisher is None:
            from orchestrator.tracking.publish import Publisher

            self._publisher = Publisher(self._folder, self._section.uri, experiment=self._section.experiment)
        return self._publisher


def _write_spec(spec: dict[str, Any], folder: Path) -> None:
    path = folder / SPEC_FILE
    try:
        write_whole(path, [dump_yaml(spec).encode()])
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys; empty mappings and lists are values."""
    if not isinstance(value, Mapping) or (not value and prefix):
        return {prefix: list(value) if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
