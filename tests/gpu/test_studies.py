"""The studies of a GPU run, stop, go on where they stopped, and end in packed results and a page; here on the CPU."""

import runpy
from pathlib import Path

import pytest

from orchestrator.claims.archive import read_archive

STUDIES = Path(__file__).parent / "studies.py"
SMALL = ("training.steps=4", "training.schedule.warmup=1", "evaluation.every=2", "evaluation.samples=4", "seeds=2",
         "task.vocabulary=8", "task.train_length=3", "model.width=8", "model.value_width=8", "objective.lengths=[4]",
         "space.model.dropout={grid: [0.0, 0.1]}", "training.compile=false")  # fmt: skip


@pytest.fixture
def run_studies(lengthwise, tmp_path):
    """run_studies("key=value") runs one of them here; returns its exit code and every command that it ran."""
    main = runpy.run_path(str(STUDIES))["main"]
    done = []

    def call(*words):
        done.append(lengthwise(*words))
        return done[-1].returncode

    main.__globals__["lengthwise"] = call

    def run(setting):
        done.clear()
        sets = [word for override in (*SMALL, setting) for word in ("--set", override)]
        words = ["--device", "cpu", "--minutes", "5", "--studies", "noise_gpu", "--out", str(tmp_path / "out"), *sets]
        return main(words), done

    return run


@pytest.mark.slow
def test_a_study_stops_when_its_time_is_over_and_is_resumed_and_packed(run_studies, tmp_path, capsys) -> None:
    """Its time is over after some steps here: clocks are tested with budgets."""
    code, (run, claims) = run_studies("budget.member_steps=20")
    assert code == 0, run.stdout + run.stderr + claims.stderr
    assert capsys.readouterr().out == "noise_gpu: at most 300 s\n"
    assert run.args[run.args.index("--max-time") + 1] == "300s"
    assert "stopped by its budget" in run.stdout and "\n0 of " in claims.stdout
    code, (run, claims) = run_studies("budget.member_steps=null")
    assert code == 0, run.stdout + run.stderr + claims.stderr
    members = read_archive(tmp_path / "out" / "results" / "noise_gpu.tar.xz")
    assert members.state.end_status == "complete" and len(members.state.configurations) == 4
    page = (tmp_path / "out" / "page.md").read_text()
    assert "With batches of 64 sampled targets" in page and "the sweep was not run" in page


def test_bad_input_starts_nothing(tmp_path: Path, capsys) -> None:
    main = runpy.run_path(str(STUDIES))["main"]
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["--device", "cpu", "--minutes", "-1", "--out", str(tmp_path / "new")])
    assert "allowed: more than 0" in capsys.readouterr().err and not (tmp_path / "new").exists()
