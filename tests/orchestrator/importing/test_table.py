"""A table with a mistake is refused with its row, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator import Sweep
from orchestrator.errors import UserError
from orchestrator.importing.table import read_table
from orchestrator.record.state.state import SweepState

Import = Callable[..., Sweep]


def set_value(column: str, value: Any, row: int = 7) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows.astype({column: object}).assign(
        **{column: [value if index == row else entry for index, entry in enumerate(rows[column])]}
    )


WRONG: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str, str]] = {
    "no number": (set_value("value", "high"), ":9: value", "'high'"),
    "empty value": (set_value("value", None), ":9: value", "empty"),
    "too large": (set_value("value", 1e39), ":9: value", "1e+39"),
    "seed 1.5": (set_value("seed", 1.5), ":9: seed", "1.5"),
    "negative seed": (set_value("seed", -1), ":9: seed", "-1"),
    "seed in words": (set_value("seed", "first"), ":9: seed", "'first'"),
    "empty step": (set_value("step", None), ":9: step", "empty"),
    "length 0": (set_value("length", 0), ":9: length", "0"),
    "empty length": (set_value("length", None), ":9: length", "empty"),
    "infinite setting": (set_value("lr", np.inf), ":9: lr", "inf"),
    "empty metric": (set_value("metric", None), ":9: metric", "empty"),
    "repeated": (
        lambda rows: pd.concat([rows, rows.iloc[[4]]]),
        f":{36 + 2}: repeats ",
        ":6: lr=0.1, seed 0, step 200",
    ),
    "no seed": (
        lambda rows: rows.rename(columns={"seed": "seeds"}),
        "no column seed",
        "did you mean seeds?; or give --seed-column",
    ),
    "no rows": (lambda rows: rows.iloc[:0], "no rows", ""),
    "gap": (lambda rows: rows.drop(5), "lr=0.1, seed 0", "at length 20"),
    "keys": (lambda rows: rows.assign(**{"lr.decay": 1}), "lr and lr.decay", "--columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named_with_its_row(name: str, rows: pd.DataFrame, imported: Import, tmp_path: Path):
    change, where, what = WRONG[name]
    path = tmp_path / "results.csv"
    change(rows).to_csv(path, index=False)
    with pytest.raises(UserError) as error:
        imported(path)
    message = str(error.value)
    assert message.startswith(str(path)) and where in message and what in message
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "lines",
    [
        ["id,note", "*0,a", "", "*1,b", "  ", "", "*2,c"],
        ["", "id,note", '*0,"two', 'lines"', "*1,b", '"*2","', "", '"'],
        ['id,"no', 'te"', "*0,a", "", "*1,"],
    ],
)
def test_a_row_is_located_at_the_line_where_it_begins(lines: list[str], end: str, tmp_path: Path):
    path = tmp_path / "results.csv"
    path.write_bytes(end.join(lines).encode())
    table = read_table(path)
    begins = [number for number, line in enumerate(lines, start=1) if line.strip('"').startswith("*")]
    assert [table.locate(row) for row in range(len(table.frame))] == [f"{path}:{line}" for line in begins]


OPTIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "metric": ({"metrics": {"acc": "maximize"}}, "metric acc", "accuracy"),
    "other metric": ({"metrics": {"accuracy": "maximize", "loss": "minimize"}}, "--metric loss", "accuracy"),
    "average": ({"average": "ema"}, "average ema", "raw"),
    "length": ({"lengths": [40]}, "length 40", "5, 10, 20"),
    "no lengths": ({"lengths": None}, "--lengths", "5, 10, 20"),
    "columns": ({"columns": ["width", "dept"]}, "column dept", "width"),
    "no setting": ({"columns": ["lr", "step"]}, "step is not a setting", "--columns"),
    "step": ({"step": 3}, "--step 3", "leave"),
    "pattern": ({"pattern": "a"}, "--pattern", "mlflow"),
    "misspelt": ({"lenghts": [5]}, "lenghts", "lengths"),
    "path": ({"table": "nowhere.csv"}, "nowhere.csv", "No such file"),
    "ending": ({"table": "README.md"}, "README.md", ".parquet"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_does_not_fit_is_named(name: str, rows: pd.DataFrame, imported: Import, tmp_path: Path):
    options, where, what = OPTIONS[name]
    path = tmp_path / "results.parquet"
    rows.to_parquet(path)
    (tmp_path / "README.md").write_text("# Results")
    given = {**options}
    table = tmp_path / given.pop("table") if "table" in given else path
    with pytest.raises(UserError) as error:
        imported(table, **given)
    assert where in str(error.value) and what in str(error.value)
    assert not (tmp_path / "imported").exists()


def test_a_data_frame_takes_no_pattern(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    for option in ({"pattern": "a"}, {"lenghts": [5]}):
        with pytest.raises(UserError, match=next(iter(option))):
            imported(rows, **option)
    assert not list(tmp_path.iterdir())


def test_a_number_is_named_as_the_file_has_it(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    rows.assign(length=rows["length"] + 0.5).to_csv(tmp_path / "results.csv", index=False)
    with pytest.raises(UserError, match=r"results\.csv:2: length: is 5\.5;"):
        imported(tmp_path / "results.csv")


@pytest.mark.parametrize(
    ("other", "options"), [("lr", {}), ("value", {}), ("seed", {}), ("trial", {"seed_column": "trial"})]
)
def test_two_columns_of_a_frame_have_one_name(other: str, options: Any, rows: pd.DataFrame, imported: Import):
    frame = rows.assign(width=rows["seed"]).rename(columns={"width": other})
    with pytest.raises(UserError, match=rf"a data frame: {'seed' if options else other}\b"):
        imported(frame, **options)


@pytest.mark.parametrize("name", [3, ("model", "width")])
def test_a_column_of_a_frame_may_have_a_name_that_is_no_text(name: Any, rows: pd.DataFrame, imported: Import):
    frame = rows.assign(width=1)
    frame.columns = pd.Index([name if column == "width" else column for column in frame], tupleize_cols=False)
    text = re.sub(r"[^\w]", "_", str(name))
    assert SweepState.load(imported(frame).folder).spec["config"][text] == 1


def test_two_columns_of_one_name(tmp_path: Path):
    (tmp_path / "a.csv").write_text("lr,seed,lr\n1,2,3\n")
    with pytest.raises(UserError, match=r"a\.csv:1: lr"):
        read_table(tmp_path / "a.csv")


def test_a_file_that_is_no_table(tmp_path: Path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    (tmp_path / "b.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(UserError, match=path.name):
            read_table(path)


def test_texts_stay_as_they_are_written(rows: pd.DataFrame, imported: Import, tmp_path: Path):
    rows["schedule"] = np.where(rows["lr"] == 0.1, "None", "nan")
    rows["layers"] = [[1, 2]] * len(rows)
    rows.to_csv(tmp_path / "results.csv", index=False)
    values = imported(tmp_path / "results.csv").configurations["config.schedule"]
    assert sorted(values) == ["None", "nan"]


def test_the_words_of_the_command_are_checked(lengthwise: Any, tmp_path: Path):
    table = tmp_path / "results.csv"
    table.write_text("seed,step,metric,value\n0,1,loss,0.5\n")
    words = ["import", table, "--name", "a", "--storage", tmp_path]
    lengthwise.refuses(*words, "--metric", "loss", message="loss:minimize")
    lengthwise.refuses(*words, "--metric", "loss:minimise", message="did you mean loss:minimize?")
    lengthwise.refuses(*words, "--metric", "loss:maximize", "--metric", "loss:minimize", message="loss:maximize")
    lengthwise.refuses(*words, "--metric", "loss:minimize", "--lengths", "5-", message="--lengths")
    lengthwise.refuses(*words, "--metric", "loss:minimize", "--from", "tune:x", message="--from")
    lengthwise.refuses("import", "--name", "a", "--metric", "loss:minimize", message="TABLE")
    lengthwise.refuses(*words[:3], "a/b", *words[4:], "--metric", "loss:minimize", message="name")
    assert list(tmp_path.iterdir()) == [table]
    lengthwise.succeeds(*words, "--metric", "loss:minimize")
