"""README.md: short, true to the quickstart and to the pages of earlier results."""

import re

import pytest
from pages import ROOT, page

from orchestrator.plan.configurations import configure
from orchestrator.plan.search import draw_sample
from search_spaces import load_sweep

FRONT = page("README.md")
EARLIER = {
    file.parent.name: file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("search_spaces/*/results_*.md"))
}
ROWS = re.findall(r"^\| (.*?) \| (`\w+`) \| (.*?) \| (.*?) \|$", FRONT.text, re.M)


def test_it_is_short() -> None:
    assert len(FRONT.text.splitlines()) <= 170


def test_the_first_commands_are_make_sweep_and_make_ui() -> None:
    assert FRONT.blocks("bash")[0].split("\n")[:2] == ["make sweep", "make ui"]


def test_it_says_what_the_quickstart_is() -> None:
    spec = load_sweep(ROOT / "search_spaces" / "quickstart.yaml")
    configurations = configure(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 12)])
    assert len(configurations) == spec.search.configurations
    said = f"{len(configurations)} configurations x {len(spec.seeds)} seeds x {spec.training['steps']:,} steps"
    assert said in FRONT.text


@pytest.mark.parametrize(("claim", "sweep", "effect", "lacks"), ROWS, ids=[row[0] for row in ROWS])
def test_what_was_found_is_what_the_pages_say(claim: str, sweep: str, effect: str, lacks: str) -> None:
    """One row of a page of earlier results has the numbers of the effect, and the page has the sweep."""
    (text,) = [text for text in EARLIER.values() if f"| {sweep.strip('`')} |" in text]
    numbers = re.findall(r"[-+]?\d[\d.e-]* (?:\[[^]]*\]|no interval)|\d+ of \d+", effect)
    rows = [row for row in text.splitlines() if row.startswith("| (")]
    assert numbers and any(all(number in row for number in numbers) for row in rows), (claim, numbers)
    assert "held" not in effect and lacks


def test_every_study_has_its_results_and_a_row() -> None:
    assert len(EARLIER) == 4 and len(ROWS) > 8
    for study, text in EARLIER.items():
        assert any(f"| {sweep.strip('`')} |" in text for _, sweep, _, _ in ROWS), study
        assert "were made by an earlier version" in text.splitlines()[2]
        assert all((ROOT / "search_spaces" / study / one).exists() for one in re.findall(r"\]\(([^)]+\.png)\)", text))
