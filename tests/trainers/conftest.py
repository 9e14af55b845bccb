"""Small members to train, and a reporter that remembers what it was told."""

import sys
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext
from typing import Any

import pytest
import torch

from tests import forks
from tests.trainers.runs import Recorder
from trainers.config.member import MemberConfig
from trainers.settings import registry


@pytest.fixture(autouse=True)
def _nothing_compiled_is_left() -> Iterator[None]:
    """A size that differs from one test to the next is not taken for one that varies: that takes far longer to compile.

    Nor do the programs of all tests together come to more than torch allows one function. Tests of other folders may
    have left programs, too.
    """
    reset_compiler()
    yield
    reset_compiler()


def reset_compiler() -> None:
    """Forget all compiled programs of this process, if any; a reset takes a tenth of a second."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters:
        torch.compiler.reset()
        dynamo.counters.clear()


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Makes processes that have imported the engine."""
    return forks.CONTEXT


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def plain_member(seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Sections of a small set complement member; `changes` are dotted keys with __ for the dot."""
    data: dict[str, Any] = {
        "task": {"name": "set_complement", "vocabulary": 8, "train_length": 3},
        "model": {"name": "attention_only", "width": 8},
        "training": {
            "steps": 50,
            "batch_size": 16,
            "learning_rate": 3e-3,
            "weight_decay": 0.01,
            "compile": False,
            "averages": {"raw": {}, "ema": {"decay": 0.9}},
        },
        "evaluation": {"samples": 64},
        "seed": seed,
    }
    for key, value in changes.items():
        *path, last = key.split("__")
        node = data
        for part in path:
            node = node[part]
        node[last] = value
    return data


@pytest.fixture(scope="session")
def sections() -> Callable[..., dict[str, Any]]:
    return plain_member


@pytest.fixture(scope="session")
def member() -> Callable[..., MemberConfig]:
    return lambda seed=0, **changes: MemberConfig.from_dict(plain_member(seed, **changes))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, type[Any]], None]:
    """Registers a class for one test, also in the place of another."""

    def register(kind: str, name: str, cls: type[Any]) -> None:
        monkeypatch.setitem(registry._classes[kind], name, cls)
        monkeypatch.setattr(cls, "name", name)

    return register
