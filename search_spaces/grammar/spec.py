"""SweepSpec, a checked sweep file, and its sections as classes, whose fields are the keys of the file.

The sections `search` and `objective` have modules of their names. Keys of tasks, models, training and evaluation are
fields of classes in trainers/, checked by `trainers.settings.fields`.

Unknown keys are refused by `Strict` (values.py). A new key is a field with a description. Unless it is PASSIVE,
`SweepSpec.resolved` must leave it out at its default, so that recorded sweeps keep their hash;
`lengthwise schema > search_spaces/schema.json` adds it to the schema for editors.
"""

import hashlib
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, InstanceOf, PrivateAttr, WithJsonSchema

from search_spaces.grammar.domains import Domain, Grid, make_plain, make_space_schema, make_value_key
from search_spaces.grammar.objective import Objective
from search_spaces.grammar.problems import Findings, Location, is_within
from search_spaces.grammar.search import Search
from search_spaces.grammar.sections import SECTIONS, list_sections, read_key
from search_spaces.grammar.values import Gpus, KeepWeights, Modules, Name, PackSize, Seeds, Strict, Text, WebhookAddress

PASSIVE = ("name", "description", "claims", "resources", "budget", "tracking", "notify")
"""The keys that do not change results, so that a resumed sweep may have others."""

Section = dict[str, Any]
_PROGRAM_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "object", "additionalProperties": True},
    ]
}


