"""Members of programs, and the sections `program`, `config`, `training` and `evaluation` of their sweep files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from orchestrator.interface.measurements import Measurements
from orchestrator.program.command import find_unknown_placeholders
from orchestrator.text.wording import format_ranges
from search_spaces.grammar.sections import list_dotted_keys, read_key
from trainers.errors import Problem, find_nearest
from trainers.settings.fields import Settings, setting
from trainers.settings.identity import compute_digest, make_identity, make_structure
from trainers.tasks.metric_descriptions import RecordedMetric

DIRECTIONS = ("minimize", "maximize", "none")
RAW = "raw"


class ProgramSettings(Settings):
    """The command or function of the user that every member starts; `imported` results start nothing."""

    command: tuple[str, ...] | str | None = setting(
        None, help="words of a command with placeholders such as ${args}; a text is split as a shell would split it"
    )
    function: str | None = setting(None, help="MODULE.NAME of a Python function (config, seed, report, checkpoints)")
    imported: str | None = setting(None, help="SHA-256 of an imported table; written by `lengthwise import`")
    files: tuple[str, ...] | None = setting(
        None, help="files that are copied and hashed; null: the words that are files here, and what they import"
    )
    seed_shares: tuple[str, ...] = setting(
        (),
        help="what members with the same seed have in common, such as [training data, test inputs]; not checked by "
        "lengthwise",
    )
    member_minutes: float | None = setting(
        None, above=0.0, help="minutes that a member trains, from which `plan` estimates the time"
    )

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem unless exactly one of command, function and imported is given, and problems of its text."""
        # With two of them it would be unclear which one trains.
        starts = [name for name in ("command", "function", "imported") if getattr(self, name) is not None]
        if len(starts) != 1:
            message = f"has both {' and '.join(starts)}; keep one" if starts else "has neither command nor function"
            yield Problem(key="", message=message, allowed="command: [...] or function: MODULE.NAME")

        if isinstance(self.command, str):
            try:
                shlex.split(self.command)
            except ValueError as error:
                yield Problem(key="command", given=self.command, message=f"cannot be split into words ({error})")

        # A single word like my_training.train was probably meant as a function.
        command = self.command.strip() if isinstance(self.command, str) else self.command
        if command is not None and not command:
            yield Problem(key="command", given=list(command), message="must have at least one word")
        elif len(self.words) == 1 and _is_function(self.words[0]):
            allowed = "function: MODULE.NAME, or the words of a command"
            message = f"{self.words[0]!r} names a function, not a program"
            yield Problem(key="command", given=self.command, message=message, allowed=allowed)

        if self.function is not None and not _is_function(self.function):
            message = f"{self.function!r} is not MODULE.NAME"
            yield Problem(key="function", given=self.function, message=message, allowed="such as my_training.train")

    def to_dict(self) -> dict[str, Any]:
        """Return the given settings as plain values."""
        return {key: value for key, value in super().to_dict().items() if value not in (None, [])}

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command, split as a shell would; () for a function, and for an open quotation mark."""
        if isinstance(self.command, str):
            try:
                return tuple(shlex.split(self.command))
            except ValueError:
                return ()
        return self.command or ()

    @property
    def description(self) -> str:
        """The command, or the name of the function."""
        return self.function or shlex.join(self.words)


class ProgramTraining(Settings):
    """The length of the training, in the program's own unit."""

    steps: int = setting(low=1, below=2**32, help="steps, epochs or tokens: the last step a member reports")


