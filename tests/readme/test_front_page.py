"""README.md: short, true to the quickstart and to the pages of the gallery."""

import re

import pytest
from pages import ROOT, page

from orchestrator.plan.configurations import configure
from orchestrator.plan.search import draw_sample
from search_spaces import load_sweep

FRONT = page("README.md")
GALLERY = {
    name: (ROOT / "search_spaces" / "gallery" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("set_complement", "arithmetic", "threshold_attention", "inductive_scratchpad")
}
ROWS = re.findall(r"^\| (.*?) \| (`\w+`.*?) \| (.*?) \| \*\*(.*?)\*\* \|$", FRONT.text, re.M)


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


@pytest.mark.parametrize(("claim", "sweep", "effect", "verdict"), ROWS, ids=[row[0] for row in ROWS])
def test_what_held_is_what_the_gallery_says(claim: str, sweep: str, effect: str, verdict: str) -> None:
    """One row of a page of the gallery has the numbers of the effect and the verdict, and the page has the sweep."""
    (name,) = re.findall(r"`(\w+)`", sweep)
    (text,) = [text for text in GALLERY.values() if f"| {name} |" in text]
    numbers = re.findall(r"[-+]?\d[\d.e-]* (?:\[[^]]*\]|no interval)|\d+ of \d+", effect)
    rows = [row for row in text.splitlines() if row.startswith("| (") and f"**{verdict}**" in row]
    assert numbers and any(all(number in row for number in numbers) for row in rows), (claim, numbers)


def test_the_table_has_a_row_for_every_sweep_with_a_claim() -> None:
    named = {name for _, sweep, _, _ in ROWS for name in re.findall(r"`(\w+)`", sweep)}
    sweeps = {name for text in GALLERY.values() for name in re.findall(r"^\| (\w+) \| \d+ x ", text, re.M)}
    without = {
        "random_search_cpu",
        "fig11_12_maps_cpu",
        "other_encodings_cpu",
        "lstm_control_cpu",
    }  # beside claims, or none to test
    assert sweeps - named - without == set() and len(sweeps) > 15
