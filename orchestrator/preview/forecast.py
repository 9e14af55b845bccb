"""Forecast a sweep: configurations, packs, memory, and time from a short calibration."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import psutil

from orchestrator.engine.engine import LARGEST_PACK_CPU, cost_of, equivalent_steps, measured_by
from orchestrator.machine.gpus import count_gpu_packs, gpus_here, smallest_share
from orchestrator.plan import search
from orchestrator.plan.checks.soundness import check
from orchestrator.plan.configurations import trainer_warnings
from orchestrator.plan.distributions import evaluated_sets, further_distributions
from orchestrator.plan.packing.cutting import makespan
from orchestrator.plan.packing.packs import Cluster, Pack, Packer
from orchestrator.plan.rounds import SMALL_WEIGHTS, plan_rounds, planned_bytes
from orchestrator.preview.few_seeds import warn_of_few_seeds
from orchestrator.preview.forecast_words import describe_informed, describe_race, describe_rungs, describe_uses
from orchestrator.preview.program import forecast_program
from orchestrator.running.schedulers import inline, local
from orchestrator.running.schedulers.choice import choose_scheduler, find_missing_resources, refuse_workers
from orchestrator.wording import counted, duration
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.training import compiling
from trainers.training.cost import Cost, calibrate

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
START_SECONDS = {"ray": 12.0, "local": 6.0, "inline": 5.0}  # Ray and its workers, and the report at the end
CALIBRATIONS = 3  # structures that are measured; the time of others is estimated from their operations
PATIENCE = 1e12  # operations of the largest step that is measured: a minute on one core
MEMORY_SHARE = 0.5  # of the free memory; larger steps are not measured


class Forecast(NamedTuple):
    """The lines of a plan as (label, text), and warnings."""

    rows: list[tuple[str, str]]
    warnings: list[str]


def forecast(spec: SweepSpec, workers: int | None, *, measured: bool = False) -> Forecast:
    """Build the whole plan without running it, and measure a few steps of its most expensive structures.

    Of a program nothing is run, except with `measured` one member to its first report.

    For a race, steps, operations and time leave out ties and configurations that the guard of rungs keeps; a test may
    keep fewer configurations than are counted. Raises SweepFileError with every problem of the sweep file, UserError
    for too many workers.
    """
    configurations = check(spec)
    if spec.program:
        return Forecast(*forecast_program(spec, configurations, workers, measured=measured))
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
    operations = sum(costs[pack.structural_key].flops_per_step * steps_of[pack.pack_id] for pack in packs)
    growth = search.total(spec) / len(configurations)
    gpus, stops = spec.resources.gpus, any(member.training.stop is not None for member in examples.values())
    hours = gpu_hours = None
    time = "not measured: a step is too large for this machine"
    if seconds := _measure_packs(packs, examples, costs):
        time_of = {one.pack_id: share * whole for (one, share), whole in zip(trained, seconds, strict=True)}
        first = START_SECONDS[scheduler] + min(
            whole * _first_share(examples[one.structural_key])
            for one, whole in zip(by_round[0][: here.workers], seconds, strict=False)
        )
        total = START_SECONDS[scheduler] + growth * sum(
            makespan([time_of[one.pack_id] for one in run], here.workers) for run in by_round
        )
        hours, gpu_hours = total / 3600, growth * sum(time_of.values()) * gpus / 3600
        compiles = any(compiling.should_compile(member, "cuda" if gpus else "cpu") for member in examples.values())
        notes = ", measured uncompiled: compiling takes about 15 s once and then saves time" if compiles else ""
        notes = ", measured on a CPU core of this machine; the GPU is not measured" if gpus else notes
        time = f"about {duration(total)} with {counted(here.workers, 'pack')} at once"
        time = f"{'at most ' if stops else ''}{time}, first evaluation after about {duration(first)}{notes}"
    sizes = sorted(Counter(len(pack.members) for pack in packs).items(), reverse=True)
    sized = " and ".join(f"{counted(count, 'pack')} of {counted(size, 'member')}" for size, count in sizes)
    later = search.total(spec) - len(configurations)
    drawn_later = f" (and {later} more configurations, drawn when scores are known)" if later else ""
    memory = max(costs[pack.structural_key].bytes_per_member * len(pack.members) for pack in packs)
    reported = map(measured_by, examples.values())
    evaluated = next((evaluated_sets(one) for one in reported if further_distributions(one)), None)
    bound = ": members may stop early (training.stop), and this goes to the last step" if stops else ""
    reasons = list(
        dict.fromkeys(compiling.explain_compilation(member, "cuda" if gpus else "cpu") for member in examples.values())
    )
    used = {
        "hours": (hours, spec.budget.hours),
        "GPU-hours": (gpu_hours if gpus else 0.0, spec.budget.gpu_hours),
        "member-steps": (round(growth * sum(steps_of.values())), spec.budget.member_steps),
    }
    rows = [
        ("configurations", f"{len(distinct)}{drawn_later}"),
        ("drawn by results", describe_informed(spec)),
        ("seeds", str(len(spec.seeds))),
        ("race", describe_race(spec, rounds)),
        ("rungs", describe_rungs(rounds[0])),
        ("packs", f"{sized} ({counted(len(examples), 'structure')})"),
        ("steps", ", ".join(map(str, sorted({pack.steps for pack in packs})))),
        ("evaluated at", evaluated),
        ("parameters", ", ".join(f"{n:,}" for n in sorted({one.parameters for one in costs.values()})) + " per member"),
        ("memory", f"about {memory / 2**20:,.0f} MiB for the largest pack"),
        ("weights", _weights(planned_bytes(spec, configurations), spec.resources.keep_weights)),
        ("operations", f"{'at most ' if stops else ''}{growth * operations:.2g} in training{bound}"),
        ("compiled", "; ".join(reasons[:2]) + (f" (and {len(reasons) - 2} more)" if len(reasons) > 2 else "")),
        ("scheduler", f"{scheduler}: {why}"),
        ("time", time),
        ("uses", describe_uses(used)),
    ]
    warnings = []
    if len(distinct) < len(configurations):
        repeated = len(configurations) - len(distinct)
        warnings.append(f"draws that repeat a configuration: {repeated}; each configuration runs once")
    members = [one.member(spec.seeds[0]) for one in distinct]
    warnings += [*trainer_warnings(spec, members), *warn_of_few_seeds(spec)]
    warnings += [f"`run` refuses this here: {problem}" for problem in find_missing_resources(spec).problems]
    return Forecast([(label, text) for label, text in rows if text is not None], warnings)


def _measure_packs(
    packs: Sequence[Pack], examples: Mapping[str, MemberConfig], costs: Mapping[str, Cost]
) -> list[float] | None:
    """Return the seconds of every pack: measured for the most expensive structures, scaled by operations for others.

    None if a step of a measured structure is too large for this machine.
    """
    largest: dict[str, Pack] = {}
    for pack in packs:
        largest.setdefault(pack.structural_key, pack)

    def step(pack: Pack) -> float:
        return costs[pack.structural_key].flops_per_step * len(pack.members)

    def work(pack: Pack) -> float:
        return step(pack) * equivalent_steps(examples[pack.structural_key])

    most_expensive = sorted(largest.values(), key=lambda pack: -work(pack))[:CALIBRATIONS]
    free = MEMORY_SHARE * psutil.virtual_memory().available
    for pack in most_expensive:
        if step(pack) > PATIENCE or costs[pack.structural_key].bytes_per_member * len(pack.members) > free:
            return None
    per_flop = {}
    for pack in most_expensive:
        count = min(len(pack.members), LARGEST_PACK_CPU)
        measured = calibrate(examples[pack.structural_key], count, seconds=0.25)
        per_flop[pack.structural_key] = pack.steps * measured / (work(pack) * count / len(pack.members))
    mean = sum(per_flop.values()) / len(per_flop)
    return [per_flop.get(pack.structural_key, mean) * work(pack) for pack in packs]


def _first_share(member: MemberConfig) -> float:
    """Return the share of a member's training that comes before its first evaluation."""
    every, steps = member.evaluation.every, member.training.steps
    return min(every, steps) / steps if every else 1.0


def _weights(size: int, keep: bool | Literal["auto"]) -> str:
    most = _size(SMALL_WEIGHTS)
    if keep is True or (keep == "auto" and size <= SMALL_WEIGHTS):
        return f"{_size(size)} will be kept"
    why = f" for more than {most}" if keep == "auto" else ""
    return f"not kept{why}; resources.keep_weights: true would keep {_size(size)}"


def _cluster(spec: SweepSpec, workers: int | None) -> Cluster:
    """Return the cluster the packs would run on: `workers`, or as many as fit on this machine."""
    gpus = spec.resources.gpus
    if spec.resources.scheduler == "inline":
        refuse_workers("inline", workers)
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
