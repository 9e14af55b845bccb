"""Files that are no sweep file at all, files with many faults, and YAML's traps."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from search_spaces import FileProblem, SweepFileError, load_sweep
from search_spaces.grammar import parse
from search_spaces.grammar.shipped import FOLDER, find_shipped_sweeps, find_sweep_file

Refuse = Callable[..., tuple[FileProblem, ...]]
Write = Callable[..., Path]


def test_missing_file_names_the_nearest(sweep_file: Write, problems: Refuse) -> None:
    path = sweep_file()
    [problem] = problems(path.with_name("swep.yaml"))
    assert (problem.where, problem.nearest) == (str(path.with_name("swep.yaml")), str(path))
    assert "lengthwise list examples" in str(problem.allowed)


def test_a_common_ending_alone_is_no_similar_name(sweep_file: Write, problems: Refuse) -> None:
    sweep_file().rename(path := sweep_file().with_name("typo.yaml"))
    [problem] = problems(path.with_name("nofile.yaml"))
    assert problem.nearest is None


def test_missing_folder(tmp_path: Path, problems: Refuse) -> None:
    [problem] = problems(tmp_path / "none" / "sweep.yaml")
    assert problem.message == "there is no such file" and problem.nearest is None


@pytest.mark.parametrize("missing", ["quickstart.yaml", "search_spaces/quickstart.yaml", "quickstat.yaml"])
def test_missing_shipped_file_says_where_it_lies(tmp_path: Path, problems: Refuse, missing: str) -> None:
    [problem] = problems(tmp_path / missing)
    assert problem.nearest == str(FOLDER / "quickstart.yaml") and Path(problem.nearest).is_file()


def test_misspelt_name_of_a_shipped_sweep_gets_its_name(tmp_path: Path, problems: Refuse) -> None:
    [problem] = problems(tmp_path / "quikstart")
    assert problem.nearest == "quickstart"


def test_names_of_shipped_files_hide_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = find_shipped_sweeps()
    assert find_sweep_file("quickstart") == shipped["quickstart"] == FOLDER / "quickstart.yaml"
    assert find_sweep_file("quickstart.yaml") == Path("quickstart.yaml") and find_sweep_file("none") == Path("none")
    Path("quickstart").touch()
    assert find_sweep_file("quickstart") == Path("quickstart")
    others = {"claims.yaml", "sweep.yaml"}  # `lengthwise init` writes the latter
    assert len(shipped) == len([file for file in FOLDER.rglob("*.yaml") if file.name not in others])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", "x = 1\n"),
        ("train.py", "name: tiny\n"),
        ("train", "#!/usr/bin/env python3\nx = 1\n"),
        ("train.txt", '"""A program: with a colon."""\n\nfrom torch import nn\n'),
        ("train.yaml", "import argparse\nimport os, sys\n"),
    ],
)
def test_python_program(tmp_path: Path, problems: Refuse, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    [problem] = problems(tmp_path / name)
    assert (problem.where, problem.key) == (str(tmp_path / name), "") and "program:" in problem.message


@pytest.mark.parametrize("name", ["train.csv", "train.jsonl", "train.npz", "train.parquet"])
def test_file_of_data(tmp_path: Path, problems: Refuse, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1\xff,2\n")
    [problem] = problems(tmp_path / name)
    assert (problem.where, problem.key) == (str(tmp_path / name), "")
    assert "sweep file" in problem.message and "YAML" in str(problem.allowed)


def test_words_of_python_in_a_description_make_no_program(valid_text: str, sweep_file: Write) -> None:
    code = "description: |\n  from torch import nn\n  import os\n"
    assert load_sweep(sweep_file(code + valid_text)).description.startswith("from torch")


def test_directory(tmp_path: Path, problems: Refuse) -> None:
    [problem] = problems(tmp_path)
    assert str(problem) == f"{tmp_path}: is a directory, not a sweep file"


def test_pipe_is_refused_and_not_waited_for(tmp_path: Path, problems: Refuse) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    [problem] = problems(tmp_path / "pipe.yaml")
    assert problem.message == "is not a regular file"


@pytest.mark.parametrize("path", ["a\0b.yaml", "x" * 5000])
def test_impossible_paths(path: str) -> None:
    with pytest.raises(SweepFileError):
        load_sweep(path)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", 1, "is empty"),
        (b"# only a comment\n", 1, "is empty"),
        (b"null\n", 1, "is empty"),
        (b"just text\n", 1, "must be a mapping of keys to values; given 'just text'"),
        (b"- a\n- b\n", 1, "must be a mapping"),
        (b"*nothing\n", 1, "aliases (*nothing) are not allowed"),
        (b"name: a\nstudy: \xff\n", 2, "is not UTF-8: byte 0xFF"),
        ("name: ü".encode("utf-16"), 1, "is not UTF-8"),
        (b"a: 1\n\x00", 2, "character U+0000"),
        (b'a: "\\ud800"', 1, "is not valid YAML"),
        (b"a:\n    b: 1\n  c: 2\n", 3, "indentation"),
        (b"a:\n  b: 1\n    c: 2\n", 3, "indentation"),
        (b"a:\n\tb: 1\n", 2, "tabs"),
        (b"[" * 200_000, 1, "nested more than 20 levels"),
        (b"a: {" * 200_000, 1, "nested more than 20 levels"),
    ],
)
def test_text_that_is_no_sweep(sweep_file: Write, problems: Refuse, content: bytes, line: int, message: str) -> None:
    path = sweep_file(content)
    reported = problems(path)  # nested brackets in quadratic time would take hours
    assert len(reported) == 1
    assert reported[0].where == f"{path}:{line}"
    assert message in str(reported[0])


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("study: x", "study x", 2),
        ("  steps: 300", "  steps 300\n  every: 4", 4),
        ("seeds: 3", "seeds: 3\nadded 4", 6),
        ("space: {}", "space: {}\nadded 4", 8),
        ("{metric: acc}", "{metric: acc", 6),
        ("{metric: acc}", "{metric: acc,\n  lengths: [3, 4\n  average: raw}", 7),
        ("{metric: acc}", "{\n  metric: acc\n  average: raw\n}", 8),
        ("{metric: acc}", "{metric: acc}}", 6),
        ("space: {}", "space: {", 7),
        ("seeds: 3", "seeds: [3", 5),
        ("study: x", 'study: "x', 2),
        ("study: x", "study: 'x", 2),
        ("study: x", 'study: "x" y', 2),
        ("study: x", 'study: "a\n  b\\q"', 3),
        ("study: x", "study: a: b", 2),
        ("study: x", "study: @x", 2),
        ("study: x", "study: *", 2),
        ("  steps", "\tsteps", 4),
        ("seeds: 3", "   seeds: 3", 5),
        ("  steps: 300", "    steps: 300\n  every: 4", 5),
        ("  steps: 300", "  - 3\n  steps: 4", 5),
    ],
)
def test_line_of_a_syntax_error(sweep_file: Write, problems: Refuse, old: str, new: str, line: int) -> None:
    text = "name: s\nstudy: x\ntraining:\n  steps: 300\nseeds: 3\nobjective: {metric: acc}\nspace: {}\n"
    path = sweep_file(text.replace(old, new).encode())
    (problem,) = problems(path)
    assert problem.where == f"{path}:{line}", problem


def test_too_many_colons_are_not_called_wrong_indentation(sweep_file: Write, problems: Refuse) -> None:
    (problem,) = problems(sweep_file(b"a: b: c\n"))
    assert "is not valid YAML" in str(problem) and "indentation" not in str(problem)


def test_file_over_a_megabyte(sweep_file: Write, valid_text: str, problems: Refuse) -> None:
    path = sweep_file(valid_text + "#" * 1_000_000)
    [problem] = problems(path)
    assert "allowed: at most 1000000 bytes" in str(problem)


def test_billion_laughs_is_one_problem(sweep_file: Write, valid_text: str, problems: Refuse) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    path = sweep_file(valid_text + bomb)
    [problem] = problems(path)
    assert str(problem) == (
        f"{path}:29: a0: anchors and aliases (&a0 and 177 more, the last in line 88) are not allowed; "
        "write the values out"
    )


def test_an_anchor_and_its_alias_are_one_problem(edited: Write, problems: Refuse) -> None:
    path = edited("  dropout: 0.0\ntraining:\n  steps: 100", "  dropout: &d 0.0\ntraining:\n  steps: *d")
    [problem] = problems(path)
    assert str(problem) == (
        f"{path}:7: model.dropout: anchors and aliases (&d and *d in line 9) are not allowed; write the values out"
    )


def test_of_many_faults_alike_the_first_are_shown_and_the_rest_counted(
    sweep_file: Write, valid_text: str, problems: Refuse
) -> None:
    path = sweep_file(valid_text.replace("seeds: 8", "seeds: 0") + "".join(f"k{n}: .nan\n" for n in range(2_000)))
    reported = problems(path)
    assert [problem.key for problem in reported] == ["seeds", *(f"k{n}" for n in range(10)), ""]
    assert str(reported[-1]) == f"{path}:39: and 1,990 more like it: must be a finite number"
    [*_, last] = reported = problems(sweep_file(valid_text + "".join(f"k{n}: {n}\n" for n in range(11))))
    assert len(reported) == 11 and last.key == "k10", "one more is shorter than the count of it"


def test_byte_order_mark_and_windows_lines_are_fine(sweep_file: Write, valid_text: str) -> None:
    plain = load_sweep(sweep_file(valid_text))
    assert load_sweep(sweep_file(b"\xef\xbb\xbf" + valid_text.replace("\n", "\r\n").encode())) == plain


def test_every_problem_is_reported_at_once_in_line_order(sweep_file: Write, problems: Refuse) -> None:
    path = sweep_file(
        """\
