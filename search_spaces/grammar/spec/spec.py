"""SweepSpec: everything a sweep file says, checked and with its defaults filled in."""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, PrivateAttr, WithJsonSchema

from search_spaces.grammar.problems.findings import Findings, Place, within
from search_spaces.grammar.space.domain_schema import space_schema
from search_spaces.grammar.space.domains import Domain, plain
from search_spaces.grammar.space.keys import written_space
from search_spaces.grammar.spec.values import LARGEST_SEED, Gpus, Lengths, Listed, Modules, Name, Pack, Seeds, Text

PASSIVE = ("name", "description", "claims", "resources", "tracking")  # sections that do not change what is computed

Section = dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Search(_Strict):
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
        description="How many times the random domains are drawn. Needed if there are any, else left out.",
    )
    seed: int = Field(
        default=0, ge=0, le=LARGEST_SEED, description="The draws depend on this seed and their number, only."
    )
    generation: int = Field(
        default=8, ge=1, le=100_000, description="tpe only: configurations drawn before their scores are waited for."
    )
    startup: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="tpe only: how many results it must know before it learns from them; until then it draws at "
        "random. null is one generation.",
    )
    failed_configurations: Literal["worst", "ignored"] = Field(
        default="worst",
        description="tpe only: whether a configuration without a score is told as the worst there is, or not at all.",
    )
    listed: Listed | None = Field(
        default=None,
        description="listed only: the configurations themselves, each a mapping of dotted keys to values; a key that "
        "one of them leaves out keeps its fixed value.",
    )

    @property
    def results_needed(self) -> int:
        """How many results tpe must know before it learns from them."""
        return self.generation if self.startup is None else self.startup

    def informed(self, drawn: int, failed: Collection[int] = ()) -> int:
        """How many of the first `drawn` configurations are drawn by results; those numbered in `failed` have no score.

        Search(sampler="tpe", generation=8, startup=10).informed(20) -> 4; always 0 for samplers that read no results.
        """
        if self.sampler != "tpe":
            return 0
        lost = set(failed) if self.failed_configurations == "ignored" else set()
        for start in range(0, drawn, self.generation):
            if start - sum(number < start for number in lost) >= self.results_needed:
                return drawn - start
        return 0


class Objective(_Strict):
    """What makes one configuration better than another: the median over its seeds of this score."""

    metric: Text = Field(description="The metric, one of the task's.")
    average: Text = Field(description="The weight average that is scored, one of training.averages.")
    lengths: Lengths = Field(description="The validation lengths the score is taken at; all other lengths stay unseen.")
    direction: Literal["minimize", "maximize"] = Field(description="Whether a small or a large score is good.")
    reduce: Literal["mean", "max", "last"] = Field(
        default="mean",
        description="How the values at the lengths become one score: their mean, their largest, or the last one.",
    )
    evaluation: Literal["last", "best"] = Field(
        default="last",
        description="The evaluation each seed is judged at: the last one, or the one with the best value at these "
        "lengths, the later one of equals. Everything that is reported of the seed is taken there.",
    )
    failed_seeds: Literal["worst", "exclude", "fail"] = Field(
        default="worst",
        description="A seed whose training diverged counts as the worst score, is left out of the median, or fails the "
        "configuration.",
    )
    threshold: float | None = Field(
        default=None,
        description="Generalization length is the greatest length at which the median still meets this value.",
    )


class Resources(_Strict):
    """What one pack of members may use, and what happens when it dies."""

    cpus: int = Field(default=1, ge=1, description="CPU cores for each pack.")
    gpus: Gpus = Field(default=0.0, description="GPUs for each pack: 0, a fraction up to 1, or a whole number.")
    scheduler: Literal["auto", "ray", "local", "inline"] = Field(
        default="auto",
        description="ray: packs run side by side in workers, here or on a cluster. local: side by side in processes of "
        "this machine, without Ray, which starts sooner. inline: one after the other in the process of the command "
        "itself, for tests and debugging. auto: ray where RAY_ADDRESS names a cluster, a pack needs a GPU or training "
        "will take more than two minutes, else local.",
    )
    pack: Pack = Field(default="auto", description="Members trained together as one program: auto, or a number.")
    checkpoint_seconds: float | None = Field(
        default=30.0, gt=0, description="A pack saves its state after this many seconds; null turns it off."
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="A pack saves its state every so many steps; null turns it off."
    )
    keep_weights: bool = Field(
        default=False,
        description="Whether the final weights of every member are kept: all parameters, once for each weight average. "
        "`lengthwise plan` says how large they are.",
    )
    retries: int = Field(default=2, ge=0, description="How often a pack that died is started again.")
    watchdog_seconds: float = Field(
        default=600.0, gt=0, description="A pack silent for so many seconds is taken for dead."
    )


