"""What a sweep would run and cost, before it runs: configurations, packs, time from a short calibration, memory."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.code.own_code import import_for
from orchestrator.errors import UserError
from orchestrator.plan import search
from orchestrator.plan.distributions import evaluated_sets, further_distributions
from orchestrator.plan.packs import LARGEST_PACK_CPU, Cluster, Pack, cost_of, makespan, packing, steps_worth
from orchestrator.plan.soundness import check
from orchestrator.preview.upload import measure
from orchestrator.record.kept.weights import bytes_per_member
from orchestrator.running.pack.gpu_memory import gpus_here, share_of
from orchestrator.running.schedulers import inline, local
from orchestrator.running.schedulers.choice import chosen
from orchestrator.wording import counted, duration
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.training import compiling
from trainers.training.cost import Cost, calibrate

CALIBRATIONS = 3  # structures that are measured; the time of others follows from their operations
PATIENCE = 1e12  # operations of a step, in all its members, up to which it is measured: a minute on one core
MEMORY_SHARE = 0.5  # of what is free, up to which a step is measured
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
START_SECONDS = {"ray": 12.0, "local": 6.0, "inline": 5.0}  # Ray and its workers, and the report at the end


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A plan in numbers. `seconds` are of the sweep on so many `workers`, None where this machine cannot tell.

    `informed` says how many configurations are drawn by results, None where the sampler reads none. `evaluated`: the
    lengths by distribution, None where there is but one. `stops`: members may stop early, so
    that time and operations are the most that it takes.
    """

    configurations: int
    informed: str | None
    seeds: int
    packs: int
    members_per_pack: tuple[int, ...]
    structures: int
    steps: tuple[int, ...]
    scheduler: str
    workers: int
    seconds: float | None
    operations: float
    bytes_per_pack: int
    parameters: tuple[int, ...]
    weights_bytes: int
    keeps_weights: bool
    later: int
    compiles: bool
    compiled: tuple[str, ...]
    evaluated: str | None
    stops: bool
    gpus: bool
    warnings: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Label and text, in order."""
        sizes = sorted(Counter(self.members_per_pack).items(), reverse=True)
        packs = " and ".join(f"{counted(count, 'pack')} of {counted(size, 'member')}" for size, count in sizes)
        later = f" (and {self.later} more configurations, drawn when scores are known)" if self.later else ""
        return [
            ("configurations", f"{self.configurations}{later}"),
            *([("drawn by results", self.informed)] if self.informed else []),
            ("seeds", str(self.seeds)),
            ("packs", f"{packs} ({counted(self.structures, 'structure')})"),
            ("steps", ", ".join(str(step) for step in self.steps)),
            *([("evaluated at", self.evaluated)] if self.evaluated else []),
            ("parameters", ", ".join(f"{count:,}" for count in self.parameters) + " per member"),
            ("memory", f"about {self.bytes_per_pack / 2**20:,.0f} MiB for the largest pack"),
            ("weights", self._weights()),
            ("operations", f"{'at most ' if self.stops else ''}{self.operations:.2g} in training{self._bound()}"),
            ("compiled", self._compiled()),
            ("scheduler", self.scheduler),
            ("time", self._time()),
        ]

    def _time(self) -> str:
        if self.seconds is None:
            return "not measured: a step is too large for this machine"
        compiled = ", measured uncompiled: compiling takes about 15 s once and then saves time" if self.compiles else ""
        if self.gpus:
            compiled = ", measured on a CPU core of this machine: a GPU is not looked at"
        most = "at most " if self.stops else ""
        return f"{most}about {duration(self.seconds)} with {counted(self.workers, 'pack')} at once{compiled}"

    def _bound(self) -> str:
        return ": members may stop early (training.stop), and this goes to the last step" if self.stops else ""

    def _compiled(self) -> str:
        more = f" (and {len(self.compiled) - 2} more)" if len(self.compiled) > 2 else ""
        return "; ".join(self.compiled[:2]) + more

    def _weights(self) -> str:
        size = _size(self.weights_bytes)
        return f"{size} will be kept" if self.keeps_weights else f"not kept; resources.keep_weights would keep {size}"


def forecast(spec: SweepSpec, workers: int | None, working_dir: Path) -> Forecast:
    """Build the whole plan without running it and measure a few steps of its costliest structures.

    Raises SweepFileError with every problem of the sweep file, UserError for more workers than can be.
    """
    configurations = check(spec)
    here = _cluster(spec, workers)
    scheduler, why = chosen(spec, (configuration.member(spec.seeds[0]) for configuration in configurations))
    packs = packing(spec, here)(configurations, set())
    by_id = {configuration.config_id: configuration for configuration in configurations}
    examples = {pack.structural_key: by_id[pack.members[0][0]].member(pack.members[0][1]) for pack in packs}
    costs = {key: cost_of(member) for key, member in examples.items()}
    kept = {key: bytes_per_member(member, costs[key]) for key, member in examples.items()}
    work = [costs[pack.structural_key].flops_per_step * len(pack.members) * pack.steps for pack in packs]
    seconds = _seconds(packs, examples, costs)
    distinct = [configuration for configuration in configurations if configuration.duplicate_of is None]
    later = search.total(spec) - len(configurations)
    upload = measure(working_dir)
    warnings = [upload.describe()] if upload.too_large else []
    warnings += [
        f"{source.module} lies in {source.root}, outside of {upload.folder}, and would not travel with a job"
        for source in import_for(spec)
        if not source.installed and not source.root.is_relative_to(upload.folder)
    ]
    if len(distinct) < len(configurations):
        warnings.append(f"{len(configurations) - len(distinct)} configurations repeat earlier ones and are run once")
    whole = search.total(spec) / len(configurations)
    gpus = spec.resources.gpus > 0
    device = "cuda" if gpus else "cpu"
    return Forecast(
        configurations=len(distinct),
        informed=_informed(spec),
        seeds=len(spec.seeds),
        packs=len(packs),
        members_per_pack=tuple(len(pack.members) for pack in packs),
        structures=len(examples),
        steps=tuple(sorted({pack.steps for pack in packs})),
        scheduler=f"{scheduler}: {why}",
        workers=here.workers,
        seconds=START_SECONDS[scheduler] + whole * makespan(seconds, here.workers) if seconds else None,
        operations=whole * sum(work),
        bytes_per_pack=max(costs[pack.structural_key].bytes_per_member * len(pack.members) for pack in packs),
        parameters=tuple(sorted({cost.parameters for cost in costs.values()})),
        weights_bytes=round(whole * sum(kept[pack.structural_key] * len(pack.members) for pack in packs)),
        keeps_weights=spec.resources.keep_weights,
        later=later,
        compiles=any(compiling.compiles(member, device) for member in examples.values()),
        compiled=tuple(dict.fromkeys(compiling.why(member, device) for member in examples.values())),
        evaluated=next((evaluated_sets(one) for one in examples.values() if further_distributions(one)), None),
        stops=any(member.training.stop is not None for member in examples.values()),
        gpus=gpus,
        warnings=tuple(warnings),
    )


def _informed(spec: SweepSpec) -> str | None:
    if spec.search.sampler != "tpe":
        return None
    count, needed = search.total(spec), spec.search.results_needed
    return f"{spec.search.informed(count)} of {count}: tpe learns from {needed} results on (search.startup)"


def _cluster(spec: SweepSpec, workers: int | None) -> Cluster:
    """What the packs would run on: so many workers, or as many as this machine has room for."""
    gpus = spec.resources.gpus
    if spec.resources.scheduler == "inline":
        if workers not in (None, 1):
            raise UserError(
                f"--workers {workers}: with resources.scheduler: inline packs run one after the other; allowed: 1"
            )
        return inline.this_process(gpus)
    if gpus:
        found = gpus_here()
        return Cluster(
            workers=workers or max(1, int(len(found) / gpus + 1e-9)),
            bytes_per_worker=share_of(found, gpus),
            description="the GPUs of this machine",
        )
    return local.this_machine(spec.resources.cpus, workers)


def _size(count: int) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if count >= unit), _UNITS[-1])
    return f"{count / unit:.3g} {name}"


def _seconds(packs: list[Pack], examples: dict[str, MemberConfig], costs: dict[str, Cost]) -> list[float] | None:
    """Seconds of every pack: measured for the costliest structures, by their ratio of operations for the rest.

    None where a step of one of these is more than this machine should be asked for.
    """
    largest: dict[str, Pack] = {}
    for pack in packs:
        largest.setdefault(pack.structural_key, pack)

    def step(pack: Pack) -> float:
        return costs[pack.structural_key].flops_per_step * len(pack.members)

    def whole(pack: Pack) -> float:
        return step(pack) * steps_worth(examples[pack.structural_key])

    costliest = sorted(largest.values(), key=lambda pack: -whole(pack))[:CALIBRATIONS]
    free = MEMORY_SHARE * psutil.virtual_memory().available
    for pack in costliest:
        if step(pack) > PATIENCE or costs[pack.structural_key].bytes_per_member * len(pack.members) > free:
            return None
    per_flop = {}
    for pack in costliest:
        count = min(len(pack.members), LARGEST_PACK_CPU)
        measured = calibrate(examples[pack.structural_key], count, seconds=0.25)
        per_flop[pack.structural_key] = pack.steps * measured / (whole(pack) * count / len(pack.members))
    mean = sum(per_flop.values()) / len(per_flop)
    return [per_flop.get(pack.structural_key, mean) * whole(pack) for pack in packs]
