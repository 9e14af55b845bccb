"""SweepSpec, a checked sweep file, and its sections as classes, whose fields are the keys of the file.

Racing after Birattari et al. (2002), "A Racing Algorithm for Configuring Metaheuristics", and Lopez-Ibanez et al.
(2016), "The irace package: Iterated racing for automatic algorithm configuration", with a seed as the block.
"""

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, InstanceOf, PrivateAttr, WithJsonSchema

from search_spaces.grammar.domains import Domain, Grid, plain, space_schema, value_key
from search_spaces.grammar.objective import Objective
from search_spaces.grammar.problems import SECTIONS, Findings, Place, lookup, sections_of, within
from search_spaces.grammar.values import (
    LARGEST_SEED,
    Address,
    Gpus,
    KeepWeights,
    Listed,
    Modules,
    Name,
    PackSize,
    Seeds,
    Strict,
    Text,
)

DEFAULT_LEVEL = 0.05


class Rung(NamedTuple):
    """A step at which configurations are compared, and the earlier step from which improvement is measured."""

    step: int
    since: int


class Rungs(Strict):
    """Successive halving along training: at each rung a share of the configurations trains on, the others are pruned.

    After Jamieson and Talwalkar (2016), "Non-stochastic Best Arm Identification and Hyperparameter Optimization".
    """

    first: int = Field(
        ge=1, description="The step of the first rung: a multiple of evaluation.every and less than training.steps."
    )
    growth: float = Field(
        default=3.0,
        gt=1,
        description="The step of each rung over that of the previous rung, rounded up to an evaluation.",
    )
    keep: float = Field(
        gt=0, lt=1, description="The share of the configurations of a rung that trains on: the best medians, and ties."
    )
    guard: bool = Field(
        default=True,
        description="Whether configurations that still improve by more than their seeds differ train on as well.",
    )

    def rungs(self, every: int, steps: int) -> tuple[Rung, ...]:
        """Return the rungs of a training of `steps` steps, evaluated every `every` steps.

        Improvement is measured from the previous rung; at the first rung from the last evaluation in its first half.

        Rungs(first=300, keep=0.5).rungs(100, 3000) -> (Rung(300, 100), Rung(900, 300), Rung(2700, 900))
        """
        rungs = [Rung(self.first, self.first // 2 // every * every)]
        while (evaluations := rungs[-1].step // every) * every < steps:
            step = max(evaluations + 1, math.ceil(round(min(self.growth * evaluations, steps), 6))) * every
            rungs.append(Rung(step, rungs[-1].step))
        return tuple(rungs[:-1])

    def count_kept(self, configurations: int) -> int:
        """Return how many configurations train on, without ties and configurations kept by the guard."""
        return count_share(self.keep, configurations)


def count_share(share: float, configurations: int) -> int:
    """Return the number of a share of the configurations, rounded up, at least 1."""
    return max(1, math.ceil(round(share * configurations, 6)))


class Racing(Strict):
    """A race over seeds: after each round a share of the configurations stays, or all that a test does not rule out."""

    first: int = Field(ge=1, description="Seeds of every configuration in the first round.")
    growth: float = Field(
        default=2.0, gt=1, description="Seeds at the end of a round over those of the previous round."
    )
    keep: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="The share of the configurations of a round that stays: the best medians, and ties.",
    )
    test: Literal["friedman"] | None = Field(
        default=None,
        description="Replaces keep. friedman: configurations stay unless Friedman's test over the seeds of a round and "
        "Conover's comparison with the best rank sum rule them out; of two, Wilcoxon's signed-rank test decides.",
    )
    level: float | None = Field(
        default=None, gt=0, lt=1, description=f"test only: the level of the test; null is {DEFAULT_LEVEL}."
    )
    steps: Rungs | None = Field(
        default=None,
        description="Prunes configurations of the first round during training; null trains all of them to the end.",
    )

    def next_seed_count(self, count: int, total: int) -> int:
        """Return the number of seeds in the round after a round with `count` seeds, at most `total`.

        Racing(first=2, keep=0.5, growth=1.5).next_seed_count(3, 16) -> 5
        """
        return min(total, max(count + 1, math.ceil(round(min(self.growth * count, total), 6))))

    def count_kept(self, configurations: int) -> int:
        """Return how many configurations stay at most, without ties; all of them if `keep` is None."""
        return configurations if self.keep is None else count_share(self.keep, configurations)

    def resolved(self) -> dict[str, Any]:
        """Return the section as plain data: given values, and defaults that have an effect."""
        level = {"level": self.level or DEFAULT_LEVEL} if self.test else {}
        return self.model_dump(exclude_none=True) | level


PASSIVE = ("name", "description", "claims", "resources", "budget", "tracking", "notify")  # do not change results

Section = dict[str, Any]


class Search(Strict):
    """How configurations are drawn from the space."""

    sampler: Literal["random", "tpe", "qmc", "grid", "listed"] = Field(
        default="random",
        description="random: independent draws. tpe: learns from finished configurations. qmc: evenly spread draws. "
        "grid: the grid points alone. listed: the configurations of search.listed, with no space.",
    )
    configurations: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Number of draws from the random domains; needed if the space has any, else left out.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=LARGEST_SEED,
        description="The seed of the draws; each depends only on it and on its number.",
    )
    generation: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description="tpe only: configurations that are drawn together, before it waits for their scores.",
    )
    startup: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="tpe only: results that it needs before it learns from them; until then it draws at random. null "
        "is one generation.",
    )
    failed_configurations: Literal["worst", "ignored"] = Field(
        default="worst",
        description="tpe only: whether a configuration without a score counts as the worst score, or is left out.",
    )
    listed: Listed | None = Field(
        default=None,
        description="listed only: the configurations themselves, each a mapping of dotted keys to values; a key that "
        "one of them leaves out keeps its fixed value.",
    )
    racing: Racing | None = Field(
        default=None,
        description="Gives further seeds only to the configurations that are ahead at objective.lengths; null gives "
        "every configuration all seeds.",
    )

    @property
    def results_needed(self) -> int:
        """The number of results that tpe needs before it learns from them."""
        return self.generation if self.startup is None else self.startup

    def count_informed(self, drawn: int, failed: Collection[int] = ()) -> int:
        """Return how many of the first `drawn` configurations depend on results; failed: numbers without a score.

        Search(sampler="tpe", generation=8, startup=10).count_informed(20) -> 4; 0 for samplers that read no results.
        """
        # Other samplers read no results.
        if self.sampler != "tpe":
            return 0

        # A generation is informed once enough results came before it.
        ignored = set(failed) if self.failed_configurations == "ignored" else set()
        for start in range(0, drawn, self.generation):
            if start - sum(number < start for number in ignored) >= self.results_needed:
                return drawn - start
        return 0


