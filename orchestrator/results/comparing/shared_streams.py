"""What chance two configurations share, seed by seed: training data, test inputs, initial weights.

Random numbers are named by seed, stream and step (trainers.random), so members of one seed draw the same ones. They get
the same data and weights from them only where the same code asks for these in the same shapes: what the ledger recorded
of both says where that is so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.code.own_code import OwnCodeError
from orchestrator.record.state.state import SweepState
from orchestrator.results.ran_under import differing_code
from orchestrator.results.summary import RecordedConfiguration
from trainers.config.recorded import corrections, recorded_member
from trainers.errors import ConfigError

DATA, INPUTS, WEIGHTS = "training data", "test inputs", "initial weights"
TOLD_STRUCTURES = 64


@dataclass(frozen=True, kw_only=True)
class Shared:
    """`same`: what members of one seed have in common. `apart`: what else, with the keys that make it differ.

    Of the latter `unsure` may differ or not. `differing`: every resolved key and every part of the code in which the
    two differ, with both values (None where one does not have it).
    """

    same: tuple[str, ...]
    apart: Mapping[str, tuple[str, ...]]
    unsure: frozenset[str]
    differing: Mapping[str, tuple[Any, Any]]

    @property
    def sentence(self) -> str:
        """In words: "same training data, test inputs; initial weights differ (model.position)"."""
        parts = [f"same {', '.join(self.same)}"] if self.same else []
        parts += [
            f"{what} {'may differ' if what in self.unsure else 'differ'} ({', '.join(keys)})"
            for what, keys in self.apart.items()
        ]
        return "; ".join(parts)


def shared_streams(
    first: RecordedConfiguration, second: RecordedConfiguration, import_code: Callable[[], None] = lambda: None
) -> Shared:
    """What members of one seed of two configurations share.

    Where tasks or models differ, the classes of today are asked, after `import_code`, whether the parameters are the
    same (those of another rate of dropout are). Data of other tasks are not looked at: they may differ. So may all that
    was drawn by other code.
    """
    differing = dict(_differing(first.resolved, second.resolved))
    code = differing_code(first.code, second.code)
    task = [key for key in differing if key.partition(".")[0] == "task"]
    model = [key for key in differing if key.partition(".")[0] == "model"]
    asked = {
        DATA: [*task, *(key for key in differing if key == "training.batch_size")],
        INPUTS: [*task, *(key for key in differing if key in ("evaluation.samples", "evaluation.lengths"))],
        WEIGHTS: [*task, *model],
    }
    if first.structural_keys & second.structural_keys:  # one program: every seed is drawn once for all members
        asked = {what: [] for what in asked}
    alike = _same_parameters(first, second, import_code) if asked[WEIGHTS] else True
    if alike:
        asked[WEIGHTS] = []
    known = alike is not None and not (alike and code)
    apart = {what: (*keys, *code) for what, keys in asked.items()}
    return Shared(
        same=tuple(what for what, keys in apart.items() if not keys),
        apart={what: keys for what, keys in apart.items() if keys},
        unsure=frozenset(asked) - ({WEIGHTS} if known else frozenset()),
        differing=differing | code,
    )


def _differing(first: Mapping[str, Any], second: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key in which two trees differ, with both values."""
    for key in dict.fromkeys([*first, *second]):
        one, other = first.get(key), second.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differing(one, other, f"{path}{key}.")
        elif one != other:
            yield f"{path}{key}", (one, other)


def _same_parameters(
    first: RecordedConfiguration, second: RecordedConfiguration, import_code: Callable[[], None]
) -> bool | None:
    """Whether both models declare the same parameters with the same start; None where that cannot be said."""
    if first.parameters is None or second.parameters is None:
        try:
            import_code()
        except OwnCodeError:
            return None
    one, other = (found.parameters or declared_parameters(found.resolved) for found in (first, second))
    return None if one is None or other is None else one == other


def declared_parameters(resolved: Mapping[str, Any]) -> str | None:
    """The parameters that a configuration's model declares and how they start, as text; None without its classes."""
    try:
        if corrections(resolved):
            return None
        member = recorded_member(resolved, 0)
    except (ConfigError, OwnCodeError):
        return None
    from trainers.models.model import Model  # brings torch, which most reports do without

    if type(member.model).initial is not Model.initial:
        return None
    return repr(tuple(member.model.parameters(member.task)))


def parameters_by_structure(state: SweepState) -> dict[str, str]:
    """What the first structures of a sweep declare, by their keys: a driver, which has torch, tells its report."""
    found: dict[str, str | None] = {}
    for configuration in state.configurations.values():
        for member in configuration.members.values():
            key = state.packs[member.pack_id].structural_key
            if key and key not in found and len(found) < TOLD_STRUCTURES:
                found[key] = declared_parameters(configuration.resolved)
    return {key: declared for key, declared in found.items() if declared is not None}
