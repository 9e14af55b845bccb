"""Stored weights that members start from instead of drawn weights: a file for all seeds, or for each seed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from trainers.errors import CorpusError, Problem, WeightsError, find_nearest, join_first_few, suggest_nearest
from trainers.files.data_folders import find_data_folder
from trainers.files.file_digest import compute_file_digest
from trainers.settings.fields import Settings, setting

if TYPE_CHECKING:  # these modules import torch, which a configuration is read without
    from torch import Tensor

    from trainers.models.model import Model
    from trainers.tasks.task import Task

_MAX_NAMES, _MAX_SHAPES = 5, 3  # names and shapes listed in a message; the others are counted
_RAW = "raw"  # the label of the training weights among the averages


class InitialWeights(Settings):
    """Weights to start from: `file` has the tensors of a member by the names of the model's parameters.

    A file written by lengthwise has these tensors for each weight average. `{"0": "a.pt", "1": "b.pt"}` gives a file
    for each seed.
    """

    file: str | dict[str, str] = setting(
        pinned_by="sha256",
        technical=True,
        help="a .safetensors file or a state_dict of torch.save; or such a file for each seed",
    )
    sha256: str | dict[str, str] | None = setting(
        None, help="hash of the file, or of each file by seed; null: the hash of the file when the sweep is planned"
    )
    average: str | None = setting(
        None, help="the weight average to read from a file that lengthwise wrote; null: raw, the training weights"
    )
    rename: dict[str, str | None] | None = setting(
        None, help="names in the file: names in the model, null to leave a tensor out; * stands for any text"
    )
    strict: bool = setting(
        True, help="every tensor must fit; false: others are left out, and parameters without a tensor are drawn"
    )
    source: str | None = setting(None, pinned_by="sha256", technical=True, help="the name of these weights in tables")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of seeds that are not numbers, and of hashes that are invalid or do not match the files."""
        if isinstance(self.file, dict):
            for seed in [seed for seed in self.file if not re.fullmatch(r"0|[1-9][0-9]*", seed)]:
                yield Problem(key="file", given=seed, message=f"{seed!r} is not a seed", allowed="numbers as keys")
            if not self.file:
                yield Problem(key="file", given={}, message="names no file", allowed="a file, or a file for each seed")

        # If only some files had a hash, the others could change unnoticed.
        hashes = {"": self.sha256} if isinstance(self.sha256, str) else self.sha256 or {}
        for sha256 in hashes.values():
            if not re.fullmatch(r"[0-9a-f]{64}", sha256):
                yield Problem(key="sha256", given=sha256, message="is not a SHA-256", allowed="64 hexadecimal digits")
        if self.sha256 is not None and hashes.keys() != self._files_by_seed.keys():
            message = "does not have a hash for each file"
            yield Problem(key="sha256", given=self.sha256, message=message, allowed="null, or the keys of file")

    @property
    def _files_by_seed(self) -> dict[str, str]:
        """The files by seed; a file for all seeds has the key ""."""
        return self.file if isinstance(self.file, dict) else {"": self.file}

    def pin_data(self) -> Self:
        """Return these settings with the hash of every file; unchanged if hashes are set or a file cannot be read."""
        if self.sha256 is not None:
            return self
        try:
            hashes = {seed: compute_file_digest(_find_file(file)) for seed, file in self._files_by_seed.items()}
        except OSError:
            return self
        return replace(self, sha256=hashes if isinstance(self.file, dict) else hashes[""])

    def find_problems(self, model: Model, task: Task, seeds: Collection[int]) -> Iterator[Problem]:
        """Yield problems of members with these seeds: files that are missing, have changed, or do not fit the model."""
        if isinstance(self.file, dict) and (missing_seeds := [seed for seed in seeds if str(seed) not in self.file]):
            message = f"{self.source or 'file'} has no weights of {_list_seeds(missing_seeds)}"
            instead = f"one seed's weights for all: `seeds: {next(iter(self.file), 0)}` beside `sweep`, or one `file`"
            yield Problem(key="", message=message, allowed=f"{_list_seeds(self.file)}, or {instead}")
            return

        # A file for all seeds fits all of them or none, so it is read once.
        for seed in seeds if isinstance(self.file, dict) else [*seeds][:1]:
            try:
                self._match_parameters(seed, model, task)
            except WeightsError as error:
                key = "average" if isinstance(error, _NoAverageError) else "file"
                yield Problem(key="" if isinstance(error, _MisfitError) else key, message=str(error))
                return  # the problems of other seeds are alike

    def describe_partial(self, model: Model, task: Task, seed: int) -> str | None:
        """Return a text that names the drawn parameters and unused tensors; None if file and model match.

        Raises WeightsError.
        """
        match = self._match_parameters(seed, model, task)
        if not match.differs:
            return None

        total = len(model.parameters(task))
        unused = f"; unused in the file: {join_first_few(match.unused, _MAX_NAMES)}" if match.unused else ""
        drawn = join_first_few([*match.missing, *match.wrong_shapes], _MAX_NAMES) or "none"
        return f"{len(match.names)} of {total} parameters start from {match.path.name}; drawn: {drawn}{unused}"

    def read(self, model: Model, task: Task, seed: int) -> dict[str, Tensor]:
        """Return the stored tensors of a member by the names of its parameters, on the CPU.

        Without `strict` some parameters may be missing. Raises WeightsError for a file that is missing, has changed or
        does not fit.
        """
        from trainers.files.tensor_file import read_tensors

        match = self._match_parameters(seed, model, task)
        tensors = read_tensors(match.path)
        return {name: tensors[stored] for name, stored in match.names.items()}

    def _match_parameters(self, seed: int, model: Model, task: Task) -> _WeightsMatch:
        """Return which tensor of the file each parameter takes. Raises WeightsError if they do not fit."""
        from trainers.files.tensor_file import read_shapes

        # Names and shapes in the file, by the names that the model has for them.
        path = self._find_verified(seed)
        shapes, is_lengthwise_file = read_shapes(path)
        stored = self._map_stored_names(path, shapes, is_lengthwise_file)
        parameter_shapes = {parameter.name: parameter.shape for parameter in model.parameters(task)}
        other_tensors = {name: tensor for name, tensor in model.other_tensors(task).items() if name in stored}

        # The file may have a tied parameter under its second name only.
        for name, tied_to in other_tensors.items():
            if isinstance(tied_to, str) and tied_to not in stored:
                stored[tied_to] = stored[name]

        # Collect all differences, so that a message can show them together.
        seeds = f" (seed {seed})" if isinstance(self.file, dict) else ""
        match = _WeightsMatch(path, f"{self.source}{seeds}" if self.source else str(path))
        for name, shape in parameter_shapes.items():
            if name not in stored:
                match.missing.append(name)
            elif shapes[stored[name]] != tuple(shape):
                match.wrong_shapes[name] = (shapes[stored[name]], tuple(shape))
            else:
                match.names[name] = stored[name]
        match.unused += [name for name in stored if name not in parameter_shapes and name not in other_tensors]

        # With `strict`, buffers must be equal and tied parameters must be tied in the file, too; else it is of another
        # model, even if all parameters fit.
        if self.strict:
            match.unused += _find_differing(path, stored, other_tensors)
        if self.strict and match.differs:
            raise _MisfitError(match.describe(strict=True))
        if not match.names:
            differences = match.describe(strict=self.strict)
            raise _MisfitError(f"no tensor has the name and the shape of a parameter: {differences}")
        return match

    def _find_verified(self, seed: int) -> Path:
        """Return the verified path of a seed's file. Raises WeightsError if it is missing or has changed."""
        key = str(seed) if isinstance(self.file, dict) else ""
        if key not in self._files_by_seed:
            allowed = _list_seeds(self._files_by_seed)
            raise WeightsError(f"there are no weights to start from for seed {seed}; allowed: {allowed}")
        path = _find_file(self._files_by_seed[key])
        try:
            sha256 = compute_file_digest(path)
        except OSError as error:
            raise WeightsError(
                f"{path}: the weights to start from cannot be read: {error.strerror}; also allowed: a file of this "
                "name in the data folder (LENGTHWISE_DATA)"
            ) from error

        # The results would differ from the recorded configuration's.
        recorded = self.sha256[key] if isinstance(self.sha256, dict) else self.sha256
        if recorded not in (None, sha256):
            raise WeightsError(f"{path}: its SHA-256 is {sha256}, not {recorded}; restore the file, or run a new sweep")
        return path

    def _map_stored_names(self, path: Path, shapes: Mapping[str, object], is_lengthwise_file: bool) -> dict[str, str]:
        """Return the tensors of the average in a file: name after `rename` -> name in the file. Raises WeightsError."""
        # A file that lengthwise wrote has the weights of all averages, named `<average>/<parameter>`.
        names = {name: name for name in shapes}
        if is_lengthwise_file:
            average = self.average or _RAW
            labels = list(dict.fromkeys(name.partition("/")[0] for name in shapes))
            if average not in labels:
                hint = suggest_nearest(average, labels)
                raise _NoAverageError(f"{path}: has no average {average!r}; allowed: {', '.join(labels)}{hint}")
            names = {name.partition("/")[2]: name for name in shapes if name.partition("/")[0] == average}
        elif self.average is not None:
            raise _NoAverageError(f"{path}: has no averages, because lengthwise did not write it; allowed: null")

        # The first rule of `rename` that matches a name wins, so that a general rule may follow exceptions.
        rules = [(_compile_pattern(old), new) for old, new in (self.rename or {}).items()]
        renamed: dict[str, str] = {}
        for name, stored in names.items():
            match, new = next(((match, new) for old, new in rules if (match := old.fullmatch(name))), (None, name))
            if match is not None and new is not None:
                texts = iter(match.groups())
                new = re.sub(r"\*", lambda _: next(texts, ""), new)  # noqa: B023 - called at once
            if new in renamed:
                raise WeightsError(f"{path}: rename gives {renamed[new]} and {stored} the same name {new}")
            if new is not None:
                renamed[new] = stored
        return renamed


