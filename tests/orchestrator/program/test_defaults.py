"""Defaults of a program that its sweep does not set: recorded, shown, and compared between sweeps."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lengthwise
from orchestrator.errors import SweepExists
from orchestrator.report.tables.provenance_section import make_provenance_section
from orchestrator.results.comparing.sweep_comparison import compare_sweeps
from orchestrator.results.make_summary import summarize
from orchestrator.results.program_defaults import list_program_defaults
from tests.orchestrator.program.studies import Study, script

DEFAULTS = '{{"width": 4, "dropout": {}, "lr": 1.0}}, '  # the sweep sets lr and width


def write(study: Study, dropout: str, step: str = "pass", **changes: object) -> None:
    code = script(step).replace("member(", f"member({DEFAULTS.format(dropout)}")
    study.write(code.replace("-S", ""), **changes)


def test_sweeps_that_differ_only_in_a_default(study: Study) -> None:
    sweeps = []
    for name, dropout in (("first", "0.1"), ("second", "0.2")):
        write(study, dropout)
        sweeps.append(study.run(name=name))
        with pytest.raises(SweepExists) as refused:
            study.run(name="first")
        assert ("train.py changed after" in str(refused.value)) == (name == "second")
    assert [list_program_defaults(state.packs.values()) for state in sweeps] == [
        {"dropout": [0.1]},
        {"dropout": [0.2]},
    ]
    first, second = map(summarize, sweeps)
    assert compare_sweeps(first, second).specification == {"config.dropout": (0.1, 0.2)}
    cells = make_provenance_section(first).cells
    assert dict(zip(cells["what"], cells["value"], strict=True))["defaults of the program"] == "dropout 0.1"
    run = next(iter(first.state.packs))
    assert any(f"{run} (#0 seed 0)" in what for what in cells["what"])  # a run is named by its seed, too
    assert not any("defaults" in note for note in first.notes)

    # Another sweep searches the key: only its configuration with the default value matches.
    write(study, "0.3", space={"config.lr": {"grid": [0.5]}, "config.dropout": {"grid": [0.1, 0.4]}})
    searched = summarize(study.run(name="searched"))
    assert list_program_defaults(searched.state.packs.values()) == {}
    ((side, other_side),) = compare_sweeps(first, searched).matching.pairs
    assert searched.provenance[other_side.row.config_id].resolved["config"]["dropout"] == 0.1
    assert first.state.configurations[side.row.config_id].resolved["config"] == {"lr": 0.5, "width": 8}


def test_an_edited_file_is_named_also_if_another_is_gone(study: Study) -> None:
    study.write(program__files=["train.py", "data.txt"])
    (study.folder / "data.txt").write_text("1\n")
    study.run()
    with (study.folder / "train.py").open("a") as script:
        script.write("# edited\n")
    (study.folder / "data.txt").unlink()
    with pytest.raises(SweepExists, match=r"\btrain\.py changed"):
        study.run()


def test_nan_is_one_value_in_all_members_and_sweeps(study: Study) -> None:
    sweeps = []
    for name in ("first", "second"):
        write(study, 'float("nan"), "nested": [float("nan"), float("inf")]', seeds=2)
        sweeps.append(study.run(name=name))
    defaults = [list_program_defaults(state.packs.values()) for state in sweeps]
    assert defaults[0] == defaults[1] == {"dropout": ["nan"], "nested": [["nan", float("inf")]]}
    assert compare_sweeps(*map(summarize, sweeps)).specification == {}


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [(True, 1, [True, 1]), (1, 1.0, [1]), ({"a": 1, "b": [0]}, {"b": [0], "a": 1}, [{"a": 1, "b": [0]}])],
)
def test_true_and_1_are_two_defaults(first: object, second: object, values: list[object]) -> None:
    packs: list[Any] = [SimpleNamespace(evaluations={10: {"defaults": {"bias": value}}}) for value in (first, second)]
    assert str(list_program_defaults(packs)["bias"]) == str(values)


def test_a_default_that_changes_between_attempts(study: Study) -> None:
    """Its value depends on the attempt, because the first one is killed after a report."""
    write(
        study,
        'len(os.listdir(os.environ["LENGTHWISE_FOLDER"]))',
        "if step == 15 and not begun: os.kill(os.getpid(), 9)",
    )
    path = study.folder / "train.py"
    path.write_text(path.read_text().replace('print("begins', 'begun = step\nprint("begins'))
    state = study.run()
    assert state.end_status == "complete", study.output
    counts = list_program_defaults(state.packs.values())["dropout"]
    assert len(counts) == 2
    (pack,) = state.packs.values()
    assert [list(fields.get("defaults", {})) for fields in pack.evaluations.values()] == [["dropout"], ["dropout"], []]
    (note,) = (note for note in summarize(state).notes if "dropout" in note)
    assert f"{counts[0]} / {counts[1]}" in note
    lines = [
        json.loads(line) for path in state.folder.glob("members/*/*.jsonl") for line in path.read_text().splitlines()
    ]
    assert [line["defaults"]["dropout"] for line in lines if "defaults" in line] == counts


@pytest.mark.parametrize(
    ("command", "defaults", "shown"),
    [
        ("python -S train.py", '{"learning_rate": 0.1}', 1),
        ("python -S train.py ${args}", '{"learning_rate": 0.1}', 0),  # the script reads its arguments, too
        ("python -S train.py", '{"lr": 0.1}', 0),
        ("python -S train.py", "", 0),
    ],
)
def test_a_key_that_is_no_default_is_named_once(command: str, defaults: str, shown: int, study: Study) -> None:
    report = 'run.report(step, {"acc": {5: 1.0, 10: 0.5, 20: 0.1}})'
    code = f"import lengthwise\nrun = lengthwise.member({defaults})\nfor step in (10, 20, 30):\n    {report}\n"
    study.write(code, program={"command": command}, config={}, seeds=3)
    state = study.run()
    assert state.end_status == "complete", study.output
    notices = [line for line in study.output.splitlines() if "config.lr" in line and "learning_rate" in line]
    assert len(notices) == shown, study.output


@pytest.mark.parametrize(
    ("declared", "written"), [({}, ["defaults"]), ({"wants_ignored_keys": True}, ["defaults", "notice"])]
)
def test_an_older_version_gets_no_notice(
    declared: dict[str, bool], written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in {"CONFIG": {"lr": 0.5}, "DECLARED": declared}.items():
        (tmp_path / name).write_text(json.dumps(content))
        monkeypatch.setenv(f"LENGTHWISE_{name}", str(tmp_path / name))
    monkeypatch.setenv("LENGTHWISE_REPORTS", str(tmp_path / "reports"))
    lengthwise.member({"learning_rate": 0.1})
    lines = (tmp_path / "reports").read_text().splitlines()
    assert [name for line in lines for name in json.loads(line)] == written


@pytest.mark.parametrize("own", [False, True])
def test_a_length_that_the_first_report_lacks_is_named_once(own: bool, study: Study) -> None:
    report = 'run.report(step, {"acc": {5: 1.0, 10: 0.5}, "loss": 0.1})'
    code = f"import lengthwise\nrun = lengthwise.member()\nfor step in (10, 20, 30):\n    {report}\n"
    acc = {"direction": "maximize", "lengths": [5, 10]} if own else "maximize"
    metrics = {"acc": acc, "loss": {"direction": "minimize", "lengths": [1]}}
    study.write(code, program={"command": "python -S train.py"}, evaluation__metrics=metrics, seeds=3)
    state = study.run()
    assert state.end_status == "complete", study.output
    notices = [line for line in study.output.splitlines() if "step 10 " in line and "acc at length 20" in line]
    assert len(notices) == (0 if own else 1) and not any("loss" in line for line in notices), study.output
    assert all("evaluation.lengths" in line for line in notices)
