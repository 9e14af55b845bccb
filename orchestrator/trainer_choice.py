"""Choose the trainer of a sweep: the built-in engine or the user's program.

`orchestrator.engine` trains the models of `trainers/`, many members as one stacked program. `orchestrator.program`
trains with the user's command or function, one member per pack. Other code does not depend on the trainer, except
the verbs for weights, attention and training data, which need the engine (`refuse_program`).
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from orchestrator.engine.engine_streams import find_shared_engine_streams
from orchestrator.errors import UserError
from orchestrator.interface.trainer import Trainer
from orchestrator.program.program_streams import find_shared_program_streams


def get_trainer(sections: Collection[str]) -> Trainer:
    """Return the trainer of a specification or a recorded configuration from the names of its sections."""
    return _load_program_trainer() if "program" in sections else _load_engine()


def refuse_program(sections: Collection[str], feature: str) -> None:
    """Raise UserError for a sweep of a program; `feature` names what only the engine can do."""
    if "program" in sections:
        raise UserError(f"{feature}: only for models of lengthwise; this sweep trains a program")


def name_pack(sections: Collection[str]) -> str:
    """Return the noun for packs in texts: a pack of a program is one run of it."""
    return "run" if "program" in sections else "pack"


def find_shared_streams(
    first: Mapping[str, Any], second: Mapping[str, Any], differing: Collection[str]
) -> dict[str, list[str]]:
    """Return the random streams of one seed, each with the keys that make it differ between two configurations.

    `first` and `second` are resolved configurations, `differing` the dotted keys in which they differ. Empty for a
    program beside a model of the engine.
    """
    if ("program" in first) != ("program" in second):
        return {}
    find_streams = find_shared_program_streams if "program" in first else find_shared_engine_streams
    return find_streams(first, second, differing)


@cache
def _load_engine() -> Trainer:
    """Return our engine; imports torch."""
    from orchestrator.engine.engine import Engine

    return Engine()


@cache
def _load_program_trainer() -> Trainer:
    """Return the trainer of programs."""
    from orchestrator.program.program_trainer import ProgramTrainer

    return ProgramTrainer()
