"""README.md: short, true to the quickstart and to the pages of the studies."""

import re
from collections import Counter

import pytest
from pages import ROOT, page

from orchestrator.plan.configurations import configure
from orchestrator.plan.search import draw_sample
from search_spaces import load_sweep

FRONT = page("README.md")
PAGES = {file.parent.name: file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("search_spaces/*/page.md"))}
EARLIER = {
    file.parent.name: file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("search_spaces/*/results_*.md"))
}
ROWS = re.findall(r"^\| (.*?) \| \*\*(.*?)\*\*.*? \| (.*?) \| (.*?) \|$", FRONT.text, re.M)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e-\d+)?")


def test_it_is_short() -> None:
    assert len(FRONT.text.splitlines()) <= 160


def test_the_first_commands_are_make_sweep_and_make_ui() -> None:
    assert FRONT.blocks("bash")[0].split("\n")[:2] == ["make sweep", "make ui"]


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
    """Some claim of the pages has this verdict, effect and interval, to the digits that are written."""
    numbers = NUMBER.findall(re.sub(r"\d+ allowed|at most \d+", "", effect))
    assert numbers and minutes
    rows = [row.split(" | ") for text in PAGES.values() for row in text.splitlines() if row.count(" | ") == 3]
    found = []
    for *_, exact, said in rows:
        known = NUMBER.findall(exact)
        counted = re.search(r"\((\d+) of (\d+)", exact)
        same = len(known) >= len(numbers) and all(map(agrees, numbers, known))
        if said.startswith(f"**{verdict}") and (same or (counted and list(counted.groups()) == numbers)):
            found.append(said)
    assert found, (claim, numbers)


def test_the_counts_of_verdicts_are_those_of_the_pages() -> None:
    """Those of the papers and ours apart."""
    prose = " ".join(FRONT.text.split())
    for title, start, end in (
        ("Claims of the paper", "Of ", " claims of the papers"),
        ("Ours", "of ", " controls and questions of ours"),
    ):
        lines = re.findall(rf"^{title} \((\d+)\): (.*)\.$", "\n".join(PAGES.values()), re.M)
        counts = Counter[str]()
        for _, verdicts in lines:
            counts.update({name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", verdicts)})
        said = re.search(rf"{start}(\d+){end}(.*?)[;.]", prose)
        assert said and int(said[1]) == sum(int(total) for total, _ in lines) == sum(counts.values())
        order = ("held", "contradicted", "no effect", "undecided", "not tested")
        assert [int(count) for count in re.findall(r"\d+", said[2])] == [counts[name] for name in order]
    assert not any(re.search(r"\*\*not tested: the sweep", text) for text in PAGES.values()), "all sweeps have run"


def test_every_study_has_a_page() -> None:
    assert len(EARLIER) == 4 and len(PAGES) >= 3 and len(ROWS) > 6
    for study, text in {**EARLIER, **PAGES}.items():
        folder = ROOT / "search_spaces" / study
        assert all((folder / one).exists() for one in re.findall(r"\]\(([^)]+\.png)\)", text))
    assert all("were made by an earlier version" in text.splitlines()[2] for text in EARLIER.values())
