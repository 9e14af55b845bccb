"""The loop, attention, evaluation and everything that runs sweeps know no task, model or encoding by name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainers.settings import registry

ROOT = Path(__file__).parents[2]
KINDS = ("task", "model", "position")
NAMES = {name for kind in KINDS for name in registry.list_names(kind)}
HOMES = {registry.get_class(kind, name).__module__ for kind in KINDS for name in registry.list_names(kind)}
SHARED = ("attention", "block", "model", "transformer")  # of the models, what several of them are made of


def modules() -> Iterator[Path]:
    yield from (ROOT / "trainers").glob("*.py")
    yield from (ROOT / "trainers" / "config").glob("*.py")
    yield from (ROOT / "trainers" / "files").glob("*.py")
    yield from (ROOT / "trainers" / "models" / f"{name}.py" for name in SHARED)
    yield ROOT / "trainers" / "tasks" / "task.py"
    yield ROOT / "trainers" / "positions" / "position.py"
    yield from (ROOT / "orchestrator").rglob("*.py")


def named(path: Path) -> Iterator[str]:
    """What a module imports from the homes of registered classes, and its strings that are registered names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in HOMES:
            yield f"line {node.lineno} imports from {node.module}"
        elif isinstance(node, ast.Import):
            yield from (f"line {node.lineno} imports {name.name}" for name in node.names if name.name in HOMES)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES:
            yield f"line {node.lineno} says {node.value!r}"


@pytest.mark.parametrize("path", sorted(modules()), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_names_no_task_model_or_encoding(path: Path) -> None:
    default = "nope" if path.name == "transformer.py" else None  # the default of the field `position`
    base = "trainers.models.vmapped" if path == ROOT / "trainers" / "__init__.py" else None  # own models build on it
    allowed = [name for name in (default and repr(default), base) if name]
    assert [mention for mention in named(path) if not any(mention.endswith(name) for name in allowed)] == []
