"""README.md: short, true to the quickstart and to the pages of the studies."""

import itertools
import re
from collections import Counter

import pytest
from pages import ROOT, page

from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from search_spaces import load_sweep

FRONT = page("README.md")
PAGES = {file.parent.name: file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("search_spaces/*/page.md"))}
# Each row of pictures stands above the row of their findings, which begin with the verdict.
FINDINGS = [
    (*picture, verdict)
    for pictures, findings in itertools.pairwise(FRONT.text.splitlines())
    for picture, verdict in zip(
        re.findall(r"search_spaces/(\w+)/page_figures/(\w+)\.png", pictures),
        re.findall(r"\| \*\*(\w+)\*\*", findings),
        strict=True,
    )
    if ".png" in pictures and "page_figures" in pictures
]


def test_it_says_what_the_quickstart_is() -> None:
    spec = load_sweep(ROOT / "search_spaces" / "quickstart.yaml")
    configurations = make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 12)])
    assert len(configurations) == spec.search.configurations
    size = f"{len(configurations)} configurations x {len(spec.seeds)} seeds x {spec.training['steps']:,} steps"
    assert size in FRONT.text


def test_what_it_quotes_is_on_the_screen_of_the_quickstart() -> None:
    """The screen in orchestrator/README.md is that of a run (test_quickstart_pages.py)."""
    screen = " ".join(page("orchestrator/README.md").text.split())
    (quoted,) = re.findall(r"what mattered, such as \*([^*]+)\*", FRONT.text)
    start, end = quoted.split("... ")
    assert f": {start}" in screen and f" {end};" in screen


@pytest.mark.parametrize(("study", "claim", "verdict"), FINDINGS)
def test_a_finding_has_the_verdict_of_its_picture(study: str, claim: str, verdict: str) -> None:
    rows = [row.strip("| ").split(" | ") for row in PAGES[study].splitlines() if row.startswith("| ")]
    verdicts = [row[-1] for row in rows if len(row) == 4 and row[0] in (claim, claim.removesuffix("_again"))]
    assert len(verdicts) == 1 and verdicts[0].startswith(f"**{verdict.lower()}"), verdicts


def test_the_numbers_of_a_finding_are_on_its_page() -> None:
    lines = FRONT.text.splitlines()
    rows = [(above, line) for above, line in itertools.pairwise(lines) if line.startswith("| **")]
    for pictures, findings in rows:
        studies = re.findall(r"search_spaces/(\w+)/page_figures", pictures)
        for study, finding in zip(studies, findings.strip("| ").split(" | "), strict=True):
            for number in re.findall(r"\b\d\.\d+(?:e-\d+)?(?=[ ,.)])", re.sub(r"arXiv:\S+", "", finding)):
                assert re.search(rf"[ |+[-]{re.escape(number)}[ |,\]]", PAGES[study]), (study, number)
    assert len(rows) == 2


def test_the_verdicts_of_all_claims_are_counted() -> None:
    claims = Counter[str]()
    for text in PAGES.values():
        line = re.search(r"^Claims of the paper \((\d+)\): ([^.]*)\.", text, re.M)
        assert line
        page = Counter({name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", line[2])})
        assert page.total() == int(line[1])
        claims.update(page)
    names = [name for name in ("held", "contradicted", "no effect", "undecided", "mixed") if claims[name]]
    expected = [claims.total(), claims.total() - claims["not tested"], *(claims[name] for name in names)]
    sentence = next(line for line in FRONT.text.splitlines() if "claims of four papers" in line)
    assert [int(number) for number in re.findall(r"\b\d+\b", sentence.partition(" claim of each paper")[0])] == expected


def test_every_study_has_a_finding() -> None:
    assert sorted(study for study, _, _ in FINDINGS) == sorted(PAGES)
