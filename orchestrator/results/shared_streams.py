"""What chance two configurations share, seed by seed: training data, test inputs, initial weights.

Random numbers are named by seed, stream and step (trainers.random), so members of one seed draw the same ones. They get
the same data and weights from them only where these are asked for in the same shapes: what the ledger recorded of both
says where that is so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.plan.own_code import OwnCodeError
from trainers.config.recorded import corrections, recorded_member
from trainers.errors import ConfigError

DATA, INPUTS, WEIGHTS = "training data", "test inputs", "initial weights"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a ledger keeps of a configuration: its resolved sections, and the structural keys of its packs."""

    resolved: Mapping[str, Any]
    structural_keys: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """`same`: what members of one seed have in common. `apart`: what else, with the keys that make it differ.

    Of the latter `unsure` may differ or not. `differing`: every resolved key in which the two differ, with both values
    (None where one does not have it).
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


def shared_streams(first: Recorded, second: Recorded, import_code: Callable[[], None] = lambda: None) -> Shared:
    """What members of one seed of two configurations share.

    Where tasks or models differ, the classes of today are asked, after `import_code`, whether the parameters are the
    same (those of another rate of dropout are). Data of other tasks are not looked at: they may differ.
    """
    differing = dict(_differing(first.resolved, second.resolved))
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
    return Shared(
        same=tuple(what for what, keys in asked.items() if not keys),
        apart={what: tuple(keys) for what, keys in asked.items() if keys},
        unsure=frozenset(asked) - (frozenset() if alike is None else {WEIGHTS}),
        differing=differing,
    )


def _differing(first: Mapping[str, Any], second: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key in which two trees differ, with both values."""
    for key in dict.fromkeys([*first, *second]):
        one, other = first.get(key), second.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differing(one, other, f"{path}{key}.")
        elif one != other:
            yield f"{path}{key}", (one, other)


def _same_parameters(first: Recorded, second: Recorded, import_code: Callable[[], None]) -> bool | None:
    """Whether both models declare the same parameters with the same start; None without the classes that trained."""
    try:
        import_code()
        if any(corrections(one.resolved) for one in (first, second)):
            return None
        members = [recorded_member(one.resolved, 0) for one in (first, second)]
    except (ConfigError, OwnCodeError):
        return None
    from trainers.models.model import Model  # brings torch, which most reports do without

    if any(type(member.model).initial is not Model.initial for member in members):
        return None
    one, other = (tuple(member.model.parameters(member.task)) for member in members)
    return one == other
