"""Determine the random streams that two configurations share: training data, test inputs, initial weights.

Random numbers depend on seed, stream and step (trainers.random), so members of one seed draw the same numbers. Data and
weights are the same only if the same code draws them in the same shapes, which the records of configurations show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.code.user_code import UserCodeError
from orchestrator.engine.engine_streams import DATA, INITIAL, INPUTS, WEIGHTS
from orchestrator.engine.environment import MODULE
from orchestrator.errors import UntrustedCode
from orchestrator.results.pack_environments import ConfigurationProvenance, find_differing_code
from orchestrator.text.wording import join_with_and
from orchestrator.trainer_choice import find_shared_streams, get_trainer


@dataclass(frozen=True, kw_only=True)
class SharedStreams:
    """The random streams that members of one seed share (`common`), and why the others differ (`causes`).

    `causes` has the keys that make a stream differ; streams in `uncertain` may be the same after all. `differing` has
    every resolved key and every part of the code in which the configurations differ, with both values (None if
    missing); `code` has only the parts of the code.
    """

    common: tuple[str, ...]
    causes: Mapping[str, tuple[str, ...]]
    uncertain: frozenset[str]
    differing: Mapping[str, tuple[Any, Any]]
    code: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    by_number: bool = False  # for programs: seeds are paired by number, whatever they share

    @property
    def is_paired(self) -> bool:
        """Whether members of one seed are compared with each other."""
        return bool(self.common) or self.by_number

    @property
    def sentence(self) -> str:
        """The streams as text: "same training data and test inputs; initial weights differ (model.position)"."""
        # A program draws its own random numbers, so only the sweep file can say what seeds share.
        if self.by_number:
            declared = f"the sweep file declares the same {join_with_and(self.common)}" if self.common else ""
            unknown = "whether seeds share anything random is not known"
            return f"by seed number; {declared or unknown}"

        parts = [f"same {join_with_and(self.common)}"] if self.common else []
        parts += [
            f"{stream} {'may differ' if stream in self.uncertain else 'differ'} ({', '.join(keys)})"
            for stream, keys in self.causes.items()
        ]
        return "; ".join(parts)


def compare_streams(
    first: ConfigurationProvenance, second: ConfigurationProvenance, import_code: Callable[[], None] = lambda: None
) -> SharedStreams:
    """Return which random streams members of one seed share between two configurations.

    Technical keys, which do not change results, have no influence. With a curriculum the data of a seed depend on the
    stages that its member has reached, so two configurations share them only if nothing differs.

    If the task or the model differs, the current classes are built after `import_code`, because the parameters may
    still be the same, for example with another dropout rate. Data of different tasks are not compared. They are in
    `causes` and `uncertain`, like everything that was drawn by different code. Modules without the task draw only
    weights.
    """
    # A key that is technical in one configuration only may change results in the other.
    differing = dict(find_differing_values(first.resolved, second.resolved))
    code = find_differing_code(first.code, second.code)
    changing = [key for key in differing if key not in first.technical or key not in second.technical]
    keys_by_stream: dict[str, list[str]] = find_shared_streams(first.resolved, second.resolved, changing)
    if first.structural_keys & second.structural_keys:  # in one pack every seed is drawn once for all members
        keys_by_stream = {
            stream: [key for key in keys if key.startswith(INITIAL)] for stream, keys in keys_by_stream.items()
        }
    if DATA in keys_by_stream and changing and _has_curriculum(first, second):
        keys_by_stream[DATA].append("training.curriculum")

    # Weights depend on the declared parameters alone, so keys such as dropout do not make them differ.
    same_weights = _have_same_parameters(first, second, import_code) if keys_by_stream.get(WEIGHTS) else True
    if same_weights and WEIGHTS in keys_by_stream:
        keys_by_stream[WEIGHTS] = []

    # Different code may still draw the same numbers, so it counts as a difference but is uncertain.
    weights_known = same_weights is not None and not (same_weights and code)
    unrelated = _list_unrelated_modules(first, second, code)
    causes = {
        stream: (*keys, *(key for key in code if key not in unrelated.get(stream, ())))
        for stream, keys in keys_by_stream.items()
    }
    return SharedStreams(
        common=tuple(stream for stream, keys in causes.items() if not keys),
        causes={stream: keys for stream, keys in causes.items() if keys},
        uncertain=frozenset(keys_by_stream) - ({WEIGHTS} if weights_known else frozenset()),
        differing=differing | code,
        code=code,
        by_number="program" in first.resolved and "program" in second.resolved,
    )


def _list_unrelated_modules(
    first: ConfigurationProvenance, second: ConfigurationProvenance, code: Iterable[str]
) -> dict[str, list[str]]:
    """Return the parts of the code that do not draw training data or test inputs, by stream: modules without the task.

    With a curriculum training data depend on everything that changes what a member learns.
    """
    if not first.task_module or first.task_module != second.task_module:
        return {}
    modules = [
        key
        for key in code
        if key.startswith(MODULE) and key.removeprefix(MODULE).partition(".")[0] != first.task_module
    ]
    return {INPUTS: modules} if _has_curriculum(first, second) else {INPUTS: modules, DATA: modules}


def _has_curriculum(*configurations: ConfigurationProvenance) -> bool:
    """Return whether one of the configurations trains with a curriculum."""
    return any(configuration.resolved.get("training", {}).get("curriculum") for configuration in configurations)


def are_paired(
    first: ConfigurationProvenance, second: ConfigurationProvenance, import_code: Callable[[], None] = lambda: None
) -> bool:
    """Return `compare_streams(...).is_paired`, without building models if test inputs and code are equal."""
    # Equal test inputs are enough for pairs, so the models need not be built.
    sections = ("task", "evaluation")
    same_inputs = all(first.resolved.get(name) == second.resolved.get(name) for name in sections)
    if same_inputs and not find_differing_code(first.code, second.code) and "program" not in first.resolved:
        return True
    return compare_streams(first, second, import_code).is_paired


def find_differing_values(
    first: Mapping[str, Any], second: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield every dotted key in which two nested mappings differ, with both values."""
    for key in dict.fromkeys([*first, *second]):
        value, other_value = first.get(key), second.get(key)
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            yield from find_differing_values(value, other_value, f"{path}{key}.")
        elif value != other_value:
            yield f"{path}{key}", (value, other_value)


def _have_same_parameters(
    first: ConfigurationProvenance, second: ConfigurationProvenance, import_code: Callable[[], None]
) -> bool | None:
    """Return whether both models declare the same parameters and initial values; None if unknown."""
    # Without the code that the sweep recorded the models cannot be built.
    try:
        import_code()
    except (UserCodeError, UntrustedCode):
        return None

    parameters = describe_parameters(first.resolved)
    other_parameters = describe_parameters(second.resolved)
    return None if parameters is None or other_parameters is None else parameters == other_parameters


def describe_parameters(resolved: Mapping[str, Any]) -> str | None:
    """Return the declared parameters of a model and their initial values as text; None if its classes are missing."""
    try:
        # Imports torch, which most reports do not need.
        return get_trainer(resolved).describe_parameters(resolved)
    except UserCodeError:
        return None