name: CON
study: s
task: {name: set_complement, vocabulary: .nan}
model: {norm: none}
model: {norm: pre}
training: {}
space:
  model.norm: {grid: [none, pre], when: {model.nrm: pre}}
  model.width: {int_uniform: [4, 2]}
  training.lr: {uniform: [0, x]}
search: {sampler: best}
seeds: [1, 1]
objective: {metric: m, average: ema, lengths: [0], direction: minimise}
resources: {cpus: yes, watchdog_seconds: -1}
"""
    )
    assert [(problem.where.rpartition(":")[2], problem.key) for problem in problems(path)] == [
        ("1", "name"),
        ("3", "task.vocabulary"),
        ("5", "model"),
        ("8", "space.model.norm.when.model.nrm"),
        ("9", "space.model.width.int_uniform"),
        ("10", "space.training.lr.uniform[1]"),
        ("11", "search.sampler"),
        ("12", "seeds"),
        ("13", "objective.lengths"),
        ("13", "objective.direction"),
        ("14", "resources.cpus"),
        ("14", "resources.watchdog_seconds"),
    ]


def test_python_without_libyaml_reads_the_same(
    sweep_file: Write, valid_text: str, problems: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = load_sweep(sweep_file())
    monkeypatch.setattr(parse, "_Loader", yaml.SafeLoader)
    assert load_sweep(sweep_file()) == fast
    [problem] = problems(sweep_file(valid_text + 'description: "\\ud800"\n'))
    assert (problem.key, problem.message) == ("description", "has half a character (a lone surrogate escape)")
    assert problems(sweep_file(b"[" * 200_000))[0].message.startswith("is nested more than 20 levels")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e-4", 1e-4),
        ("1.0E+3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-3", -3),
        ("+3", 3),
        ("0x1F", 31),
        ("0o17", 15),
        ("on", "on"),
        ("No", "No"),
        ("y", "y"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("Null", None),
        ("none", "none"),
        ("2026-01-02", "2026-01-02"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ('"1e-4"', "1e-4"),
        ("'true'", "true"),
        ("=", "="),
        ("[1, 1.0, '1']", [1, 1.0, "1"]),
        ("|\n    two\n    lines", "two\nlines\n"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(edited: Write, written: str, read: object) -> None:
    value = load_sweep(edited("steps: 100", f"steps: {written}")).training["steps"]
    assert value == read and type(value) is type(read)
