"""What `lengthwise claims` prints and writes: every claim with its numbers, its words and a small figure."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from orchestrator.claims import judge_file
from tests.command_line import CommandLine
from tests.orchestrator.claims.conftest import PRE, SWEEP, claim, is_pre, pretended_sweep, write_claims
from trainers.config.member import MemberConfig

CLAIMS = [
    claim(note="Of two norms.", source="ours"),
    claim(
        id="share",
        question="share",
        arms={"pre": PRE},
        compare=["pre"],
        success={"most": 0.35},
        expect="larger",
        figure="seeds",
    ),
    claim(id="after", control="opposite", learned={"metric": "total_variation", "most": 0.01}),
    claim(id="unlearned", learned={"metric": "total_variation", "most": 0.01}),
    claim(id="elsewhere", sweep="elsewhere", note="Of a sweep that was not run."),
]
CLAIMS.insert(2, claim(id="opposite", expect="larger"))


def invent(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
    noise = 0.01 * np.random.default_rng([member.seed, number]).normal()
    shape = (len(member.training.averages), len(metrics), len(member.evaluated_lengths))
    return np.full(shape, 0.4 - 0.1 * is_pre(member) + noise)


@pytest.fixture
def says(lengthwise: CommandLine) -> Callable[..., tuple[int, str, str]]:
    """says("claims", FILE, ...) runs a verb here: its exit code and what it prints."""

    def run(*words: object) -> tuple[int, str, str]:
        done = lengthwise(*words)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def claims_file(tmp_path: Path) -> Path:
    (tmp_path / "made_up.yaml").write_text(SWEEP)
    pretended_sweep(tmp_path / "made_up.yaml", tmp_path, invent)
    return write_claims(tmp_path / "claims.yaml", CLAIMS)


def parts_of(page: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The rows of the tables of claims, and the lines of the details, each by the id of its claim."""
    text = page.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| (.*\*\*.*)$", text, re.M))
    return rows, dict(re.findall(r"^- \*\*(\w+)\*\*: (.*)$", text, re.M))


def test_the_page_has_every_claim_with_its_numbers_and_small_figures(claims_file: Path, says) -> None:
    page = claims_file.parent / "pages" / "made_up.md"
    code, out, err = says("claims", claims_file, "--storage", claims_file.parent, "--page", page)
    assert code == 0 and not err, err
    assert out.splitlines()[1] == "pre_norm: held" and "3 of 6 tests are decided" in out
    rows, details = parts_of(page)
    ids = [entry["id"] for entry in CLAIMS]
    assert list(rows) == [*ids[1:], ids[0]], "ours after those of the paper"
    assert list(details) == ids
    numbers = r"-0\.\d+ \[-0\.\d+, -0\.\d+\], n = 9 seeds"
    assert re.search(numbers, rows["pre_norm"]) and "**held**" in rows["pre_norm"]
    assert re.search(numbers + "; p = 0.0039", details["pre_norm"]) and "Of two norms." in details["pre_norm"]
    assert "**not tested: its control opposite is contradicted**" in rows["after"]
    assert "**not tested: the sweep was not run**" in rows["elsewhere"]
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^\| pre_norm \| pre \| .*model.norm: pre.* \| 9 \| 0.3", text, re.M), "an arm"
    assert re.search(r"^\| unlearned \| none \| .* \| 9, 0 learned \|", text, re.M)
    assert text.index("<details>") < text.index("**`made_up`**") < text.index("</details>")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert [Path(picture).stem for picture in pictures] == ["pre_norm", "opposite"], "no share, none untested"
    for picture in pictures:
        content = (page.parent / picture).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 60_000


