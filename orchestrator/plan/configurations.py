"""From drawn values to packs: values -> configurations -> members -> packs of equal structure. Pure, no Ray, no files.

Configurations are built through the registries of `trainers`, so that a wrong name, type or bound is reported here, at
its line of the sweep file, and not by a worker an hour later.
"""

import copy
import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces import Problem, SweepFileError, SweepSpec
from trainers.config.member import MemberConfig
from trainers.config.recorded import recorded_member
from trainers.errors import ConfigError, nearest

LARGEST_PACK = 64  # beyond this a stacked step gains little and a lost worker costs more
WORTHWHILE = 0.1  # the sweep must end so much sooner for more packs to be made: each starts and compiles by itself
SNAP = 0.1  # how much of a pack may move to its neighbour to keep the seeds of a configuration together


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One assignment of hyperparameters. `duplicate_of` is its own config_id when an earlier number drew the same."""

    number: int
    config_id: str
    values: dict[str, Any]
    resolved: dict[str, Any]
    duplicate_of: str | None = None

    def member(self, seed: int) -> MemberConfig:
        """The member of this configuration with a seed."""
        return recorded_member(self.resolved, seed)


@dataclass(frozen=True, kw_only=True)
class Pack:
    """Members that are trained as one stacked program: (config_id, seed) pairs of one structural key."""

    pack_id: str
    structural_key: str
    members: tuple[tuple[str, int], ...]
    steps: int

    @classmethod
    def of(cls, structural_key: str, members: Sequence[tuple[str, int]], steps: int) -> "Pack":
        """A pack named by its members."""
        names = ",".join(f"{config_id}:{seed}" for config_id, seed in members)
        pack_id = hashlib.sha256(names.encode()).hexdigest()[:12]
        return cls(pack_id=pack_id, structural_key=structural_key, members=tuple(members), steps=steps)


# Configurations -------------------------------------------------------------------------------------------------------


def configure(
    spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], known: Iterable[str] = ()
) -> list[Configuration]:
    """Build (number, values) draws into configurations; `known` are the config_ids of earlier ones.

    Raises SweepFileError with one problem per wrong key of the sweep file, whichever draws met it.
    """
    seen = set(known)
    configurations: list[Configuration] = []
    problems: dict[tuple[str, str], Problem] = {}
    for number, values in draws:
        try:
            member = MemberConfig.from_dict({**assigned(spec, values), "seed": 0})
        except ConfigError as error:
            for problem in _located(spec, values, error):
                problems.setdefault((problem.where, problem.key), problem)
            continue
        for problem in _objective_problems(spec, member):
            problems.setdefault((problem.where, problem.key), problem)
        resolved = {key: value for key, value in member.to_dict().items() if key != "seed"}
        duplicate_of = member.config_id if member.config_id in seen else None
        seen.add(member.config_id)
        configurations.append(
            Configuration(
                number=number,
                config_id=member.config_id,
                values=dict(values),
                resolved=resolved,
                duplicate_of=duplicate_of,
            )
        )
    if problems:
        raise SweepFileError(tuple(problems.values()))
    return configurations


def assigned(spec: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of the sweep file with `values` put at their dotted keys, through mappings that may be new."""
    sections = {name: copy.deepcopy(getattr(spec, name)) for name in ("task", "model", "training", "evaluation")}
    for key, value in values.items():
        *parents, last = key.split(".")
        place: Any = sections
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return sections


def _located(spec: SweepSpec, values: Mapping[str, Any], error: ConfigError) -> list[Problem]:
    """The problems of a configuration at their lines of the sweep file, naming the domain a value was drawn from."""
    located = []
    for problem in error.problems:
        domain = next((key for key in values if problem.key == key or problem.key.startswith(f"{key}.")), None)
        message = problem.message if domain is None else f"{problem.message} ({_source(spec, domain)})"
        located.append(
            Problem(
                where=spec.where(problem.key),
                key=problem.key,
                message=message,
                given=problem.given,
                allowed=problem.allowed,
                nearest=problem.nearest,
            )
        )
    return located


def _source(spec: SweepSpec, key: str) -> str:
    return f"drawn from space.{key}" if key in spec.space else "given by search.listed"


def unmeasured(
    spec: SweepSpec, metrics: Iterable[str], averages: Iterable[str], lengths: Sequence[int]
) -> list[Problem]:
    """What the objective names that is not among what a configuration measures."""
    objective = spec.objective
    measured: list[tuple[str, Any, tuple[str, ...], str]] = [
        ("metric", objective.metric, tuple(metrics), "metric of this task"),
        ("average", objective.average, tuple(averages), "label in training.averages"),
    ]
    problems = [
        Problem(
            where=spec.where(f"objective.{key}"),
            key=f"objective.{key}",
            message=f"{given!r} is no {what}",
            given=given,
            allowed=", ".join(allowed),
            nearest=nearest(given, allowed),
        )
        for key, given, allowed, what in measured
        if given not in allowed
    ]
    absent = [length for length in objective.lengths if length not in lengths]
    if absent:
        problems.append(
            Problem(
                where=spec.where("objective.lengths"),
                key="objective.lengths",
                message=f"{', '.join(map(str, absent))} not among the lengths that are evaluated",
                given=list(objective.lengths),
                allowed=", ".join(map(str, lengths)),
            )
        )
    return problems


