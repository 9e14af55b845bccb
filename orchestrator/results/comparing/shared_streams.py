"""Determine the random streams that two configurations share: training data, test inputs, initial weights.

Random numbers depend on seed, stream and step (trainers.random), so members of one seed draw the same numbers. Data and
weights are the same only if the same code draws them in the same shapes, which the records of configurations show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator import trainer
from orchestrator.code.own_code import OwnCodeError
from orchestrator.engine.shared_draws import DATA, INITIAL, WEIGHTS
from orchestrator.errors import UntrustedCode
from orchestrator.results.pack_environments import RecordedConfiguration, differing_code


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Random streams that members of one seed share (`same`) or not (`apart`, with the keys that cause it).

    Streams in `unsure` may be the same after all. `differing` has every resolved key and every part of the code in
    which the configurations differ, with both values (None if missing); `code` has only the parts of the code.
    """

    same: tuple[str, ...]
    apart: Mapping[str, tuple[str, ...]]
    unsure: frozenset[str]
    differing: Mapping[str, tuple[Any, Any]]
    code: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    by_number: bool = False  # of programs: seeds are paired by number, whatever they share

    @property
    def is_paired(self) -> bool:
        """Whether members of one seed are compared with each other."""
        return bool(self.same) or self.by_number

    @property
    def sentence(self) -> str:
        """The streams as text: "same training data, test inputs; initial weights differ (model.position)"."""
        if self.by_number:
            declared = f"the sweep file declares the same {', '.join(self.same)}"
            unknown = "whether seeds share anything random is not known"
            return f"by seed number; {declared if self.same else unknown}"
        parts = [f"same {', '.join(self.same)}"] if self.same else []
        parts += [
            f"{stream} {'may differ' if stream in self.unsure else 'differ'} ({', '.join(keys)})"
            for stream, keys in self.apart.items()
        ]
        return "; ".join(parts)


def shared_streams(
    first: RecordedConfiguration, second: RecordedConfiguration, import_code: Callable[[], None] = lambda: None
) -> Shared:
    """Return which random streams members of one seed share between two configurations.

    Technical keys, which do not change results, have no influence. With a curriculum the data of a seed depend on the
    stages that its member has reached, so two configurations share them only if nothing differs.

    If the task or the model differs, the current classes are built after `import_code` to see whether the parameters
    are the same (as for another dropout rate). Data of different tasks are not compared: they are `apart` but `unsure`,
    like everything that different code has drawn.
    """
    # The streams, each with the differing keys that it depends on.
    differing = dict(differing_values(first.resolved, second.resolved))
    code = differing_code(first.code, second.code)
    changing = [key for key in differing if key not in first.technical or key not in second.technical]
    asked: dict[str, list[str]] = trainer.shared_streams(first.resolved, second.resolved, changing)
    if first.structural_keys & second.structural_keys:  # in one pack every seed is drawn once for all members
        asked = {stream: [key for key in keys if key.startswith(INITIAL)] for stream, keys in asked.items()}
    if (
        DATA in asked
        and changing
        and any(configuration.resolved.get("training", {}).get("curriculum") for configuration in (first, second))
    ):
        asked[DATA].append("training.curriculum")

    # Equal declared parameters mean equal initial weights.
    alike = _same_parameters(first, second, import_code) if asked.get(WEIGHTS) else True
    if alike and WEIGHTS in asked:
        asked[WEIGHTS] = []

    # Streams drawn by different code are apart, but may be the same.
    known = alike is not None and not (alike and code)
    apart = {stream: (*keys, *code) for stream, keys in asked.items()}
    return Shared(
        same=tuple(stream for stream, keys in apart.items() if not keys),
        apart={stream: keys for stream, keys in apart.items() if keys},
        unsure=frozenset(asked) - ({WEIGHTS} if known else frozenset()),
        differing=differing | code,
        code=code,
        by_number="program" in first.resolved and "program" in second.resolved,
    )


def are_paired(
    first: RecordedConfiguration, second: RecordedConfiguration, import_code: Callable[[], None] = lambda: None
) -> bool:
    """Return `shared_streams(...).is_paired`, without building models if test inputs and code are equal."""
    sections = ("task", "evaluation")
    alike = all(first.resolved.get(name) == second.resolved.get(name) for name in sections)
    if alike and not differing_code(first.code, second.code) and "program" not in first.resolved:
        return True
    return shared_streams(first, second, import_code).is_paired


def differing_values(first: Mapping[str, Any], second: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every dotted key in which two nested mappings differ, with both values."""
    for key in dict.fromkeys([*first, *second]):
        value, other_value = first.get(key), second.get(key)
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            yield from differing_values(value, other_value, f"{path}{key}.")
        elif value != other_value:
            yield f"{path}{key}", (value, other_value)


def _same_parameters(
    first: RecordedConfiguration, second: RecordedConfiguration, import_code: Callable[[], None]
) -> bool | None:
    """Return whether both models declare the same parameters and initial values; None if unknown."""
    try:
        import_code()
    except (OwnCodeError, UntrustedCode):
        return None
    parameters, other_parameters = declared_parameters(first.resolved), declared_parameters(second.resolved)
    return None if parameters is None or other_parameters is None else parameters == other_parameters


def declared_parameters(resolved: Mapping[str, Any]) -> str | None:
    """Return the declared parameters of a model and their initial values as text; None if its classes are missing."""
    try:
        return trainer.trainer_of(resolved).parameters(resolved)  # brings torch, which most reports do without
    except OwnCodeError:
        return None
