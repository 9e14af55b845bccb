"""Forecast a sweep: counts, memory, and time from a measured step of each structure."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import psutil

from orchestrator.engine.engine import LARGEST_PACK_CPU, Engine, count_equivalent_steps, estimate_cost_or_refuse
from orchestrator.machine.processors import compute_smallest_share, count_gpu_packs, read_gpu_memories
from orchestrator.plan import optuna_draws
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.configurations import Configuration, list_trainer_warnings
from orchestrator.plan.packing.pack_sizes import compute_makespan
from orchestrator.plan.packing.packs import Cluster, Packer, PlannedPack
from orchestrator.plan.rounds import MAX_AUTO_WEIGHTS_BYTES, PlannedRound, count_weights_bytes, plan_rounds
from orchestrator.preview.few_seeds import describe_few_seeds
from orchestrator.preview.smoke import run_to_first_report
from orchestrator.running.schedulers import inline, local
from orchestrator.running.schedulers.choice import (
    choose_scheduler,
    describe_hidden_gpus,
    find_missing_resources,
    refuse_workers,
)
from orchestrator.text.wording import format_count, format_duration, format_ranges
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.training.cost import Cost, measure_seconds_per_step

START_SECONDS = {"ray": 12.0, "local": 6.0, "inline": 5.0}  # start of Ray and workers, and the report at the end
MEASURED_SECONDS = 0.25  # of steps, in each measured structure
MAX_MEASURED = 8  # structures, the most expensive ones; the time of others follows from their operations
MAX_STEP_OPERATIONS = 1e12  # a minute on one core; larger steps are not measured
MAX_MEMORY_SHARE = 0.5  # of the free memory; steps that need more are not measured

TIME = "estimated time"  # the label of the only row with an estimate

TextRow = tuple[str, str]
BudgetUse = Mapping[str, float | None]
"""The planned use of each limit of `budget`; None if unknown."""


class Forecast(NamedTuple):
    """The rows (label, text) of a forecast, and its warnings."""

    rows: list[TextRow]
    warnings: list[str]


def forecast(spec: SweepSpec, workers: int | None, *, should_measure: bool = False) -> Forecast:
    """Plan a sweep without running it, and measure a step of its structures.

    With `should_measure` a member of a program is run to its first report. In a race, ties and configurations kept by
    the guard are not counted, and a test may keep fewer configurations than counted. Raises SweepFileError with every
    problem of the sweep file, UserError for too many workers.
    """
    # Only the first generation is known; later draws of an adaptive search depend on scores.
    configurations = build_first_generation(spec)
    unique_configurations = [configuration for configuration in configurations if configuration.duplicate_of is None]
    rounds = plan_rounds(spec, len(unique_configurations))
    later_draws = optuna_draws.count_configurations(spec) - len(configurations)
    scheduler, reason = choose_scheduler(
        spec, (configuration.build_member(spec.seeds[0]) for configuration in configurations)
    )
    later_text = f" (and {later_draws} more, drawn when scores are known)" if later_draws else ""
    rows = [
        ("configurations", f"{len(unique_configurations)}{later_text}"),
        ("seeds", str(len(spec.seeds))),
        *_describe_rounds(spec, rounds),
    ]

    # Warnings: repeated draws, the trainer's warnings, too few seeds.
    warnings = []
    if repeated := len(configurations) - len(unique_configurations):
        warnings.append(f"draws that repeat a configuration: {repeated}; each configuration runs once")
    warnings += list_trainer_warnings(
        spec, [configuration.build_member(spec.seeds[0]) for configuration in unique_configurations]
    )
    warnings += describe_few_seeds(spec)

    # The engine's members can be measured, a program must be run.
    if spec.program:
        cost_rows, uses = _forecast_program(
            spec, configurations, unique_configurations, rounds, workers, scheduler, should_measure=should_measure
        )
    else:
        cost_rows, uses = _forecast_engine(spec, configurations, unique_configurations, rounds, workers, scheduler)

    # A limit that the plan exceeds would end the sweep early.
    for name, limit in spec.budget.model_dump().items():
        use = uses.get(name)
        if limit is not None and use is not None and use > limit:
            warnings.append(f"budget.{name}: {limit:g} is not enough; planned: {use:.3g}")
    warnings += [
        f"`lengthwise run` would refuse this sweep on this machine: {problem}"
        for problem in find_missing_resources(spec).problems
    ]
    return Forecast([*rows, *cost_rows, ("scheduler", f"{scheduler}: {reason}")], warnings)


def _forecast_engine(
    spec: SweepSpec,
    configurations: Sequence[Configuration],
    unique_configurations: Sequence[Configuration],
    rounds: Sequence[PlannedRound],
    workers: int | None,
    scheduler: str,
) -> tuple[list[TextRow], BudgetUse]:
    """Return rows on packs, memory and time of a sweep of the engine, and the use of its budget."""
    # Members of a structure cost the same, so one of each is enough.
    cluster = find_cluster(spec, workers)
    packer = Packer(spec, cluster)
    packs_by_round = [
        packer.pack_members(
            [(configuration, planned.seeds) for configuration in unique_configurations[: planned.configurations]]
        )
        for planned in rounds
    ]
    packs = [pack for round_packs in packs_by_round for pack in round_packs]
    by_id = {configuration.config_id: configuration for configuration in configurations}
    examples = {pack.structural_key: by_id[pack.members[0][0]].build_member(pack.members[0][1]) for pack in packs}
    costs = {key: estimate_cost_or_refuse(member) for key, member in examples.items()}
    step_seconds = _measure_steps(packs, examples, costs)

    # Count the member-steps of packs by round; later generations of a search are assumed to cost as much as the first.
    growth = optuna_draws.count_configurations(spec) / len(configurations)
    member_steps = [
        [(pack.structural_key, planned.share * pack.steps * len(pack.members)) for pack in round_packs]
        for planned, round_packs in zip(rounds, packs_by_round, strict=True)
    ]
    total_steps = growth * sum(steps for round_steps in member_steps for _, steps in round_steps)
    qualifier = "at most " if any(member.training.stop is not None for member in examples.values()) else ""
    uses: dict[str, float | None] = {"member_steps": round(total_steps)}

    # Estimate the time: packs of a round run in parallel, rounds one after the other.
    gpus, time = spec.resources.gpus, "not measured: a step is too large for this machine"
    if step_seconds:
        seconds = [[step_seconds[key] * steps for key, steps in round_steps] for round_steps in member_steps]
        total_seconds = START_SECONDS[scheduler] + growth * sum(
            compute_makespan(round_seconds, cluster.workers) for round_seconds in seconds
        )
        uses |= {"hours": total_seconds / 3600, "gpu_hours": growth * sum(map(sum, seconds)) * gpus / 3600}
        note = ", measured on a CPU core of this machine; the GPU is not measured" if gpus else ""
        time = (
            f"{qualifier}about {format_duration(total_seconds)} with {format_count(cluster.workers, 'pack')} "
            f"at once{note}"
        )

    rows = [
        *_describe_packs(spec, configurations, packs, examples, costs),
        ("member-steps", f"{qualifier}{total_steps:,.0f}"),
        *([("measured step", _describe_steps(step_seconds))] if step_seconds else []),
        (TIME, time),
    ]
    return rows, uses


def _describe_packs(
    spec: SweepSpec,
    configurations: Sequence[Configuration],
    packs: Sequence[PlannedPack],
    examples: Mapping[str, MemberConfig],
    costs: Mapping[str, Cost],
) -> list[TextRow]:
    """Return rows on the sizes of packs, their steps and evaluations, parameters, memory and kept weights.

    `examples` and `costs` are a member of each structure and its cost, by structural key.
    """
    # Packs of different structures may need different memory, so find the largest among all.
    sizes = sorted(Counter(len(pack.members) for pack in packs).items(), reverse=True)
    pack_sizes = " and ".join(
        f"{format_count(count, 'pack')} of {format_count(size, 'member')}" for size, count in sizes
    )
    parameters = ", ".join(f"{number:,}" for number in sorted({cost.parameters for cost in costs.values()}))
    memory = max(costs[pack.structural_key].bytes_per_member * len(pack.members) for pack in packs)
    weights, keep = count_weights_bytes(spec, configurations), spec.resources.keep_weights
    is_kept = keep is True or (keep == "auto" and weights <= MAX_AUTO_WEIGHTS_BYTES)
    return [
        ("packs", f"{pack_sizes} ({format_count(len(examples), 'structure')})"),
        ("steps", format_ranges(sorted({pack.steps for pack in packs}))),
        (
            "evaluated at",
            "; ".join(
                dict.fromkeys(Engine.list_measurements(member).describe_lengths() for member in examples.values())
            ),
        ),
        ("parameters", f"{parameters} per member"),
        ("memory", f"about {_format_mebibytes(memory)} for the largest pack"),
        (
            "weights",
            f"{_format_mebibytes(weights)} will be kept" if is_kept else f"{_format_mebibytes(weights)}, not kept",
        ),
    ]


def _forecast_program(
    spec: SweepSpec,
    configurations: Sequence[Configuration],
    unique_configurations: Sequence[Configuration],
    rounds: Sequence[PlannedRound],
    workers: int | None,
    scheduler: str,
    *,
    should_measure: bool,
) -> tuple[list[TextRow], BudgetUse]:
    """Return rows on steps, reports and time of a sweep of a program, and the use of its budget."""
    # A member of a program is a process of its own, so workers run one member each.
    resources = spec.resources
    example = unique_configurations[0].build_member(spec.seeds[0])
    parallel_members = (
        workers or local.make_local_cluster(resources.cpus, max_workers=resources.workers, gpus=resources.gpus).workers
    )
    # Later generations of a search are assumed to repeat as many configurations as the first.
    growth = optuna_draws.count_configurations(spec) / len(configurations)
    members = growth * sum(planned.member_count * planned.share for planned in rounds)

    # A measurement is better than the user's estimate.
    minutes, source = example.program.member_minutes, "by program.member_minutes"
    if should_measure:
        step, seconds = run_to_first_report(spec, unique_configurations[0])
        minutes, source = seconds / 60 * example.steps / step, f"measured on a member up to step {step}, start included"
    time = "unknown; give program.member_minutes, or --measure"
    uses: dict[str, float | None] = {"member_steps": round(members * example.steps)}
    if minutes is not None:
        hours = members * minutes / 60
        uses |= {"hours": hours / parallel_members, "gpu_hours": hours * resources.gpus}
        text = format_duration(3600 * hours / parallel_members)
        time = f"about {text} with {format_count(parallel_members, 'member')} at once ({source})"

    # Rows without a text are left out, such as that on hidden GPUs.
    rows = [
        ("program", example.program.description),
        (
            "steps",
            format_ranges(
                sorted({configuration.build_member(spec.seeds[0]).steps for configuration in unique_configurations})
            ),
        ),
        ("reports", f"every {example.evaluation_interval} steps" if example.evaluation_interval else "at the end"),
        ("GPUs", describe_hidden_gpus(spec, scheduler)),
        (TIME, time),
    ]
    return [(label, text) for label, text in rows if text], uses


def _measure_steps(
    packs: Sequence[PlannedPack], examples: Mapping[str, MemberConfig], costs: Mapping[str, Cost]
) -> dict[str, float] | None:
    """Return the seconds per step and member of each structure, evaluations included.

    The MAX_MEASURED most expensive structures are measured, others are scaled by their operations. None if a step is
    too large for this machine.
    """
    # The most expensive structures dominate the total, so they are measured.
    sizes = dict[str, int]()
    for pack in packs:
        sizes.setdefault(pack.structural_key, len(pack.members))
    operations = {
        key: costs[key].flops_per_step * count_equivalent_steps(member) / member.training.steps
        for key, member in examples.items()
    }
    measured_keys = sorted(sizes, key=lambda key: -operations[key] * sizes[key] * examples[key].training.steps)[
        :MAX_MEASURED
    ]

    # A forecast must neither take minutes nor fill the memory.
    free_bytes = MAX_MEMORY_SHARE * psutil.virtual_memory().available
    for key in measured_keys:
        cost = costs[key]
        if cost.flops_per_step * sizes[key] > MAX_STEP_OPERATIONS or cost.bytes_per_member * sizes[key] > free_bytes:
            return None

    # The time of a step is nearly proportional to its operations, which gives the time of the others.
    seconds = dict[str, float]()
    for key in measured_keys:
        count = min(sizes[key], LARGEST_PACK_CPU)
        seconds[key] = measure_seconds_per_step(examples[key], count, seconds=MEASURED_SECONDS) / count
    per_operation = sum(seconds.values()) / sum(operations[key] for key in measured_keys)
    return {key: seconds.get(key, per_operation * operations[key]) for key in sizes}


def _describe_steps(seconds: Mapping[str, float]) -> str:
    """Return the time of a member's step in the fastest and in the slowest structure."""
    milliseconds = [f"{1000 * bound:.3g} ms" for bound in (min(seconds.values()), max(seconds.values()))]
    return f"{' to '.join(dict.fromkeys(milliseconds))} per member on one core, including evaluations"


