"""Rows of files: batches against a plain reading, epochs, identity, and what is wrong with files."""

import csv
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from trainers import MemberConfig
from trainers.errors import ConfigError, Problem
from trainers.files.data_folders import add_search_folder
from trainers.random import Stream
from trainers.tasks.dataset import dataset
from trainers.tasks.dataset.dataset import Dataset
from trainers.tasks.fixed_set import find_visited_samples

Row = dict[str, Any]
FORMATS = ("csv", "tsv", "jsonl", "parquet", "folder")
FORMS: dict[str, dict[str, str]] = {"next": {}, "targets": {"targets": "targets"}, "answer": {"answer": "answer"}}


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sweep file."""
    monkeypatch.setattr("trainers.files.data_folders._sweep_folders", [])
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path / "elsewhere"))
    add_search_folder(tmp_path)
    return tmp_path


def draw_rows(count: int, lengths: Sequence[int], seed: int) -> list[Row]:
    """Rows of random ids below 12, the largest of them in the first one."""
    draw = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        tokens = draw.integers(0, 12, draw.choice(lengths)).tolist()
        tokens[0] = 11 if number == 0 else tokens[0]
        targets = [token if draw.random() < 0.7 else -100 for token in tokens]
        targets[-1] = 3
        answer = draw.integers(0, 12, draw.integers(1, 4)).tolist()
        rows.append({"tokens": tokens, "targets": targets, "answer": answer, "size": 10 * len(tokens)})
    return rows


def write(path: Path, rows: Sequence[Row], kind: str) -> str:
    """Write rows in a format; return the name of the file."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    file = path.with_suffix("" if kind == "folder" else f".{kind}")
    if kind in ("csv", "tsv"):
        with file.open("w", newline="") as opened:
            writer = csv.writer(opened, delimiter="\t" if kind == "tsv" else ",")
            writer.writerow(columns)
            for number, row in enumerate(rows):
                as_text = json.dumps if number % 2 else lambda cell: " ".join(map(str, cell))
                writer.writerow([as_text(cell) if isinstance(cell, list) else cell for cell in row.values()])
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "npz":
        np.savez(file, **{name: np.array(values) for name, values in columns.items()})
    elif kind == "parquet":
        parquet.write_table(pa.table(columns), file, row_group_size=7)
    else:
        datasets = pytest.importorskip("datasets")
        datasets.Dataset.from_dict(columns).save_to_disk(file, num_shards=3)
    return file.name