class Tracking(_Strict):
    """Where the results are published."""

    enabled: bool = Field(default=True, description="Whether results are published to MLflow.")
    uri: Text | None = Field(
        default=None, description="MLflow tracking URI; null is a SQLite file in the storage folder."
    )
    experiment: Name | None = Field(default=None, description="MLflow experiment; null is the study's name.")


class SweepSpec(_Strict):
    """A sweep: what is fixed, what is varied, how it is scored, what it may use. Made by `load_sweep` alone."""

    name: Name = Field(description="The sweep's name, and its folder in the storage folder.")
    study: Name = Field(description="The study it belongs to: the MLflow experiment.")
    description: str = Field(default="", description="Free text.")
    claims: Text | None = Field(
        default=None,
        description="A claims file beside this one. Its claims about this sweep are registered before the first step; "
        "under another name it is another sweep and has none.",
    )
    imports: Modules = Field(
        default=(),
        description="Python modules of your own, beside this file or installed, whose tasks, models, positions, "
        "averages and schedules can be named below.",
    )
    task: Section = Field(description="The task: its name and options. `lengthwise list` shows them.")
    model: Section = Field(description="The model: its name and options.")
    training: Section = Field(description="Steps, batch size, learning rate, schedule, weight averages ...")
    space: Annotated[dict[str, InstanceOf[Domain]], WithJsonSchema(space_schema())] = Field(
        default_factory=dict, description="What is varied: dotted keys and the domains they are drawn from."
    )
    search: Search = Field(default_factory=Search, description="The sampler, its seed, the number of configurations.")
    seeds: Seeds = Field(description="How many seeds each configuration is trained with, or a list of them.")
    evaluation: Section = Field(default_factory=dict, description="When, on how much and at which lengths to evaluate.")
    objective: Objective = Field(description="What makes one configuration better than another.")
    resources: Resources = Field(default_factory=Resources, description="What a pack may use.")
    tracking: Tracking = Field(default_factory=Tracking, description="Where results are published.")

    _findings: Findings = PrivateAttr(default_factory=lambda: Findings("(no file)"))
    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """The folder of the sweep file, where modules under `imports` are looked for; None if it is in no file."""
        return self._folder

    def findings(self) -> Findings:
        """Where everything was written, for further checks; nothing is found yet."""
        return self._findings.without_problems()

    def where(self, key: str) -> str:
        """The place of a dotted key, such as `sweeps/a.yaml:7` or `--set model.width=8`."""
        return str(self.place(key))

    def place(self, key: str) -> Place:
        """The place of a dotted key.

        For a key the space draws this is the place of its domain, because that is where its value comes from; for one
        of search.listed, its first place there; for an absent key, the place of the nearest key above it.
        """
        drawn = next((name for name in self.space if within(key, name)), None)
        address = f"space.{drawn}" if drawn else key
        for index, values in enumerate(self.search.listed or ()):
            if name := next((name for name in values if within(key, name)), None):
                address = f"search.listed[{index}].{name}"
                break
        return self._findings.place(address)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the file although nothing is wrong with it, with the place of each."""
        return tuple(self._findings.notes)

    def resolved(self) -> dict[str, Any]:
        """Everything as plain, fresh data with defaults filled in; `load_sweep` of it as YAML gives an equal spec.

        Without `claims`, which are read once, before the sweep begins.
        """
        data = self.model_dump(exclude={"space", "claims"}) | {"space": written_space(self.space)}
        if not self.imports:
            del data["imports"]
        if self.search.listed is None:
            del data["search"]["listed"]  # it belongs to one sampler alone
        if self.search.sampler == "tpe":
            data["search"]["startup"] = self.search.results_needed
        else:
            del data["search"]["startup"], data["search"]["failed_configurations"]
        return {name: plain(data[name]) for name in type(self).model_fields if name in data}

    @property
    def spec_hash(self) -> str:
        """16 hex characters that name what is computed: not the name, description, resources or tracking."""
        kept = {key: value for key, value in self.resolved().items() if key not in PASSIVE}
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        """Equal specs say the same, wherever it was written."""
        return isinstance(other, SweepSpec) and self.resolved() == other.resolved()

    def __hash__(self) -> int:
        return hash((self.name, self.spec_hash))
