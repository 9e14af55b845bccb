"""Forecast a sweep: configurations, packs, memory, and time from a short calibration."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.code.own_code import import_for
from orchestrator.errors import UserError
from orchestrator.plan import search
from orchestrator.plan.checks.soundness import check
from orchestrator.plan.configurations import loop_warnings
from orchestrator.plan.distributions import evaluated_sets, further_distributions
from orchestrator.plan.packing.cutting import makespan
from orchestrator.plan.packing.packs import Cluster, Packer, cost_of
from orchestrator.plan.rounds import SMALL_WEIGHTS, PlannedRound, plan_rounds, planned_bytes
from orchestrator.preview.few_seeds import warn_of_few_seeds
from orchestrator.preview.times import first_share, measure_packs
from orchestrator.preview.upload import measure
from orchestrator.running.pack.gpu_memory import count_gpu_packs, gpus_here, smallest_share
from orchestrator.running.schedulers import inline, local
from orchestrator.running.schedulers.choice import choose_scheduler
from orchestrator.wording import counted, duration
from search_spaces import Budget, SweepSpec
from trainers.training import compiling

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
START_SECONDS = {"ray": 12.0, "local": 6.0, "inline": 5.0}  # Ray and its workers, and the report at the end


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A plan in numbers. `seconds` is the time with `workers` workers, None if this machine cannot measure it.

    `first_evaluation` is the time in seconds until the first one begins, None as for `seconds`.
    `informed` says how many configurations are drawn by results, None for samplers that do not use results. `race` has
    the rounds of a race, None without one; a test may keep fewer configurations than the plan counts. `rungs` has those
    of its first round; steps, operations and time are without ties and without what the guard keeps. `evaluated` has
    the lengths by distribution, None for a single one. `stops`: members may stop early, so that time and operations are
    upper bounds.
    """

    configurations: int
    informed: str | None
    seeds: int
    race: str | None
    rungs: str | None
    packs: int
    members_per_pack: tuple[int, ...]
    structures: int
    steps: tuple[int, ...]
    scheduler: str
    workers: int
    seconds: float | None
    first_evaluation: float | None
    operations: float
    gpu_hours: float | None
    member_steps: int
    budget: Budget
    bytes_per_pack: int
    parameters: tuple[int, ...]
    weights_bytes: int
    keep_weights: bool | Literal["auto"]
    later: int
    compiles: bool
    compiled: tuple[str, ...]
    evaluated: str | None
    stops: bool
    gpus: bool
    warnings: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the plan as (label, text)."""
        sizes = sorted(Counter(self.members_per_pack).items(), reverse=True)
        packs = " and ".join(f"{counted(count, 'pack')} of {counted(size, 'member')}" for size, count in sizes)
        later = f" (and {self.later} more configurations, drawn when scores are known)" if self.later else ""
        return [
            ("configurations", f"{self.configurations}{later}"),
            *([("drawn by results", self.informed)] if self.informed else []),
            ("seeds", str(self.seeds)),
            *([("race", self.race)] if self.race else []),
            *([("rungs", self.rungs)] if self.rungs else []),
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
            ("uses", self._uses()),
        ]

    def _uses(self) -> str:
        """Return the use of each quantity that a budget can limit, and the share beyond the budget."""
        hours = None if self.seconds is None else self.seconds / 3600
        used = {
            "hours": (hours, self.budget.hours),
            "GPU-hours": (self.gpu_hours, self.budget.gpu_hours),
            "member-steps": (self.member_steps, self.budget.member_steps),
        }
        known = {unit: (value, most) for unit, (value, most) in used.items() if value is not None}
        text = ", ".join(f"{value:.3g} {unit}" for unit, (value, _) in known.items())
        passed = [
            f"{100 * (1 - most / value):.0f} % of the {unit} do not fit into {most:g}"
            for unit, (value, most) in known.items()
            if most is not None and value > most
        ]
        unknown = [f"the {unit} are not known here" for unit, (value, most) in used.items() if most and value is None]
        return "; ".join([text, *passed, *unknown])

    def _time(self) -> str:
        if self.seconds is None:
            return "not measured: a step is too large for this machine"
        compiled = ", measured uncompiled: compiling takes about 15 s once and then saves time" if self.compiles else ""
        if self.gpus:
            compiled = ", measured on a CPU core of this machine; the GPU is not measured"
        most = "at most " if self.stops else ""
        first = f", first evaluation after about {duration(self.first_evaluation)}" if self.first_evaluation else ""
        return f"{most}about {duration(self.seconds)} with {counted(self.workers, 'pack')} at once{first}{compiled}"

    def _bound(self) -> str:
        return ": members may stop early (training.stop), and this goes to the last step" if self.stops else ""

    def _compiled(self) -> str:
        more = f" (and {len(self.compiled) - 2} more)" if len(self.compiled) > 2 else ""
        return "; ".join(self.compiled[:2]) + more

    def _weights(self) -> str:
        size, most = _size(self.weights_bytes), _size(SMALL_WEIGHTS)
        if self.keep_weights is True or (self.keep_weights == "auto" and self.weights_bytes <= SMALL_WEIGHTS):
            return f"{size} will be kept"
        why = f" for more than {most}" if self.keep_weights == "auto" else ""
        return f"not kept{why}; resources.keep_weights: true would keep {size}"


def forecast(spec: SweepSpec, workers: int | None, working_dir: Path) -> Forecast:
    """Build the whole plan without running it, and measure a few steps of its most expensive structures.

    Raises SweepFileError with every problem of the sweep file, UserError for too many workers.
    """
    configurations = check(spec)
    distinct = [configuration for configuration in configurations if configuration.duplicate_of is None]
    here = _cluster(spec, workers)
    scheduler, why = choose_scheduler(spec, (configuration.member(spec.seeds[0]) for configuration in configurations))
    pack, rounds = Packer(spec, here), plan_rounds(spec, len(distinct))
    by_round = [pack([(one, part.seeds) for one in distinct[: part.configurations]]) for part in rounds]
    packs = [one for packs_of_round in by_round for one in packs_of_round]
    by_id = {configuration.config_id: configuration for configuration in configurations}
    examples = {pack.structural_key: by_id[pack.members[0][0]].member(pack.members[0][1]) for pack in packs}
    costs = {key: cost_of(member) for key, member in examples.items()}
    trained = [(one, part.share) for part, run in zip(rounds, by_round, strict=True) for one in run]
    steps_of = {one.pack_id: share * one.steps * len(one.members) for one, share in trained}
    work = [costs[pack.structural_key].flops_per_step * steps_of[pack.pack_id] for pack in packs]
    seconds = measure_packs(packs, examples, costs)
    evaluated_after = {
        one.pack_id: time * first_share(examples[one.structural_key])
        for one, time in zip(packs, seconds or (), strict=False)
    }
    seconds = seconds and [share * one for (_, share), one in zip(trained, seconds, strict=True)]
    time_of = dict(zip((one.pack_id for one in packs), seconds or (), strict=False))
    later = search.total(spec) - len(configurations)
    upload = measure(working_dir)
    warnings = [upload.describe(f"ray job submit --working-dir {upload.folder}")] if upload.too_large else []
    warnings += [
        f"{source.module} lies in {source.root}, outside of {upload.folder}, and would not be uploaded with a job"
        for source in import_for(spec)
        if not source.installed and not source.root.is_relative_to(upload.folder)
    ]
    if len(distinct) < len(configurations):
        warnings.append(f"{len(configurations) - len(distinct)} configurations repeat earlier ones and run once")
    warnings += loop_warnings(spec, examples.values())
    warnings += warn_of_few_seeds(spec)
    growth = search.total(spec) / len(configurations)
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
        race=_race(spec, rounds),
        rungs=_rungs(rounds[0]),
        seconds=START_SECONDS[scheduler]
        + growth * sum(makespan([time_of[one.pack_id] for one in run], here.workers) for run in by_round)
        if seconds
        else None,
        first_evaluation=START_SECONDS[scheduler]
        + min(evaluated_after[one.pack_id] for one in by_round[0][: here.workers])
        if seconds
        else None,
        operations=growth * sum(work),
        gpu_hours=growth * sum(seconds) * spec.resources.gpus / 3600 if seconds and gpus else None if gpus else 0.0,
        member_steps=round(growth * sum(steps_of.values())),
        budget=spec.budget,
        bytes_per_pack=max(costs[pack.structural_key].bytes_per_member * len(pack.members) for pack in packs),
        parameters=tuple(sorted({cost.parameters for cost in costs.values()})),
        weights_bytes=planned_bytes(spec, configurations),
        keep_weights=spec.resources.keep_weights,
        later=later,
        compiles=any(compiling.should_compile(member, device) for member in examples.values()),
        compiled=tuple(dict.fromkeys(compiling.why(member, device) for member in examples.values())),
        evaluated=next((evaluated_sets(one) for one in examples.values() if further_distributions(one)), None),
        stops=any(member.training.stop is not None for member in examples.values()),
        gpus=gpus,
        warnings=tuple(warnings),
    )


def _race(spec: SweepSpec, rounds: Sequence[PlannedRound]) -> str | None:
    """Return the rounds of a race and how many members they have, None without a race."""
    if spec.search.racing is None:
        return None
    parts = [f"{counted(len(one.seeds), 'seed')} of {counted(one.configurations, 'configuration')}" for one in rounds]
    members, without = sum(one.members for one in rounds), rounds[0].configurations * len(spec.seeds)
    most, ties = ("at most ", "") if spec.search.racing.test else ("", ", more with ties")
    share = f"{100 * members / without:.0f} %"
    return f"{', then '.join(parts)}: {most}{members:,} members of {without:,} ({share}{ties})"


def _rungs(first: PlannedRound) -> str | None:
    """Return how many configurations of the first round train to which step, None if all train to the end."""
    if not first.rungs:
        return None
    parts = [f"{counted(left, 'configuration')} to step {step:,}" for step, left in first.rungs]
    most = first.members * first.rungs[-1][0]
    done = round(first.share * most)
    return (
        f"{', '.join(parts)}: {done:,} member-steps of {most:,} in the first round ({100 * first.share:.0f} %, more "
        "with ties and what the guard keeps)"
    )


def _informed(spec: SweepSpec) -> str | None:
    if spec.search.sampler != "tpe":
        return None
    count, needed = search.total(spec), spec.search.results_needed
    return f"{spec.search.informed(count)} of {count}: tpe learns from {needed} results on (search.startup)"


def _cluster(spec: SweepSpec, workers: int | None) -> Cluster:
    """Return the cluster the packs would run on: `workers`, or as many as fit on this machine."""
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
            workers=workers or min(max(1, count_gpu_packs(len(found), gpus)), spec.resources.workers or sys.maxsize),
            bytes_per_worker=smallest_share(found, gpus),
            description="the GPUs of this machine",
        )
    return local.this_machine(spec.resources.cpus, workers, spec.resources.workers)


def _size(count: int) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if count >= unit), _UNITS[-1])
    return f"{count / unit:.3g} {name}"