class Resources(Strict):
    """Resources of one pack of members, and how often it is retried when it dies."""

    cpus: int = Field(default=1, ge=1, description="CPU cores for each pack.")
    gpus: Gpus = Field(default=0.0, description="GPUs for each pack: 0, a fraction up to 1, or a whole number.")
    scheduler: Literal["auto", "ray", "local", "inline"] = Field(
        default="auto",
        description="ray: packs run side by side in workers, here or on a cluster. local: side by side in processes of "
        "this machine, without Ray, which starts sooner. inline: one after the other in the process of the command "
        "itself, for tests and debugging. auto: ray if RAY_ADDRESS names a cluster; otherwise local for programs, and "
        "for other sweeps ray if a pack needs a GPU or training will take more than two minutes, else local.",
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
    def heartbeat_timeout(self) -> float:
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
    """A sweep: fixed and searched values, objective and resources. Made by `load_sweep`, which checks it further."""

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
        description="Your Python modules, beside this file or installed, with tasks, metrics, models, positions, "
        "optimizers, losses, averages, schedules and curricula for this file.",
    )
    task: Section = Field(
        description="The task: its name and options. `lengthwise list` shows them. Task and model, or a program."
    )
    model: Section = Field(description="The model: its name and options.")
    program: Annotated[Section, WithJsonSchema(_PROGRAM_SCHEMA)] = Field(
        default_factory=dict,
        description="Your own training code in place of task and model: `command`, the words of a command line with "
        "placeholders, or `function`, a Python function. A text or a list is a command.",
    )
    config: Section = Field(
        default_factory=dict, description="The fixed values for your program: any keys, nested or not."
    )
    training: Section = Field(description="Steps, batch size, learning rate, schedule, weight averages ...")
    space: Annotated[dict[str, InstanceOf[Domain]], WithJsonSchema(make_space_schema())] = Field(
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
    notify: WebhookAddress | None = Field(
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
        return list_sections({"program": self.program} if self.program else {})

    @property
    def folder(self) -> Path | None:
        """The folder of the sweep file, where modules under `imports` are searched; None without a file."""
        return self._folder

    def set_folder(self, folder: Path | None) -> "SweepSpec":
        """Set the folder where files and modules are searched; return this specification."""
        self._folder = folder
        return self

    @property
    def direction_is_assumed(self) -> bool:
        """Whether the file leaves out `objective.direction`, which then follows from the metric."""
        return self._direction_is_assumed

    @property
    def is_recorded(self) -> bool:
        """Whether the specification is from a ledger; an earlier version with fewer checks may have written it."""
        return self._is_recorded

    def mark_recorded(self) -> "SweepSpec":
        """Mark this specification as recorded, so that newer checks are skipped; return it."""
        self._is_recorded = True
        return self

    def with_direction(self, direction: str) -> "SweepSpec":
        """Return this specification with the direction of its objective."""
        spec = self.model_copy(update={"objective": self.objective.model_copy(update={"direction": direction})})
        spec._direction_is_assumed = False
        return spec

    def copy_findings(self) -> Findings:
        """Return new findings for further checks: they know the location of every key, and have no problems yet."""
        return self._findings.without_problems()

    def format_location(self, key: str) -> str:
        """Return the location of a dotted key as text, such as `sweeps/a.yaml:7` or `--set model.width=8`."""
        return str(self.find_location(key))

    where = format_location  # its name in version 2.0.0, which scripts of users may call

    def find_location(self, key: str) -> Location:
        """Return the location of a dotted key.

        A searched key has the location of its domain, a listed key its first location in search.listed, and a missing
        key the location of the nearest outer key.
        """
        searched_key = next((name for name in self.space if is_within(key, name)), None)
        key_path = f"space.{searched_key}" if searched_key else key
        for index, values in enumerate(self.search.listed or ()):
            if name := next((name for name in values if is_within(key, name)), None):
                key_path = f"search.listed[{index}].{name}"
                break
        return self._findings.find_location(key_path)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the file that are not problems, each with its location."""
        return tuple(self._findings.notes)

    def resolved(self) -> dict[str, Any]:
        """Return the specification as plain data with defaults; `load_sweep` reads an equal specification from it.

        Without `claims`, which are only read before the sweep starts.
        """
        # Leave out keys of programs, which would change the hash of every sweep of the engine.
        data = self.model_dump(exclude={"space", "claims"})
        data["space"] = {key: domain.to_plain() for key, domain in self.space.items()}
        for section in {*SECTIONS} - {*self.sections}:
            del data[section]
        if not self.program:
            del data["resources"]["grace_seconds"], data["resources"]["member_hours"]

        # Newer keys are left out at their defaults, so that sweeps of earlier versions keep their hash and their text.
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
        return {name: make_plain(data[name]) for name in type(self).model_fields if name in data}

    @property
    def spec_hash(self) -> str:
        """The hash of all values that change results: the PASSIVE keys are left out. 16 hexadecimal digits."""
        text = json.dumps(_select_result_values(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        """Return whether both resolve to the same data; their locations and folders may differ."""
        return isinstance(other, SweepSpec) and self.resolved() == other.resolved()

    def __hash__(self) -> int:
        return hash((self.name, self.spec_hash))


def list_differences(before: SweepSpec, after: SweepSpec) -> list[tuple[str, object, object]]:
    """Return (dotted key, value before, value after) of every difference that changes results."""
    old = _flatten(_select_result_values(before))
    new = _flatten(_select_result_values(after))
    return [(key, old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)]


def _select_result_values(spec: SweepSpec) -> dict[str, Any]:
    """Return the resolved values that change results."""
    return {key: value for key, value in spec.resolved().items() if key not in PASSIVE}


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as a mapping of dotted keys; empty mappings and lists are values."""
    if not isinstance(value, Mapping) or (not value and prefix):
        return {prefix: list(value) if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flatten(inner, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def list_grid_points(spec: SweepSpec) -> list[dict[str, Any]]:
    """Return every combination of grid values, the last key varying fastest; [{}] without a grid."""
    grids = {key: domain.values for key, domain in spec.space.items() if isinstance(domain, Grid)}
    return [dict(zip(grids, map(make_plain, values), strict=True)) for values in product(*grids.values())]


def select_active_values(spec: SweepSpec, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drawn values whose `when` conditions hold, in the order of the file; other keys keep fixed values.

    A condition on a key that is not active itself is checked against its fixed value.
    """
    sections = {section: getattr(spec, section) for section in spec.sections}
    active: dict[str, bool] = {}

    def is_active(key: str) -> bool:
        # A cache, because chains of conditions would be walked once for every key.
        if key not in active:
            active[key] = key in drawn and all(
                make_value_key(drawn[other] if other in spec.space and is_active(other) else read_key(sections, other))
                in {make_value_key(value) for value in values}
                for other, values in spec.space[key].when.items()
            )
        return active[key]

    return {key: drawn[key] for key in spec.space if is_active(key)}