class Resources(Strict):
    """Resources of one pack of members, and how often it is retried when it dies."""

    cpus: int = Field(default=1, ge=1, description="CPU cores for each pack.")
    gpus: Gpus = Field(default=0.0, description="GPUs for each pack: 0, a fraction up to 1, or a whole number.")
    scheduler: Literal["auto", "ray", "local", "inline"] = Field(
        default="auto",
        description="ray: packs run side by side in workers, here or on a cluster. local: side by side in processes of "
        "this machine, without Ray, which starts sooner. inline: one after the other in the process of the command "
        "itself, for tests and debugging. auto: ray if RAY_ADDRESS names a cluster, a pack needs a GPU or training "
        "will take more than two minutes, else local.",
    )
    pack: PackSize = Field(default="auto", description="Members trained together as one program: auto, or a number.")
    checkpoint_seconds: float | None = Field(
        default=30.0, gt=0, description="A pack saves its state after this many seconds; null turns it off."
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="Steps between the saved states of a pack; null turns it off."
    )
    keep_weights: KeepWeights = Field(
        default="auto",
        description="Whether the final weights of every member are kept: all parameters, once for each weight average. "
        "auto: if the weights of the planned sweep take at most 64 MiB (see `lengthwise plan`). true: always. "
        "false: never.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of packs at a time; null is as many as the machine or cluster can hold.",
    )
    retries: int = Field(default=2, ge=0, description="How often a pack that died is started again.")
    watchdog_seconds: float = Field(
        default=600.0,
        gt=0,
        description="A pack without a heartbeat for this many seconds counts as dead; at least 5, because heartbeats "
        "come once a second. Reports and lines in the log are the heartbeats of a program.",
    )
    grace_seconds: float = Field(
        default=30.0, gt=0, description="Programs only: seconds between the request to stop (SIGTERM) and SIGKILL."
    )
    member_hours: float | None = Field(
        default=None,
        gt=0,
        description="Programs only: hours after which an attempt of a member is stopped; it is started again if it has "
        "reported a new step. null is no limit.",
    )

    @property
    def longest_silence(self) -> float:
        """The seconds without a heartbeat after which a pack counts as dead; heartbeats come once a second."""
        return max(self.watchdog_seconds, 5.0)


