"""Which random draws two configurations share, seed by seed: training data, test inputs, initial weights.

Random numbers depend on seed, stream and step (trainers.random), so members of one seed draw the same numbers. Data and
weights are the same only if the same code asks for them in the same shapes; the records of both configurations show it.
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
    """Randomness that members of one seed share (`same`) or not (`apart`), with the keys that cause it.

    Names in `unsure` may be the same after all. `differing` has every resolved key and every part of the code in which
    the two differ, with both values (None for a missing one); `code` has only the parts of the code.
    """

    same: tuple[str, ...]
    apart: Mapping[str, tuple[str, ...]]
    unsure: frozenset[str]
    differing: Mapping[str, tuple[Any, Any]]
    code: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    by_number: bool = False  # programs: a seed is a block by design, whatever its members share

    @property
    def is_paired(self) -> bool:
        """Whether members of one seed are compared with each other."""
        return bool(self.same) or self.by_number

    @property
    def sentence(self) -> str:
        """In words: "same training data, test inputs; initial weights differ (model.position)"."""
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
    """Return which randomness members of one seed share between two configurations.

    Technical keys, which change no numbers, unpair nothing. With a curriculum the data of a seed follow the stages that
    its member has reached, so two configurations share them only if nothing differs.

    If the task or the model differs, the current classes are built after `import_code` to see whether the parameters
    are the same (as for another dropout rate). Data of different tasks are not compared: they are `apart` but `unsure`,
    like everything that was drawn by different code.
    """
    differing = dict(differing_values(first.resolved, second.resolved))
    code = differing_code(first.code, second.code)
    changing = [key for key in differing if key not in first.technical or key not in second.technical]
    asked: dict[str, list[str]] = trainer.shared_streams(first.resolved, second.resolved, changing)
    if first.structural_keys & second.structural_keys:  # one program: every seed is drawn once for all members
        asked = {stream: [key for key in keys if key.startswith(INITIAL)] for stream, keys in asked.items()}
    if (
        DATA in asked
        and changing
        and any(configuration.resolved.get("training", {}).get("curriculum") for configuration in (first, second))
    ):
        asked[DATA].append("training.curriculum")
    alike = _same_parameters(first, second, import_code) if asked.get(WEIGHTS) else True
    if alike and WEIGHTS in asked:
        asked[WEIGHTS] = []
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
    """Return `shared_streams(...).is_paired`; builds no model if equal test inputs and code already pair the seeds."""
    sections = ("task", "evaluation")
    alike = all(first.resolved.get(name) == second.resolved.get(name) for name in sections)
    if alike and not differing_code(first.code, second.code) and "program" not in first.resolved:
        return True
    return shared_streams(first, second, import_code).is_paired


def differing_values(first: Mapping[str, Any], second: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every dotted key in which two trees differ, with both values."""
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
    """Return the declared parameters of a model and their initial values as text; None without its classes."""
    try:
        return trainer.trainer_of(resolved).parameters(resolved)  # brings torch, which most reports do without
    except OwnCodeError:
        return None
