"""The two trainers, and which of them a sweep has.

`orchestrator.engine` trains the models of `trainers/`, many members as one stacked program. `orchestrator.program`
trains with code of the user's own, a command or a function, one member a pack. Nothing above asks which of the two it
is; the verbs for weights, attention and training data are of the engine alone (`refuse_program`).
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from orchestrator.engine.shared_draws import shared_streams as engine_streams
from orchestrator.errors import UserError
from orchestrator.interface.trainer import Trainer
from orchestrator.program.shared_draws import shared_streams as program_streams


def trainer_of(sections: Collection[str]) -> Trainer:
    """Return the trainer of a specification, or of a recorded configuration, by the names of its sections."""
    return _program() if "program" in sections else _engine()


def refuse_program(sections: Collection[str], feature: str) -> None:
    """Raise UserError for a sweep of a program; `feature` names a feature that only models of the engine have."""
    if "program" in sections:
        raise UserError(f"{feature}: only for models of lengthwise, and this sweep trains a program of your own")


def shared_streams(
    first: Mapping[str, Any], second: Mapping[str, Any], differing: Collection[str]
) -> dict[str, list[str]]:
    """Return the random draws that members of one seed share, each with the keys that set them apart.

    `first` and `second` are resolved configurations, and `differing` the dotted keys in which they differ. Empty if
    nothing is known of them.
    """
    if ("program" in first) != ("program" in second):
        return {}
    return (program_streams if "program" in first else engine_streams)(first, second, differing)


@cache
def _engine() -> Trainer:
    from orchestrator.engine.engine import Engine  # brings torch

    return Engine()


@cache
def _program() -> Trainer:
    from orchestrator.program.trainer import ProgramTrainer

    return ProgramTrainer()