class ProgramEvaluation(Settings):
    """The metrics that a program reports, their lengths, and the steps of the reports."""

    every: int | None = setting(
        None, low=1, help="steps between reports; the last step is always due; null: only the last step"
    )
    lengths: tuple[int, ...] = setting((1,), low=0, help="the lengths of metrics without `lengths` of their own")
    trained_lengths: tuple[int, ...] | dict[str, str] = setting(
        (), help="the trained lengths, or {up_to: config.KEY} for all lengths from 1 to the value of config.KEY"
    )
    metrics: dict[str, Any] = setting(
        help="a better direction for each metric (minimize, maximize, none), or {direction:, lengths: [...]}"
    )
    averages: tuple[str, ...] = setting((RAW,), help="the weight averages that are reported")
    axis: str = setting("length", technical=True, help="the unit of lengths in figures, such as depth or digits")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of metrics, of repeated lengths and averages, and of trained lengths."""
        # Lengths and averages are axes of the recorded arrays.
        for name in ("lengths", "averages"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                yield Problem(key=name, given=list(values), message="must be distinct and not empty")

        # A metric is a direction, or a mapping with a direction and lengths.
        if not self.metrics:
            yield Problem(key="metrics", given={}, message="is empty", allowed="NAME: maximize or minimize")
        for name, metric in self.metrics.items():
            direction = metric.get("direction") if isinstance(metric, Mapping) else metric
            if direction not in DIRECTIONS:
                nearest = find_nearest(direction, DIRECTIONS)
                allowed = ", ".join(DIRECTIONS)
                message = f"unknown direction {direction!r}"
                yield Problem(key=f"metrics.{name}", given=metric, message=message, allowed=allowed, nearest=nearest)
            if isinstance(metric, Mapping):
                yield from _find_metric_problems(name, metric)

        # Check only the form of a mapping; `ProgramMember` knows whether config has its key.
        trained = self.trained_lengths
        if isinstance(trained, Mapping) and (
            trained.keys() != {"up_to"} or not str(trained["up_to"]).startswith("config.")
        ):
            message = "is neither a list of lengths nor {up_to: config.KEY}"
            yield Problem(key="trained_lengths", given=dict(trained), message=message)

    def get_lengths(self, metric: str) -> tuple[int, ...]:
        """Return the lengths of a metric, ascending."""
        declared_lengths = self._read_declared_lengths(metric)
        return tuple(sorted(self.lengths if declared_lengths is None else declared_lengths))

    def list_metrics_with_lengths(self) -> tuple[str, ...]:
        """Return the metrics that have lengths of their own."""
        return tuple(name for name in self.metrics if self._read_declared_lengths(name) is not None)

    def _read_declared_lengths(self, metric: str) -> Any:
        """Return the lengths that a metric itself has, None if it has none."""
        declared = self.metrics[metric]
        return declared.get("lengths") if isinstance(declared, Mapping) else None

    def get_direction(self, metric: str) -> str:
        """Return the better direction of a metric."""
        declared = self.metrics[metric]
        return str(declared["direction"] if isinstance(declared, Mapping) else declared)


class ProgramMember(Settings):
    """A configuration of a program with a seed; see `orchestrator.interface.trainer.Member`."""

    program: ProgramSettings = setting(kind=ProgramSettings)
    config: dict[str, Any] = setting(member=True, help="the values that the program is given")
    training: ProgramTraining = setting(kind=ProgramTraining)
    evaluation: ProgramEvaluation = setting(kind=ProgramEvaluation)
    seed: int = setting(0, low=0, below=2**63, member=True, help="given to the program")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of placeholders without a value, and of a trained length that the config does not have."""
        yield from find_unknown_placeholders(self.program.words, list_dotted_keys(self.config))
        trained = self.evaluation.trained_lengths
        if isinstance(trained, Mapping) and self._find_longest_trained() is None:
            key = trained["up_to"]
            config_keys = [f"config.{name}" for name in list_dotted_keys(self.config)]
            message = f"{key} is not a whole number of at least 1 in config"
            yield Problem(
                key="evaluation.trained_lengths",
                given=dict(trained),
                message=message,
                nearest=find_nearest(key, config_keys),
            )

    @property
    def steps(self) -> int:
        """The step of the last report."""
        return self.training.steps

    @property
    def evaluation_interval(self) -> int | None:
        """The steps between reports; None if only the last step is reported."""
        return self.evaluation.every

    @cached_property
    def config_id(self) -> str:
        """The hash of all values without the seed, 12 hexadecimal digits."""
        return compute_digest({key: value for key, value in make_identity(self).items() if key != "seed"})

    @cached_property
    def structural_key(self) -> str:
        """The hash of the program, its steps and its reports, without config and seed."""
        return compute_digest(make_structure(self))

    @property
    def lengths(self) -> tuple[int, ...]:
        """All lengths at which a metric is reported, ascending."""
        evaluation = self.evaluation
        return tuple(sorted({length for name in evaluation.metrics for length in evaluation.get_lengths(name)}))

    @property
    def measurements(self) -> Measurements:
        """The reported metrics and lengths as the ledger records them."""
        evaluation = self.evaluation
        trained = self._find_trained_lengths()
        metrics = {}
        for name in evaluation.metrics:
            lengths = evaluation.get_lengths(name)
            trained_lengths = tuple(length for length in lengths if length in trained)
            metrics[name] = RecordedMetric(name, "", evaluation.get_direction(name), lengths, trained_lengths)
        return Measurements(
            lengths=self.lengths,
            averages=evaluation.averages,
            metrics=metrics,
            longest_trained={"": max(trained)} if trained else {},
            headline=tuple(evaluation.metrics),
            trained={"": tuple(sorted(trained))} if trained else {},
            technical=(),
            axis=evaluation.axis,
        )

    def describe_lost_lengths(self) -> str:
        """Return a warning if no test length is left, or if trained lengths seem to miss an evaluated one; else ""."""
        # Test lengths are those beyond the longest trained one; shorter ones that are not trained are in no group.
        lengths, trained = self.lengths, self._find_trained_lengths()
        longest = max(trained, default=0)
        has_lost = any(length < longest and length not in trained for length in lengths)
        if longest == lengths[-1]:
            return f"evaluation.trained_lengths: {longest} is the longest evaluated length, so no test length is left"

        # Evaluated lengths that are not trained may be deliberate if the longest trained length is evaluated, too;
        # otherwise they are probably a mistake.
        if longest < lengths[-1] and (longest in lengths or not has_lost):
            return ""
        nearest = min(lengths, key=lambda length: abs(length - longest))
        relation = "is not among" if longest < lengths[-1] else "is longer than all"
        effect = "" if longest < lengths[-1] else ", so no test length is left"
        message = f"{longest} {relation} evaluated lengths ({format_ranges(lengths)}){effect}; nearest: {nearest}"
        return f"evaluation.trained_lengths: {message}"

    def _find_trained_lengths(self) -> tuple[int, ...]:
        """Return the declared trained lengths; with `up_to` all lengths from 1 to the value of its key."""
        trained = self.evaluation.trained_lengths
        return tuple(range(1, (self._find_longest_trained() or 0) + 1)) if isinstance(trained, Mapping) else trained

    def _find_longest_trained(self) -> int | None:
        """Return the value of the key under `up_to`; None without `up_to`, or if it is not a whole number >= 1."""
        trained = self.evaluation.trained_lengths
        key = trained["up_to"].removeprefix("config.") if isinstance(trained, Mapping) else ""
        value = read_key(self.config, key)
        return value if type(value) is int and value >= 1 else None


def _find_metric_problems(name: str, metric: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield the problems of a metric that is declared as a mapping, except of its direction."""
    for key in metric.keys() - {"direction", "lengths"}:
        nearest = find_nearest(key, ("direction", "lengths"))
        yield Problem(key=f"metrics.{name}.{key}", message="unknown key", allowed="direction, lengths", nearest=nearest)
    lengths = metric.get("lengths", [1])
    is_list = isinstance(lengths, list) and all(type(length) is int and length >= 0 for length in lengths)
    if not is_list or not lengths:
        allowed = "a list of whole numbers, such as [5, 10]"
        yield Problem(key=f"metrics.{name}.lengths", given=lengths, message="is not a list of lengths", allowed=allowed)


def _is_function(word: str) -> bool:
    """Return whether a word has the form MODULE.NAME and is not a script."""
    parts = word.split(".")
    return len(parts) > 1 and parts[-1] not in ("py", "sh") and all(part.isidentifier() for part in parts)
