"""README.md: short, true to the quickstart and to the pages of the studies."""

import re

import pytest
from pages import ROOT, page

from orchestrator.plan.configurations import configure
from orchestrator.plan.search import draw_sample
from search_spaces import load_sweep

FRONT = page("README.md")
PAGES = {file.parent.name: file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("search_spaces/*/page.md"))}
ROWS = re.findall(r"^\| (.*?) \| \*\*(.*?)\*\*.*? \| (.*?) \| (.*?) \|$", FRONT.text, re.M)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e-\d+)?")


def test_it_is_short() -> None:
    assert len(FRONT.text.splitlines()) <= 125


def test_the_first_commands_are_make_sweep_and_make_ui() -> None:
    commands = [line.split("#")[0].strip() for line in FRONT.blocks("bash")[0].splitlines()]
    assert (commands[0], commands[-1]) == ("make sweep", "make ui")


def test_it_says_what_the_quickstart_is() -> None:
    spec = load_sweep(ROOT / "search_spaces" / "quickstart.yaml")
    configurations = configure(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 12)])
    assert len(configurations) == spec.search.configurations
    said = f"{len(configurations)} configurations x {len(spec.seeds)} seeds x {spec.training['steps']:,} steps"
    assert said in FRONT.text


def agrees(written: str, exact: str) -> bool:
    """Whether a number of the front page is the rounded number of a page."""
    digits = len(written.partition(".")[2])
    return abs(float(written) - float(exact)) <= 0.5 * 10**-digits + 1e-12


@pytest.mark.parametrize(("claim", "verdict", "effect", "minutes"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_has_the_verdict_and_the_numbers_of_a_claim(claim: str, verdict: str, effect: str, minutes: str) -> None:
    """Some claim, or asking of a claim, has this verdict, effect and interval, to the digits that are written."""
    numbers = NUMBER.findall(re.sub(r"\d+ allowed|at most \d+", "", effect))
    assert numbers and minutes
    rows = [row.split(" | ") for text in PAGES.values() for row in text.splitlines() if row.count(" | ") == 3]
    found = []
    for exact, said in ((asking, row[-1]) for row in rows for asking in row[-2].split("<br>")):
        known = NUMBER.findall(exact)
        counted = re.search(r"\((\d+) of (\d+)", exact)
        same = len(known) >= len(numbers) and all(map(agrees, numbers, known))
        if said.startswith(f"**{verdict}") and (same or (counted and list(counted.groups()) == numbers)):
            found.append(said)
    assert found, (claim, numbers)


@pytest.mark.parametrize("study", ["arithmetic", "inductive_scratchpad", "set_complement", "threshold_attention"])
def test_a_page_is_short_and_has_its_few_pictures(study: str) -> None:
    text, folder = PAGES[study], ROOT / "search_spaces" / study
    pictures = re.findall(r"\]\(([^)]+\.png)\)", text)
    assert len(text.splitlines()) <= 350 and 1 <= len(pictures) <= 4
    assert sorted(pictures) == sorted(f"page_figures/{file.name}" for file in folder.glob("page_figures/*"))
    assert f"search_spaces/{study}/page.md" in FRONT.text
