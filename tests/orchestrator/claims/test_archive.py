"""Archived sweeps: verdicts and pages from a clone, without the folders that were trained."""

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from orchestrator.claims.archive import locate_archive, read_archive, write_archive
from orchestrator.claims.judge_file import judge_claims
from orchestrator.claims.verdicts import judge, read_tested_sweeps
from orchestrator.errors import DamagedCurves
from search_spaces.grammar.claims import ClaimsFile, load_claims
from tests.orchestrator.claims.conftest import pretended_sweep
from tests.startup.sitecustomize import blank
from trainers.config.member import MemberConfig

STUDIES = Path(__file__).parents[3] / "search_spaces"
PAGES = sorted(STUDIES.glob("*/page.md"))


def noisy_values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
    """(averages, metrics, lengths): other numbers at every evaluation, so that the chosen one matters."""
    rng = np.random.default_rng([member.seed, number, step])
    return rng.uniform(0.9, 1.0, (len(member.training.averages), len(metrics), len(member.evaluated_lengths)))


@pytest.fixture(scope="module")
def archived_claims(tmp_path_factory: pytest.TempPathFactory) -> tuple[ClaimsFile, Path]:
    """A copy of the arithmetic claims, and two of its sweeps with invented curves."""
    folder = tmp_path_factory.mktemp("clone")
    text = (
        (STUDIES / "arithmetic" / "claims.yaml").read_text().partition("\nclosing:")[0]
    )  # its pictures are not copied
    (folder / "claims.yaml").write_text(text)
    file = load_claims(folder / "claims.yaml")
    for name in ("fig10_nocarry_cpu", "fig2_lengths"):
        source = STUDIES / "arithmetic" / f"{name}.yaml"
        pretended_sweep(source, folder / "sweeps", noisy_values, evaluations=3)
    return file, folder / "sweeps"


@pytest.mark.slow
def test_an_archived_sweep_gives_the_verdicts_and_the_page_of_its_folder(
    archived_claims: tuple[ClaimsFile, Path],
) -> None:
    file, storage = archived_claims
    before = judge(file, read_tested_sweeps(file, storage))
    printed = list(judge_claims(file.path, storage, file.path.with_name("one.md"), keep=True))
    assert sum(line.startswith("wrote") and "results/" in line for line in printed) == 2
    after = judge(file, read_tested_sweeps(file, storage / "nothing here"))
    assert [(judgement.verdict_text, judgement.answer, judgement.learned_answer) for judgement in after] == [
        (judgement.verdict_text, judgement.answer, judgement.learned_answer) for judgement in before
    ]
    assert sum(judgement.answer is not None for judgement in after) >= 6
    list(judge_claims(file.path, storage / "nothing here", file.path.with_name("two.md")))
    first, second = (file.path.with_name(name).read_text() for name in ("one.md", "two.md"))
    assert first.replace("one_figures", "two_figures") == second


def test_archiving_again_gives_the_same_bytes(archived_claims: tuple[ClaimsFile, Path], tmp_path: Path) -> None:
    file, storage = archived_claims
    members = read_tested_sweeps(file, storage)["fig10_nocarry_cpu"]
    claims = [claim for claim in file.claims if claim.sweep == members.name]
    for name in ("first", "second"):
        write_archive(members, claims, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "not an archive"])
def test_a_damaged_file_is_named(archived_claims: tuple[ClaimsFile, Path], tmp_path: Path, damage: str) -> None:
    file, storage = archived_claims
    members = read_tested_sweeps(file, storage)["fig10_nocarry_cpu"]
    path = tmp_path / "sweep.tar.xz"
    write_archive(members, [claim for claim in file.claims if claim.sweep == members.name], path)
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    tarfile.open(tmp_path / "empty.tar.xz", "w:xz").close()
    empty = (tmp_path / "empty.tar.xz").read_bytes()
    path.write_bytes({"cut": content[:middle], "flipped": flipped, "empty": empty, "not an archive": b"none"}[damage])
    with pytest.raises(DamagedCurves, match=re.escape(f"{path}: damaged")):
        read_archive(path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_committed_page_is_drawn_again_from_the_clone(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without training: the text of the page is what the archived sweeps and the claims give today."""
    monkeypatch.setattr("orchestrator.claims.claims_page.write_small_png", lambda figure, path: blank(path, None))
    claims = load_claims(page.with_name("claims.yaml"))
    drawn = tmp_path / page.name
    list(judge_claims(claims.path, tmp_path, drawn))
    assert drawn.read_text() == page.read_text()
    archives = [path for name in claims.sweeps if (path := locate_archive(claims, name)).exists()]
    assert archives and all(path.stat().st_size <= 300_000 for path in archives)