def add_keys(path: Path, **keys: object) -> None:
    """Write a claims file again with other keys at the top."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **keys}, sort_keys=False))


def test_removed_claims_stay_in_the_correction_and_the_page_says_why_they_went(
    claims_file: Path, says, blank_figures
) -> None:
    write_claims(claims_file, [claim()])
    page = claims_file.with_name("page.md")
    p_values = []
    for removed in ([], [{"claims": ["gone", "lost"], "because": "Nobody asked."}]):
        add_keys(claims_file, removed=removed)
        says("claims", claims_file, "--storage", claims_file.parent, "--page", page)
        p_values.append(float(re.search(r"p = [\d.]+, ([\d.]+) after Holm", parts_of(page)[1]["pre_norm"])[1]))
    assert p_values == pytest.approx([2 / 2**9, 3 * 2 / 2**9], rel=0.05)
    assert "- gone, lost: Nobody asked." in page.read_text(encoding="utf-8").splitlines()


def test_repeats_of_a_claim_are_in_one_row(claims_file: Path, says, blank_figures) -> None:
    again = claim(id="again", says="At nine tokens, too.", lengths=[9])
    write_claims(claims_file, [claim(expect="larger", asked_again="again"), again])
    page = claims_file.with_name("page.md")
    code, out, err = says("claims", claims_file, "--storage", claims_file.parent, "--page", page)
    assert code == 0 and not err, err
    assert "asked 2 times: pre_norm, again: held" in out.splitlines() and "2 of 2 tests are decided" in out
    rows, details = parts_of(page)
    assert list(rows) == ["pre_norm"] and rows["pre_norm"].count("n = 9 seeds") == 3
    assert "again (other expect, lengths): " in rows["pre_norm"] and "judged by again" in rows["pre_norm"]
    assert "At nine tokens, too." in rows["pre_norm"], "the words of the one that is judged"
    assert list(details) == ["pre_norm", "again"]
    assert [file.stem for file in page.parent.glob("page_figures/*")] == ["again"], "the one that is judged"


def test_the_same_ledgers_give_the_same_page(claims_file: Path, says) -> None:
    write_claims(claims_file, CLAIMS[:1])
    for name in ("one", "two"):
        page = claims_file.parent / name / "page.md"
        says("claims", claims_file, "--storage", claims_file.parent, "--page", page)
    first, second = ({f.name: f.read_bytes() for f in (claims_file.parent / n).rglob("*.*")} for n in ("one", "two"))
    assert first == second and len(first) == 2


def test_pictures_of_the_closing_words_are_copied_beside_the_page(claims_file: Path, says, blank_figures) -> None:
    words = "More: ![sums](drawn/sums.png), ![web](https://example.org/x.png), ![again](drawn/sums.png 'a title')."
    write_claims(claims_file, CLAIMS, closing=words)
    page = claims_file.parent / "pages" / "made_up.md"
    ask = ("claims", claims_file, "--storage", claims_file.parent, "--page", page)
    code, _, err = says(*ask)
    assert code == 2 and err.strip().endswith("closing: the picture drawn/sums.png does not exist"), err
    assert not page.parent.exists()
    picture = claims_file.parent / "drawn" / "sums.png"
    picture.parent.mkdir()
    picture.write_bytes(b"a picture")
    code, out, _ = says(*ask)
    assert code == 0 and "and 3 figures" in out
    copied = words.replace("drawn/", "made_up_figures/")
    assert copied in page.read_text(encoding="utf-8")
    assert (page.parent / "made_up_figures" / "sums.png").read_bytes() == b"a picture"
    picture.rename(picture.with_name("pre_norm.png"))
    write_claims(claims_file, CLAIMS, closing="![sums](drawn/pre_norm.png)")
    code, _, err = says(*ask)
    assert code == 2 and "has the name of another figure" in err
    (claims_file.parent / "sums.png").write_bytes(b"other")
    picture.with_name("pre_norm.png").rename(picture)
    write_claims(claims_file, CLAIMS, closing="![one](sums.png) ![two](drawn/sums.png)")
    code, _, err = says(*ask)
    assert code == 2 and "drawn/sums.png has the name of another figure" in err
    existing = claims_file.parent / "page_figures" / "sums.png"
    existing.parent.mkdir()
    existing.write_bytes(b"drawn before")
    write_claims(claims_file, CLAIMS, closing="![sums](page_figures/sums.png)")
    code, _, err = says(*ask[:-1], claims_file.parent / "page.md")
    assert code == 0 and existing.read_bytes() == b"drawn before", err


@pytest.mark.parametrize("words", [["--keep"], ["--run"], ["--run", "--keep"]])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_trained_or_archived(
    claims_file: Path, says, monkeypatch, words: list[str]
) -> None:
    started: list[object] = []
    monkeypatch.setattr(judge_file.subprocess, "run", lambda command, check: started.append(command))
    (claims_file.parent / "elsewhere.yaml").write_text(SWEEP.replace("made_up", "elsewhere"))
    ask = ("claims", claims_file, "--storage", claims_file.parent, *words, "--page")
    code, out, err = says(*ask, claims_file)
    assert code == 2 and "claims.yaml: " in err and ".md" in err and not out
    notes = claims_file.with_name("notes.md")
    notes.write_text("mine")
    code, out, err = says(*ask, notes)
    assert code == 2 and "lengthwise did not write it" in err and not out and notes.read_text() == "mine"
    write_claims(claims_file, CLAIMS, closing="![sums](drawn/sums.png)")
    code, out, err = says(*ask, claims_file.parent / "page.md")
    assert code == 2 and err.strip().endswith("closing: the picture drawn/sums.png does not exist") and not out, out
    assert not started and not (claims_file.parent / "results").exists()


def test_bad_input_is_one_sentence_and_exit_code_2(claims_file: Path, says) -> None:
    claims_file.write_text(claims_file.read_text().replace("expect: smaller", "expect: smller", 1))
    code, out, err = says("claims", claims_file, "--storage", claims_file.parent)
    output = " ".join((out + err).split())
    assert (
        code == 2 and "claims[0].expect" in output and "did you mean smaller?" in output and "Traceback" not in output
    )
    write_claims(claims_file, [claim(metric="totl_variation")])
    code, out, err = says("claims", claims_file, "--storage", claims_file.parent)
    output = " ".join((out + err).split())
    assert code == 2 and "totl_variation is not a known metric" in output and "did you mean total_variation?" in output