class _NoAverageError(WeightsError):
    """The file does not have the average."""


class _MisfitError(WeightsError):
    """The tensors of the file do not fit the model."""


@dataclass
class _WeightsMatch:
    """The comparison of a file with a model.

    source: the file as messages name it. names: parameter -> tensor in the file. missing: parameters without a tensor.
    wrong_shapes: parameter -> shape in the file, shape in the model. unused: tensors without a parameter.
    """

    path: Path
    source: str
    names: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    wrong_shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether the tensors of the file and of the model differ in name or shape."""
        return bool(self.missing or self.wrong_shapes or self.unused)

    def describe(self, *, strict: bool) -> str:
        """Return the differences as a line of text with the allowed values, `strict: false` among them if `strict`."""
        parts = [f"has no tensor {join_first_few(self.missing, _MAX_NAMES)}"] if self.missing else []
        parts += [f"has {join_first_few(self.unused, _MAX_NAMES)}, unknown to the model"] if self.unused else []
        shapes = [f"{name} of shape {stored}, not {expected}" for name, (stored, expected) in self.wrong_shapes.items()]
        parts += [f"has {join_first_few(shapes, _MAX_SHAPES)}"] if shapes else []
        pairs = ((name, find_nearest(name, self.unused)) for name in self.missing)
        hint = next((f"; did you mean rename: {{{nearest}: {name}}}?" for name, nearest in pairs if nearest), "")
        allowed = "the model's names and shapes" + (", or strict: false" if strict else "")
        return f"{self.source}: {'; '.join(parts)}; allowed: {allowed}{hint}"


def _find_file(file: str) -> Path:
    """Return the path of a file; if it is missing, the path of a file of the same name in the data folder."""
    path = Path(file)
    if not path.is_file():
        with suppress(CorpusError):
            candidate = find_data_folder() / path.name
            return candidate if candidate.is_file() else path
    return path


def _find_differing(path: Path, stored: Mapping[str, str], other_tensors: Mapping[str, Tensor | str]) -> list[str]:
    """Return the names of buffers and tied parameters (`Model.other_tensors`) whose stored tensors differ."""
    import torch

    from trainers.files.tensor_file import read_tensors

    tensors = read_tensors(path) if other_tensors else {}
    expected = {
        name: tensors[stored[tensor]] if isinstance(tensor, str) else tensor for name, tensor in other_tensors.items()
    }
    return [
        name for name, tensor in expected.items() if not torch.equal(tensors[stored[name]].to(tensor.dtype), tensor)
    ]


def _compile_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a name in which * matches any text."""
    return re.compile("(.*?)".join(map(re.escape, name.split("*"))))


def _list_seeds(seeds: Collection[int | str]) -> str:
    """Return seeds with their noun: _list_seeds([2, 3]) -> "seeds 2, 3"."""
    noun = "seed" if len(seeds) == 1 else "seeds"
    return f"{noun} {join_first_few([*map(str, seeds)], _MAX_NAMES)}"
