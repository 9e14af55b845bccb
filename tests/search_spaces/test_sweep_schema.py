"""schema.json is current, agrees with the loader, and describes every key."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import search_spaces
from search_spaces import dump_yaml, format_schema, list_grid_points, load_sweep, make_json_schema, select_active_values
from search_spaces.grammar.parse import read_yaml
from search_spaces.grammar.problems import Findings

FOLDER = Path(search_spaces.__file__).parent
SHIPPED = sorted(file for file in FOLDER.rglob("*.yaml") if file.name != "claims.yaml")
VALIDATOR = Draft202012Validator(make_json_schema())


def data_of(path: Path) -> Any:
    return read_yaml(path.read_text(encoding="utf-8"), Findings(str(path)))


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(make_json_schema())


def test_committed_schema_is_current() -> None:
    assert (FOLDER / "schema.json").read_text(encoding="utf-8") == format_schema()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(FOLDER)))
def test_shipped_files_load_and_satisfy_the_schema(path: Path) -> None:
    spec = load_sweep(path)
    assert not [error.message for error in VALIDATOR.iter_errors(data_of(path))]
    assert not [error.message for error in VALIDATOR.iter_errors(spec.resolved())]


def test_quickstart_explains_every_key() -> None:
    lines = (FOLDER / "quickstart.yaml").read_text(encoding="utf-8").splitlines()
    keys = [line for line in lines if ":" in line and not line.startswith("#")]
    unexplained = [line for line in keys if "#" not in line and not line.endswith(":")]
    assert len(unexplained) <= 6, unexplained


def objects(node: Any, where: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        yield where, node
        for key, value in node.items():
            yield from objects(value, f"{where}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from objects(value, f"{where}[{index}]")


def test_editors_find_a_description_for_every_key() -> None:
    described = [
        (f"{where}.{key}", bool(value.get("description")))
        for where, node in objects(make_json_schema())
        if "properties" in node and isinstance(node["properties"], dict) and "type" in node
        for key, value in node["properties"].items()
    ]
    assert len(described) > 40
    assert [where for where, good in described if not good] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tracking:", "trackng:"),
        ("minimize", "minimise"),
        ("seeds: 8", "seeds: 0"),
        ("lengths: [6, 7]", "lengths: [6, 6]"),
        ("{grid: [none, pre, post]}", "[none, pre]"),
        ("log_uniform:", "loguniform:"),
        ("[1.0e-4, 1.0e-2]", "[0, 1]"),
        ("[1.0e-4, 1.0e-2]", "[1]"),
        ("  model.norm:", "  norm:"),
        ("  model.norm:", "  models.norm:"),
        ("pack: auto", "pack: 0"),
        ("name: tiny", "name: .tiny"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(
    edited: Callable[..., Path], problems: Callable[..., Any], old: str, new: str
) -> None:
    path = edited(old, new)
    assert problems(path)
    assert not VALIDATOR.is_valid(data_of(path))


def test_the_valid_file_satisfies_the_schema(sweep_file: Callable[..., Path]) -> None:
    assert VALIDATOR.is_valid(data_of(sweep_file()))


def test_loading_is_light_and_fast() -> None:
    """In a fresh process, so that nothing the other tests imported counts."""
    script = (
        "import json, sys, time; start = time.process_time()\n"
        "from search_spaces import load_sweep, list_grid_points\n"
        f"spec = load_sweep({str(FOLDER / 'quickstart.yaml')!r}); list_grid_points(spec)\n"
        "print(json.dumps([time.process_time() - start, sorted(sys.modules)]))"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    best = float("inf")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
        seconds, modules = json.loads(done.stdout)
        best = min(best, seconds)
    heavy = {"torch", "ray", "optuna", "mlflow", "pandas", "numpy", "matplotlib", "orchestrator", "trainers"}
    assert heavy.isdisjoint(name.partition(".")[0] for name in modules)
    assert best < 0.8


def test_large_file_loads_in_a_second(sweep_file: Callable[..., Path], valid_text: str) -> None:
    values = ", ".join(str(value) for value in range(20_000))
    path = sweep_file(valid_text.replace("[none, pre, post]", f"[{values}]"))
    start = time.process_time()
    spec = load_sweep(path)
    points = list_grid_points(spec)
    assert len(points) == 20_000 and select_active_values(spec, points[7]) == {"model.norm": 7}
    assert dump_yaml({"a": 1}) == "a: 1\n"
    assert time.process_time() - start < 3
