"""The names of configurations and of what packs share, frozen on copies of ten shipped sweep files.

These are the names under which people have trained: a difference is a mistake in the code, never in golden/ids.json. A
field that was added or whose default changed lacks its `absent` value (see `setting`). Only where a class whose numbers
were mended has raised its `revision` may the lines that it names be written anew.
"""

import json
from pathlib import Path

import pytest

from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from search_spaces import load_sweep

GOLDEN = Path(__file__).parent / "golden"
IDS = json.loads((GOLDEN / "ids.json").read_text())
FIRST = 6  # configurations of each file


def names_of(file: Path) -> list[list[str]]:
    """(config_id, structural key) of the first configurations of a sweep file."""
    spec = load_sweep(file)
    draws = draw_sample(spec, FIRST)[:FIRST]
    configurations = make_configurations(spec, [(draw.number, draw.values) for draw in draws])
    return [[configuration.config_id, configuration.build_member(0).structural_key] for configuration in configurations]


@pytest.mark.parametrize("name", IDS)
def test_configurations_and_packs_keep_their_names(name: str) -> None:
    assert names_of(GOLDEN / name) == IDS[name]
