"""The page for readers of the code names functions that are there, and the frames of a real run."""

import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import ROOT, page

from trainers.optimization.optimizers.adamw import AdamW

OURS = (f"{ROOT}/orchestrator/", f"{ROOT}/trainers/")
PAGE = page("orchestrator/running/README.md")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.text.splitlines() if line.startswith("|") and ".py)" in line]


def files_of(cell: str) -> list[Path]:
    return [(PAGE.folder / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", cell)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2])[:40])
def test_every_function_is_in_its_file(row: list[str]) -> None:
    (files, names) = next((files_of(cell), row[:i]) for i, cell in enumerate(row) if ".py)" in cell)
    code = [file.read_text() for file in files]
    for name in re.findall(r"\w+", " ".join(re.findall(r"`([\w.]+)`", names[-1]))):
        assert any(re.search(rf"^\s*(def|class) {name}\b|^{name} = ", text, re.M) for text in code), name


def test_the_frames_are_those_of_a_run(run_inline: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    update, frames = AdamW.update, list[tuple[str, str]]()

    def record(self: AdamW, *arguments: object) -> object:
        codes = [frame.f_code for frame, _ in traceback.walk_stack(sys._getframe())][::-1]
        ours = [code for code in codes if code.co_filename.startswith(OURS)]
        frames[:] = frames or [(Path(code.co_filename).name, code.co_qualname) for code in ours]
        return update(self, *arguments)

    monkeypatch.setattr(AdamW, "update", record)
    small = (
        "search.configurations=1",
        "seeds=2",
        "training.steps=2",
        "training.compile=false",
        "evaluation.every=null",
    )
    run_inline(ROOT / "search_spaces" / "quickstart.yaml", *small)
    named = [(files_of(row[1])[0].name, row[0].strip("`")) for row in ROWS[:13]]
    assert named[-1] == ("adamw.py", "AdamW.update")
    assert frames == named[2:-1]