def _describe_rounds(spec: SweepSpec, rounds: Sequence[PlannedRound]) -> list[TextRow]:
    """Return rows on the rounds and rungs of a race; empty without a race."""
    if spec.search.racing is None:
        return []

    # Only the first round has rungs.
    parts = [
        f"{format_count(len(planned.seeds), 'seed')} of {format_count(planned.configurations, 'configuration')}"
        for planned in rounds
    ]
    rungs = [f"{format_count(count, 'configuration')} to step {step:,}" for step, count in rounds[0].rungs]
    return [("race", ", then ".join(parts)), *([("rungs", ", ".join(rungs))] if rungs else [])]


def find_cluster(spec: SweepSpec, workers: int | None) -> Cluster:
    """Return the cluster for the packs: with `workers` workers, or as many as fit on this machine."""
    # The inline scheduler runs packs in this process, so it has one worker.
    gpus = spec.resources.gpus
    if spec.resources.scheduler == "inline":
        refuse_workers("inline", workers)
        return inline.describe_process(gpus)

    # Packs are made for the memory of a GPU, of which a pack may have only a share.
    if gpus:
        memory = read_gpu_memories()
        return Cluster(
            workers=workers or min(max(1, count_gpu_packs(len(memory), gpus)), spec.resources.workers or sys.maxsize),
            bytes_per_worker=compute_smallest_share(memory, gpus),
            description="the GPUs of this machine",
        )
    return local.make_local_cluster(spec.resources.cpus, workers, spec.resources.workers)


def _format_mebibytes(count: float) -> str:
    """Return a number of bytes as text."""
    return f"{count / 2**20:,.3g} MiB"