class Budget(Strict):
    """Limits of a sweep in all, over every command that runs it; null is no limit."""

    hours: float | None = Field(default=None, gt=0, description="Hours during which a driver runs the sweep.")
    gpu_hours: float | None = Field(default=None, gt=0, description="Hours of packs times their GPUs (resources.gpus).")
    member_steps: float | None = Field(default=None, gt=0, description="Training steps, summed over members.")


class Tracking(Strict):
    """The publication of results to MLflow."""

    enabled: bool = Field(default=True, description="Whether results are published to MLflow.")
    uri: Text | None = Field(
        default=None,
        description="MLflow tracking URI; null is MLFLOW_TRACKING_URI, else a SQLite file in the storage folder.",
    )
    experiment: Name | None = Field(default=None, description="MLflow experiment; null is the study's name.")


class SweepSpec(Strict):
    """A sweep: fixed and searched values, objective and resources; only `load_sweep` makes it."""

    name: Name = Field(description="The sweep's name, and its folder in the storage folder.")
    study: Name = Field(description="The study it belongs to: the MLflow experiment.")
    description: str = Field(default="", description="Free text.")
    claims: Text | None = Field(
        default=None,
        description="A claims file beside this one. Its claims about this sweep are registered before the first step; "
        "a sweep under another name has no claims.",
    )
    imports: Modules = Field(
        default=(),
        description="Your Python modules, beside this file or installed, with tasks, models, positions, averages and "
        "schedules for this file.",
    )
    task: Section = Field(
        description="The task: its name and options. `lengthwise list` shows them. Task and model, or a program."
    )
    model: Section = Field(description="The model: its name and options.")
    program: Section = Field(
        default_factory=dict,
        description="Your own training code in place of task and model: `command`, the words of a command line with "
        "placeholders, or `function`, a Python function. A text is a command.",
    )
    config: Section = Field(
        default_factory=dict, description="The fixed values for your program: any keys, nested or not."
    )
    training: Section = Field(description="Steps, batch size, learning rate, schedule, weight averages ...")
    space: Annotated[dict[str, InstanceOf[Domain]], WithJsonSchema(space_schema())] = Field(
        default_factory=dict, description="The searched keys: dotted keys with their domains."
    )
    search: Search = Field(default_factory=Search, description="The sampler, its seed, the number of configurations.")
    seeds: Seeds = Field(
        default=5, validate_default=True, description="Number of seeds of each configuration, or a list of seeds."
    )
    evaluation: Section = Field(default_factory=dict, description="The steps, samples and lengths of evaluations.")
    objective: Objective = Field(description="The score by which configurations are ranked.")
    resources: Resources = Field(default_factory=Resources, description="Resources of a pack.")
    budget: Budget = Field(
        default_factory=Budget,
        description="Limits of the sweep; packs that would exceed them do not start until a larger budget is given.",
    )
    tracking: Tracking = Field(default_factory=Tracking, description="Whether and where results are published.")
    notify: Address | None = Field(
        default=None,
        description="An http or https address that gets one JSON POST when the sweep ends, fails or is interrupted; "
        "its `text` suits Slack. Only its host is recorded.",
    )

    _findings: Findings = PrivateAttr(default_factory=lambda: Findings("(no file)"))
    _folder: Path | None = PrivateAttr(default=None)
    _direction_is_assumed: bool = PrivateAttr(default=False)
    _is_recorded: bool = PrivateAttr(default=False)

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of the open sections, which depend on whether the sweep has a program."""
        return sections_of({"program": self.program} if self.program else {})

    @property
    def folder(self) -> Path | None:
        """The folder of the sweep file, where modules under `imports` are searched; None without a file."""
        return self._folder

    def in_folder(self, folder: Path | None) -> "SweepSpec":
        """Set the folder where files and modules are searched; return this specification."""
        self._folder = folder
        return self

    @property
    def direction_is_assumed(self) -> bool:
        """Whether the file leaves out `objective.direction`, which then follows from the metric."""
        return self._direction_is_assumed

    @property
    def is_recorded(self) -> bool:
        """Whether the sweep has begun, perhaps with an earlier version that had fewer checks."""
        return self._is_recorded

    def as_recorded(self) -> "SweepSpec":
        """Mark this specification as recorded, so that newer checks are skipped; return it."""
        self._is_recorded = True
        return self

    def with_direction(self, direction: str) -> "SweepSpec":
        """Return this specification with the direction of its objective."""
        spec = self.model_copy(update={"objective": self.objective.model_copy(update={"direction": direction})})
        spec._direction_is_assumed = False
        return spec

    def findings(self) -> Findings:
        """Return findings with the places of all keys and without problems, for further checks."""
        return self._findings.without_problems()

    def where(self, key: str) -> str:
        """Return the place of a dotted key as text, such as `sweeps/a.yaml:7` or `--set model.width=8`."""
        return str(self.place(key))

    def place(self, key: str) -> Place:
        """Return the place of a dotted key.

        This is the place of its domain for a searched key, the first place in search.listed for a listed key, and the
        place of the nearest outer key for a missing key.
        """
        searched_key = next((name for name in self.space if within(key, name)), None)
        address = f"space.{searched_key}" if searched_key else key
        for index, values in enumerate(self.search.listed or ()):
            if name := next((name for name in values if within(key, name)), None):
                address = f"search.listed[{index}].{name}"
                break
        return self._findings.place(address)

    @property
    def notes(self) -> tuple[str, ...]:
        """The messages about the file that are not problems, with their places."""
        return tuple(self._findings.notes)

    def resolved(self) -> dict[str, Any]:
        """Return the specification as plain data with defaults; `load_sweep` reads an equal specification from it.

        Without `claims`, which are only read before the sweep starts.
        """
        # Keep the sections of the engine, or of a program.
        data = self.model_dump(exclude={"space", "claims"})
        data["space"] = {key: domain.to_plain() for key, domain in self.space.items()}
        for section in {*SECTIONS} - {*self.sections}:
            del data[section]
        if not self.program:
            del data["resources"]["grace_seconds"], data["resources"]["member_hours"]

        # Leave out newer keys at their defaults, so that sweeps of earlier versions keep their hash.
        if not self.imports:
            del data["imports"]
        if self.objective.seeds == "median":
            del data["objective"]["seeds"]
        if self.budget == Budget():
            del data["budget"]
        if self.notify is None:
            del data["notify"]
        if self.search.listed is None:
            del data["search"]["listed"]
        if self.search.racing is None:
            del data["search"]["racing"]
        else:
            data["search"]["racing"] = self.search.racing.resolved()
        if self.search.sampler == "tpe":
            data["search"]["startup"] = self.search.results_needed
        else:
            del data["search"]["startup"], data["search"]["failed_configurations"]
        return {name: plain(data[name]) for name in type(self).model_fields if name in data}

    @property
    def spec_hash(self) -> str:
        """The hash of all values that change results (without PASSIVE sections), as 16 hexadecimal digits."""
        text = json.dumps(_select_result_values(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        """Compare the resolved content, without places and folders."""
        return isinstance(other, SweepSpec) and self.resolved() == other.resolved()

    def __hash__(self) -> int:
        return hash((self.name, self.spec_hash))


def differences(before: SweepSpec, after: SweepSpec) -> list[tuple[str, object, object]]:
    """Return (dotted key, value before, value after) of every difference that changes results."""
    old, new = _flatten(_select_result_values(before)), _flatten(_select_result_values(after))
    keys = [*old, *(key for key in new if key not in old)]
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _select_result_values(spec: SweepSpec) -> dict[str, Any]:
    """Return the resolved values that change results."""
    return {key: value for key, value in spec.resolved().items() if key not in PASSIVE}


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as a mapping of dotted keys; empty mappings and lists are values."""
    # Lists are values, and so are empty mappings.
    if not isinstance(value, Mapping) or (not value and prefix):
        return {prefix: list(value) if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flatten(inner, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def grid_points(spec: SweepSpec) -> list[dict[str, Any]]:
    """Return every combination of grid values, the last key varying fastest; [{}] without a grid."""
    grids = {key: domain.values for key, domain in spec.space.items() if isinstance(domain, Grid)}
    return [dict(zip(grids, map(plain, values), strict=True)) for values in product(*grids.values())]


def active_values(spec: SweepSpec, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drawn values whose `when` conditions hold, in the order of the file; other keys keep fixed values.

    A condition on a key that is not active itself is checked against its fixed value.
    """
    # Conditions on inactive keys look at the fixed values.
    sections = {section: getattr(spec, section) for section in spec.sections}
    active: dict[str, bool] = {}  # cache of is_active

    def is_active(key: str) -> bool:
        if key not in active:
            active[key] = key in drawn and all(
                value_key(drawn[other] if other in spec.space and is_active(other) else lookup(sections, other))
                in {value_key(value) for value in values}
                for other, values in spec.space[key].when.items()
            )
        return active[key]

    return {key: drawn[key] for key in spec.space if is_active(key)}