def _objective_problems(spec: SweepSpec, member: MemberConfig) -> list[Problem]:
    """What the objective asks for that this configuration does not have."""
    objective = spec.objective
    problems = unmeasured(spec, member.task.metrics, member.averages, member.evaluated_lengths)
    every, steps = member.evaluation.every, member.optimization.steps
    if objective.evaluation == "best" and (every is None or every >= steps):
        given = "is not given" if every is None else f"is {every}"
        problems.append(
            Problem(
                where=spec.where("objective.evaluation"),
                key="objective.evaluation",
                message=f"there is one evaluation to choose from, at step {steps}, because evaluation.every {given}",
                given=objective.evaluation,
                allowed=f"last, or an evaluation.every below training.steps ({steps})",
            )
        )
    return problems


def warnings_for(spec: SweepSpec, member: MemberConfig) -> list[str]:
    """What is allowed in the objective but seldom meant."""
    objective = spec.objective
    found = []
    trained = [length for length in objective.lengths if length in member.task.trained_lengths]
    if trained:
        listed = ", ".join(map(str, trained))
        found.append(f"{spec.where('objective.lengths')}: objective.lengths includes trained lengths ({listed})")
    better = member.task.metrics[objective.metric]
    if better != objective.direction:
        which = "has no better direction" if better == "none" else f"is better when it is {better}d"
        found.append(
            f"{spec.where('objective.direction')}: {objective.metric} {which}, "
            f"and objective.direction is {objective.direction}"
        )
    return found


# Packs ----------------------------------------------------------------------------------------------------------------


def make_packs(
    configurations: Iterable[Configuration],
    seeds: Sequence[int],
    *,
    workers: int,
    capacity: Callable[[MemberConfig], int],
    work: Callable[[MemberConfig, float], float],
    even: bool = True,
    done: Iterable[tuple[str, int]] = (),
) -> list[Pack]:
    """Group every member that is not in `done` into packs of one structural key, the longest pack first.

    `capacity` is the most members of that structure a pack holds; `work` is what so many of them cost as one pack. With
    `even`, a structure is cut into more packs than its capacity asks for where `workers` end sooner by it.
    """
    finished = set(done)
    groups: dict[str, list[tuple[str, int]]] = {}
    examples: dict[str, MemberConfig] = {}
    for configuration in configurations:
        members = [(configuration.config_id, seed) for seed in seeds if (configuration.config_id, seed) not in finished]
        if configuration.duplicate_of is None and members:
            example = configuration.member(seeds[0])
            examples.setdefault(example.structural_key, example)
            groups.setdefault(example.structural_key, []).extend(members)
    largest = {key: max(1, capacity(examples[key])) for key in groups}
    counts = {key: math.ceil(len(members) / largest[key]) for key, members in groups.items()}
    if even:
        sizes = {key: len(members) for key, members in groups.items()}
        counts = _more_packs(counts, sizes, lambda key, members: work(examples[key], members), max(1, workers))
    packs: list[tuple[float, Pack]] = []
    for key, members in groups.items():
        steps = examples[key].optimization.steps
        for run in cut(members, counts[key], largest[key]):
            packs.append((work(examples[key], len(run)), Pack.of(key, run, steps)))
    packs.sort(key=lambda entry: -entry[0])  # stable: equal packs stay in the order of configuration numbers
    return [pack for _, pack in packs]


def _more_packs(
    counts: dict[str, int], sizes: Mapping[str, int], work: Callable[[str, float], float], workers: int
) -> dict[str, int]:
    """Cut structures into more packs while that ends the whole sweep a good deal sooner on so many workers."""

    def ends(counts: Mapping[str, int]) -> float:
        return makespan([work(key, sizes[key] / count) for key, count in counts.items() for _ in range(count)], workers)

    while counts:
        options = [{**counts, key: counts[key] + more} for key in counts for more in range(1, workers + 1)]
        options = [option for option in options if all(option[key] <= sizes[key] for key in option)]
        best = min(options, key=lambda option: (ends(option), sum(option.values())), default=counts)
        if ends(best) >= (1.0 - WORTHWHILE) * ends(counts):
            break
        counts = best
    return counts


def makespan(costs: Iterable[float], workers: int) -> float:
    """When the last of `workers` ends, the costliest pack always going to the first that is free."""
    ends = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def cut(members: Sequence[tuple[str, int]], count: int, largest: int) -> list[list[tuple[str, int]]]:
    """Cut into `count` runs of about equal size, none above `largest`. A cut moves to the nearest border between two
    configurations when that shifts no more than a tenth of a run."""
    borders = [index for index in range(1, len(members)) if members[index][0] != members[index - 1][0]]
    size = len(members) / count
    ideal = [round(index * size) for index in range(count + 1)]
    cuts = [0]
    for index in range(1, count):
        near = min(borders, key=lambda border: abs(border - ideal[index]), default=ideal[index])
        fits = 0 < near - cuts[-1] <= largest and ideal[index + 1] - near <= largest
        cuts.append(near if fits and abs(near - ideal[index]) <= SNAP * size else ideal[index])
    cuts.append(len(members))
    return [list(members[start:stop]) for start, stop in itertools.pairwise(cuts)]