def padded(rows: Sequence[Row], form: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens and targets of rows, padded at their end, cell by cell, and their numbers of tokens."""
    pairs = []
    for row in rows:
        text = row["tokens"] + (row["answer"] if form == "answer" else [])
        masked = len(row["tokens"]) - 1 if form == "answer" else 0
        shifted = text[:-1], [-100] * masked + text[1 + masked :]
        pairs.append((row["tokens"], row["targets"]) if form == "targets" else shifted)
    width = max(len(tokens) for tokens, _ in pairs)
    tokens = [tokens + [0] * (width - len(tokens)) for tokens, _ in pairs]
    targets = [targets + [-100] * (width - len(targets)) for _, targets in pairs]
    return np.array(tokens), np.array(targets), np.array([len(tokens) for tokens, _ in pairs])


def stream(step: int, seeds: Sequence[int] = (5, 6), name: str = "data") -> Stream:
    return Stream(torch.tensor(seeds), name, torch.tensor(step))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [*FORMATS, "npz"])
def test_batches_are_those_of_a_plain_reading(study: Path, kind: str, form: str) -> None:
    lengths = ((2, 3, 5), (2, 4, 7)) if kind != "npz" else ((4,), (6,))
    rows, tests = draw_rows(20, lengths[0], 0), draw_rows(15, lengths[1], 1)
    if kind == "npz":
        rows, tests = ([{**row, "answer": row["answer"][:1] * 2} for row in some] for some in (rows, tests))
    files = {"train": write(study / "train", rows, kind), "test": write(study / "test", tests, kind)}
    task = Dataset(**files, **FORMS[form], length="size")
    assert task.inputs == 12 and task.files == files
    assert task.trained_lengths == tuple(sorted({row["size"] for row in rows}))
    assert task.lengths == tuple(sorted({row["size"] for row in tests}))

    tokens, targets, widths = padded(rows, form)
    assert task.train_positions == tokens.shape[1] <= task.positions == padded(rows + tests, form)[0].shape[1]
    for step in (1, 4):
        batch, index = task.sample(stream(step), 8), find_visited_samples(stream(step), 8, len(rows))
        assert np.array_equal(batch.tokens, tokens[index]) and np.array_equal(batch.targets, targets[index])
        assert np.array_equal(batch.lengths, widths[index])
        assert batch.tokens.dtype == batch.targets.dtype == torch.int64

    for samples in (2, 100):
        measured = list(task.evaluation_batches(stream(0, name="eval"), samples, task.lengths))
        assert [test.lengths for test in measured] == [(length,) for length in task.lengths]
        for test in measured:
            chosen = [row for row in tests if row["size"] == test.lengths[0]][:samples]
            given = (test.batch.tokens, test.batch.targets, test.batch.lengths)
            for of_seeds, expected in zip(given, padded(chosen, form), strict=True):
                assert np.array_equal(of_seeds[0], expected) and np.array_equal(of_seeds[1], expected)


def test_text_is_read_by_characters_and_by_words(study: Path) -> None:
    rows = [{"text": "b a", "out": "ab"}, {"text": "bab", "out": "b"}]
    write(study / "train", rows, "csv")
    write(study / "test", [{"text": "aaab", "out": "a"}], "jsonl")
    files = {"train": "train.csv", "test": "test.jsonl", "tokens": "text"}
    task = Dataset(**files, answer="out", tokenizer="characters")
    assert (task.data.words, task.trained_lengths, task.lengths) == ((" ", "a", "b"), (3,), (4,))
    (test,) = task.evaluation_batches(stream(0), 9, (4,))
    assert test.batch.tokens[0].tolist() == [[1, 1, 1, 2]] and test.batch.targets[0].tolist() == [[-100] * 3 + [1]]
    assert task.format_row(test.batch, 0) == (["a", "a", "a", "b"], ["_", "_", "_", "a"])
    batch = task.sample(stream(1), 2)
    shown = {tuple("".join(words) for words in task.format_row(batch, row)) for row in range(2)}
    assert shown == {("b␣aa", "__ab"), ("bab", "__b")}

    words = {**files, "tokenizer": "words", "answer": "out"}
    unknown = mistake(**words)
    assert unknown.key == "test" and "column text, row 1: has the unknown token 'aaab'" in unknown.message
    assert Dataset(**words, vocabulary="ab a b aaab z bab").data.words == ("a", "aaab", "ab", "b", "bab", "z")
    assert mistake(**{**files, "tokenizer": "characters", "answer": "out"}, vocabulary=2).key == "vocabulary"
    assert Dataset(**files, answer="out", tokenizer="characters", vocabulary=9).inputs == 9


def test_every_row_comes_once_in_every_epoch_in_the_order_of_its_seed(study: Path) -> None:
    write(study / "rows", [{"tokens": [number, number]} for number in range(24)], "csv")
    task = Dataset(train="rows.csv", test="rows.csv")
    steps = torch.stack([task.sample(stream(step), 6).tokens[..., 0] for step in range(1, 9)])
    epochs = steps.permute(1, 0, 2).reshape(2, 2, 24).tolist()  # of two seeds
    orders = [order for epochs_of_seed in epochs for order in epochs_of_seed]
    assert all(sorted(order) == list(range(24)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def member(seed: int, rate: float = 0.01, task: Row | None = None, **training: Any) -> MemberConfig:
    return MemberConfig.from_dict({
        "task": {"name": "dataset", "train": "train.jsonl", "test": "test.jsonl", **(task or {})},
        "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "rope", "dropout": 0.1},
        "training": {"steps": 9, "batch_size": 8, "learning_rate": rate, "compile": False, **training},
        "evaluation": {"every": 3, "samples": 16},
        "seed": seed,
    })  # fmt: skip


def write_study(folder: Path, seed: int = 0) -> None:
    write(folder / "train", draw_rows(20, (2, 3, 5), seed), "jsonl")
    write(folder / "test", draw_rows(15, (2, 4, 7), 1), "jsonl")


def test_the_contents_of_the_files_are_part_of_the_identity(study: Path, tmp_path: Path) -> None:
    write_study(study)
    bare = member(0)
    planned = bare.pin_data()
    assert planned.pin_data() == planned and planned.config_id != bare.config_id

    # Files in another folder are other data, and the hash finds the right ones.
    (tmp_path / "other").mkdir()
    write_study(tmp_path / "other", seed=3)
    add_search_folder(tmp_path / "other")
    other = bare.pin_data()
    assert other.config_id != planned.config_id and other.structural_key != planned.structural_key
    dataset._read_files.cache_clear()
    batches = [config.task.sample(stream(1), 8).tokens for config in (planned, other)]
    assert planned.task.folder == study and other.task.folder == tmp_path / "other"
    assert not torch.equal(*batches)

    # A process that has read the files keeps their rows; another one refuses changed files.
    write_study(study, seed=4)
    assert torch.equal(planned.task.sample(stream(1), 8).tokens, batches[0])
    dataset._read_files.cache_clear()
    with pytest.raises(ConfigError) as refused:
        MemberConfig.from_dict(planned.to_dict())
    assert [problem.key for problem in refused.value.problems] == ["task.sha256"]
    write_study(study)
    assert MemberConfig.from_dict(planned.to_dict()).config_id == planned.config_id


def test_early_stopping_needs_rows_of_its_own(study: Path) -> None:
    write_study(study)
    stop = {"stop": {"metric": "accuracy", "threshold": 0.9, "samples": 4}}
    with pytest.raises(ConfigError) as refused:
        member(0, **stop)
    assert [problem.key for problem in refused.value.problems] == ["training.stop"]
    rows = draw_rows(30, (2, 3, 5), 9)
    task = member(0, task={"validation": write(study / "valid", rows, "parquet")}, **stop).task
    measured = list(task.validation_batches(stream(0, name="validation"), 4))
    assert [test.lengths for test in measured] == [(2,), (3,), (5,)]
    for test in measured:
        chosen = [row for row in rows if len(row["tokens"]) == test.lengths[0]][:4]
        assert np.array_equal(test.batch.targets[0], padded(chosen, "next")[1])
    write(study / "valid", [row for row in rows if len(row["tokens"]) != 3], "parquet")
    assert mistake(train="train.jsonl", test="test.jsonl", validation="valid.parquet").key == "validation"


def mistake(**settings: Any) -> Problem:
    """The single problem of a task that is refused."""
    with pytest.raises(ConfigError) as refused:
        Dataset(**settings)
    (problem,) = refused.value.problems
    return problem


GOOD: list[Row] = [{"tokens": [1, 2, 3], "targets": [1, 2, 3], "answer": [4], "size": 3}, {**draw_rows(1, (3,), 0)[0]}]


@pytest.mark.parametrize(
    ("changed", "settings", "key", "where"),
    [
        (
            {"tokens": [1, -2, 3]},
            {},
            "test",
            "'test.jsonl' column tokens, row 2: id -2 is out of range; allowed: 0 to 11",
        ),
        ({"tokens": [1, 12, 3]}, {}, "test", "column tokens, row 2: id 12 is out of range; allowed: 0 to 11"),
        (
            {"tokens": [1, 9, 3]},
            {"vocabulary": 9},
            "train",
            "'train.jsonl' column tokens, row 2: id 11 is out of range",
        ),
        ({"tokens": [1]}, {}, "test", "column tokens, row 2: has too few tokens; allowed: at least 2"),
        ({"tokens": "1 x"}, {}, "test", "column tokens, row 2: '1 x' is neither"),
        ({"tokens": [1, 2.5]}, {}, "test", "column tokens, row 2: [1, 2.5] is neither"),
        ({"tokens": [10**30, 1]}, {}, "test", "column tokens, row 2: [1000"),
        ({"tokens": None}, {}, "test", "column tokens, row 2: None is neither"),
        (
            {"targets": [1, 2]},
            {"targets": "targets"},
            "test",
            "column targets, row 2: has a different number",
        ),
        ({"targets": [1, -1, 2]}, {"targets": "targets"}, "test", "column targets, row 2: id -1 is out of range"),
        ({"targets": [-100] * 3}, {"targets": "targets"}, "test", "column targets, row 2: has only masked"),
        ({"answer": []}, {"answer": "answer"}, "test", "column answer, row 2: has no token"),
        ({"size": "1" * 5000}, {"length": "size"}, "test", "column size, row 2: '111"),
        ({"size": 0}, {"length": "size"}, "test", "column size, row 2: length 0 is not allowed; allowed: >= 1"),
        ({"size": [1, 2]}, {"length": "size"}, "test", "column size, row 2: must hold exactly one number"),
        ({}, {"tokens": "token"}, "tokens", "'token' is not a column of train.jsonl"),
        ({}, {"length": "sizes"}, "length", "'sizes' is not a column of train.jsonl"),
        ({}, {"test": "tests.jsonl"}, "test", "there is no file"),
        ({}, {"test": "empty.jsonl"}, "tokens", "'tokens' is not a column of empty.jsonl"),
        ({}, {"test": "header.csv"}, "test", "'header.csv' has no rows"),
        ({}, {"test": "broken.jsonl"}, "test", "'broken.jsonl' row 1: is not JSON"),
        ({}, {"test": "short.csv"}, "test", "'short.csv' row 1: has 1 cells; the header has 2"),
        ({}, {"test": "broken.npz"}, "test", "'broken.npz' "),
        ({}, {"test": "floats.npz"}, "test", "'floats.npz' column tokens: is an array of float64 (2, 2)"),
        ({}, {"test": "uneven.npz", "length": "size"}, "test", "'uneven.npz' column size: has 1 rows"),
        ({}, {"test": "short.npz", "length": "size"}, "test", "column size, row 2: length 0 is not allowed"),
        ({}, {"test": "broken.parquet"}, "test", "'broken.parquet' "),
        ({}, {"test": "nulls.parquet"}, "test", "'nulls.parquet' column tokens, row 2: is null"),
        ({}, {"test": "null_ids.parquet"}, "test", "'null_ids.parquet' column tokens, row 2: has a null among its ids"),
        ({}, {"test": "rows.txt"}, "test", "'rows.txt' has the unknown suffix .txt"),
        ({}, {"test": "splits"}, "test", "'splits' has several splits; allowed: the folder of a split: train, test"),
        ({}, {"test": "nothing"}, "test", "'nothing' is a folder without Arrow files"),
        ({}, {"tokenizer": "characters"}, "train", "'train.jsonl' column tokens, row 1: [1, 2, 3] is not a text"),
        ({}, {"answer": "answer", "targets": "targets"}, "answer", "excludes `targets`"),
        ({}, {"vocabulary": "abc"}, "vocabulary", "the tokenizer is none"),
        ({}, {"sha256": "abc"}, "sha256", "is not a SHA-256"),
        ({}, {"tokenizer": "bytes"}, "tokenizer", "'bytes'"),
    ],
)
def test_what_is_refused(study: Path, changed: Row, settings: Row, key: str, where: str) -> None:
    write(study / "train", GOOD, "jsonl")
    write(study / "test", [GOOD[0], {**GOOD[1], **changed}], "jsonl")
    (study / "empty.jsonl").touch()
    (study / "header.csv").write_text("tokens,targets\n")
    (study / "broken.jsonl").write_text("{'tokens': [1]}\n")
    (study / "short.csv").write_text("tokens,targets\n1 2\n")
    (study / "broken.npz").write_bytes(b"PK\3\4 and so on")
    np.savez(study / "floats.npz", tokens=np.ones((2, 2)))
    np.savez(study / "uneven.npz", tokens=np.ones((2, 2), int), size=np.ones(1, int))
    np.savez(study / "short.npz", tokens=np.ones((3, 2), int), size=[1, 0, -3])
    (study / "broken.parquet").write_bytes(b"PAR1 and so on")
    for name, rows in (("nulls", [[1, 2], None]), ("null_ids", [[1, 2], [3, None], [4, 5]])):
        parquet.write_table(pa.table({"tokens": rows}), study / f"{name}.parquet")
    (study / "rows.txt").touch()
    for folder in ("splits", "nothing"):
        (study / folder).mkdir()
    (study / "splits" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    problem = mistake(**{"train": "train.jsonl", "test": "test.jsonl", **settings})
    assert problem.key == key and where in str(problem)


@pytest.mark.parametrize("kind", FORMATS)
def test_two_columns_of_one_name_are_refused(study: Path, kind: str) -> None:
    table = pa.table([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], names=["tokens", "tokens"])
    if kind in ("csv", "tsv"):
        separator = "\t" if kind == "tsv" else ","
        (study / f"rows.{kind}").write_text("tokens,tokens\n1 2,5 6\n".replace(",", separator))
    elif kind == "jsonl":
        (study / "rows.jsonl").write_text('{"tokens": [1, 2], "tokens": [5, 6]}\n')
    elif kind == "parquet":
        parquet.write_table(table, study / "rows.parquet")
    else:
        (study / "rows").mkdir()
        with pa.ipc.new_stream(study / "rows" / "data-00000.arrow", table.schema) as stream:
            stream.write_table(table)
    file = "rows" if kind == "folder" else f"rows.{kind}"
    problem = mistake(train=file, test=file)
    assert problem.key == "train" and f"'{file}' " in problem.message and "column tokens: two" in problem.message


def test_columns_without_a_name_are_ignored(study: Path) -> None:
    (study / "rows.csv").write_text("tokens,,\n1 2,,\n3 4,,\n")
    assert Dataset(train="rows.csv", test="rows.csv").inputs == 5


def test_a_file_with_a_similar_name_is_named(study: Path) -> None:
    write_study(study)
    assert mistake(train="trian.jsonl", test="test.jsonl").nearest == "train.jsonl"
    assert mistake(train="train.jsonl", test="test.jsonl", tokens="token").nearest == "tokens"


def test_pyarrow_is_needed_for_its_formats_alone(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_study(study)
    write(study / "test", GOOD, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.ipc", None)
    assert Dataset(train="train.jsonl", test="test.jsonl").inputs == 12
    problem = mistake(train="train.jsonl", test="test.parquet")
    assert problem.key == "test" and "needs the package pyarrow" in problem.message


def test_a_file_that_may_not_be_read_is_one_problem(study: Path) -> None:
    write_study(study)
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    (study / "test.jsonl").chmod(0)
    assert "cannot be read" in mistake(train="train.jsonl", test="test.jsonl").message
