"""Kept weights evaluated after training: the sweep's own numbers again, other lengths and tasks, refusals."""

import csv
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator import open_sweep
from orchestrator.cli import main as cli
from orchestrator.errors import DamagedWeights, LedgerError, LengthwiseError, SweepLocked, UserError
from orchestrator.record.files.curves import read_curves, read_part
from orchestrator.record.files.weights import list_kept_weights
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import encode_record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import make_csv_tables
from orchestrator.report.tables.later_evaluation_table import make_later_records, make_later_section
from orchestrator.results.make_summary import summarize
from orchestrator.upkeep.later_evaluation import evaluate_later

RELEASED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0"
COPY = """name: copy
study: tests
task: {name: copy_string, train_length: 6, test_lengths: [8, 10]}
model: {name: decoder, layers: 1, width: 16, heads: 2, position: rope}
training: {steps: 4, batch_size: 8, learning_rate: 0.003, compile: false, averages: {raw: {}}}
space: {training.learning_rate: {grid: [0.003, 1.0e+30]}, model.position: {grid: [rope, learned]}}
search: {sampler: grid}
seeds: 2
evaluation: {samples: 20}
objective: {metric: accuracy, average: raw, lengths: [8], direction: maximize}
resources: {keep_weights: true}
"""


def later(folder):
    return [record for record in read_records(folder) if record.kind == "later_evaluation"]


def values(folder, index=-1):
    """The values of a later evaluation by (seed, average, metric, length)."""
    fields = later(folder)[index].fields
    table = read_part(folder, fields["file"], fields["sha256"]).to_pandas()
    return table.astype({"average": "str", "metric": "str"}).set_index(["seed", "average", "metric", "length"]).value


def recorded(folder, number):
    table = read_curves(SweepState.load(folder), final_only=True)
    mine = table[table["number"] == number].astype({"average": "str", "metric": "str"})
    return mine.set_index(["seed", "average", "metric", "length"]).value


def test_it_equals_what_the_sweep_recorded_bit_for_bit(trained_sweep):
    before = {row.config_id: (row.rank, row.score) for row in summarize(SweepState.load(trained_sweep)).rows}
    evaluate_later(trained_sweep, [0, "#2"])
    for index, number in ((0, 0), (1, 2)):
        again, then = values(trained_sweep, index), recorded(trained_sweep, number)
        left_out = {name for _, _, name, _ in then.index} - {name for _, _, name, _ in again.index}
        assert left_out == {"margin_bound"}  # it is derived from a curve, perhaps of other lengths
        then = then.drop(list(left_out), level="metric")
        assert again.loc[then.index].to_numpy().tobytes() == then.to_numpy().tobytes() and len(again) == len(then)
    evaluate_later(trained_sweep, [0], lengths=[5, 4])
    some = values(trained_sweep)
    assert set(some.index.get_level_values("length")) == {4, 5}
    assert some.to_numpy() == pytest.approx(recorded(trained_sweep, 0).loc[some.index].to_numpy(), rel=1e-5)
    after = summarize(SweepState.load(trained_sweep))
    assert {row.config_id: (row.rank, row.score) for row in after.rows} == before


def test_what_is_recorded_is_not_computed_again(trained_sweep):
    first = evaluate_later(trained_sweep, [0, 1], samples=7)
    assert [record.fields["samples"] for record in later(trained_sweep)] == [7, 7]
    assert evaluate_later(trained_sweep, ["#1", 0, 0], samples=7) == first[::-1] and len(later(trained_sweep)) == 2
    evaluate_later(trained_sweep, [0], samples=8)
    assert len(later(trained_sweep)) == 3
    path = trained_sweep / later(trained_sweep)[-1].fields["file"]
    content = path.read_bytes()
    path.unlink()
    evaluate_later(trained_sweep, [0], samples=8)  # lost curves are computed again
    assert path.read_bytes() == content


@pytest.mark.slow
def test_a_command_records_prints_and_writes(trained_sweep):
    words = ["evaluate", str(trained_sweep), "0", "1", "--task", "train_length=2", "--task", "target=soft"]
    done = CliRunner().invoke(cli.app, words, terminal_width=200)
    assert done.exit_code == 0, done.output
    assert "Kept weights evaluated later" in done.output and "train_length 2, target soft" in done.output
    with (trained_sweep / "later_evaluations.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    line = next(line for line in lines if (line["number"], line["average"], line["length"]) == ("1", "ema", "5"))
    mine = values(trained_sweep).xs(("ema", line["metric"], 5), level=("average", "metric", "length"))
    assert float(line["median"]) == pytest.approx(mine.median()) and (line["seeds"], line["failed"]) == ("2", "0")
    assert line["task"] == '{"train_length": 2, "target": "soft"}'
    page = (trained_sweep / "report.html").read_text()
    assert "Kept weights evaluated later" in page and "train_length 2, target soft" in page
    assert len(later(trained_sweep)) == 2


OWN = '''
import torch
from trainers import Batch, Task, register, setting


@register("task", "own_maximum")
class Maximum(Task):
    """The largest token so far."""

    train_length: int = setting(2, low=1, help="trained on lengths 1..train_length")
    permuted: bool = setting(False, help="rows of distinct tokens, so of 8 at most")
    inputs = 8
    trained_lengths = property(lambda self: tuple(range(1, self.train_length + 1)))
    lengths = property(lambda self: tuple(range(1, 2 * self.train_length + 1)))

    def draw_rows(self, stream, rows, length):
        drawn = stream.permutations(0, rows, 8, length) if self.permuted else stream.integers(0, (rows, length), 8)
        return Batch(drawn, drawn.cummax(dim=-1).values)
'''
OWN_SWEEP = """name: own
study: tests
imports: [own_maximum]
task: {name: own_maximum}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: nope}
training: {steps: 2, batch_size: 4, learning_rate: 0.003, compile: false}
space: {task.permuted: {grid: [false, true]}}
search: {sampler: grid}
seeds: 2
evaluation: {samples: 5}
objective: {metric: accuracy, average: raw, lengths: [4], direction: maximize}
resources: {keep_weights: true}
"""


def test_rows_of_any_length_can_be_evaluated_and_the_table_says_what_was_trained(
    tmp_path, run_inline, own_code_forgotten, no_reports
):
    (tmp_path / "own_maximum.py").write_text(OWN)
    (tmp_path / "own.yaml").write_text(OWN_SWEEP)
    folder = run_inline(tmp_path / "own.yaml")
    evaluate_later(folder, [0], lengths=[1, 30, 40])
    assert set(values(folder).index.get_level_values("length")) == {1, 30, 40} and values(folder).notna().all()
    evaluate_later(folder, [0], lengths=[30, 40], task=["train_length=20"])
    later_curves = [values(folder, index).drop(1, level="length", errors="ignore") for index in (0, 1)]
    assert later_curves[0].tolist() == pytest.approx(later_curves[1].loc[later_curves[0].index].tolist())
    for record in later(folder):
        assert record.fields["measured"]["trained"] == {"": [1, 2]}
    result = summarize(SweepState.load(folder))
    cells = make_later_section(result).cells
    assert set(cells["trained on"]) == {"1-2"} and set(cells["task"]) == {"as trained", "train_length 20"}
    assert {line["trained"] for line in make_later_records(result.later_evaluations)} == {"1-2"}
    with pytest.raises(UserError, match="the task has no length 30"):
        evaluate_later(folder, [1], lengths=[30])
    with pytest.raises(UserError, match="must be distinct"):
        evaluate_later(folder, [0], lengths=[30, 30])


def test_settings_as_trained_are_no_other_task(trained_sweep):
    evaluate_later(trained_sweep, [0], task=["train_length=3"])
    assert later(trained_sweep)[0].fields["task"] == {}
    assert (
        values(trained_sweep).to_numpy().tobytes()
        == recorded(trained_sweep, 0).loc[values(trained_sweep).index].to_numpy().tobytes()
    )


def test_in_python_it_returns_a_table(trained_sweep):
    sweep = open_sweep(trained_sweep)
    table = sweep.evaluate(0, "#1", lengths=[4, 5], samples=12, train_length=2)
    assert set(table.number) == {0, 1} and set(table.length) == {4, 5} and set(table.task) == {'{"train_length": 2}'}
    assert len(sweep.summary.later_evaluations) == 2


@pytest.mark.slow
def test_longer_inputs_where_the_model_accepts_them(tmp_path, run_inline):
    file = tmp_path / "copy.yaml"
    file.write_text(COPY)
    folder = run_inline(file)
    numbers = {
        (configuration.values["model.position"], configuration.values["training.learning_rate"]): configuration.number
        for configuration in SweepState.load(folder).configurations.values()
    }
    rope, learned = numbers["rope", 0.003], numbers["learned", 0.003]
    with pytest.raises(UserError) as caught:
        evaluate_later(folder, [rope], lengths=[24])
    assert "--lengths: the task has no length 24" in str(caught.value)
    assert "--task 'test_lengths=[8, 10, 24]'" in str(caught.value)
    longer = ["test_lengths=[8, 10, 24]"]
    with pytest.raises(UserError, match=r"parameter positions: the weights were trained with shape \(\d+, 16\)"):
        evaluate_later(folder, [rope, learned], lengths=[24], task=longer)
    assert not later(folder)  # nothing was written of the one that can be evaluated
    evaluate_later(folder, [rope], lengths=[24], task=longer)
    assert np.isfinite(values(folder)).all() and len(set(values(folder).index.get_level_values("seed"))) == 2
    evaluate_later(folder, [rope], lengths=[8, 10], task=longer)  # at the sweep's lengths as in the sweep
    assert values(folder).to_numpy().tobytes() == recorded(folder, rope).loc[values(folder).index].to_numpy().tobytes()
    with pytest.raises(UserError, match="has no weights: all of its seeds failed"):
        evaluate_later(folder, [numbers["rope", 1e30]], lengths=[8])


def test_failed_seeds_count_as_in_the_sweep(trained_sweep):
    """Seed 3 of the first configuration is recorded as failed, so it has no weights."""
    first = next(iter(SweepState.load(trained_sweep).configurations))
    records, members = read_records(trained_sweep), {}
    for record in records:
        if record.kind == "pack":
            members[record.fields["pack_id"]] = record.fields["members"]
        if record.kind == "evaluation" and [first, 3] in members[record.fields["pack_id"]]:
            index = members[record.fields["pack_id"]].index([first, 3])
            record.fields["failed_at"][index] = 2
            if record.fields["final"]:
                record.fields["weights"][index] = None
    (trained_sweep / "events.jsonl").write_bytes(b"".join(map(encode_record, records)))
    evaluate_later(trained_sweep, [0])
    assert [digest is None for digest in later(trained_sweep)[0].fields["weights"]] == [False, True]
    assert values(trained_sweep).loc[3].isna().all() and values(trained_sweep).loc[0].notna().all()
    (evaluation,) = summarize(SweepState.load(trained_sweep)).later_evaluations
    assert (len(evaluation.seeds), evaluation.failed) == (2, 1)
    assert set(evaluation.bands["total_variation", "ema"].median) == {math.inf}  # a failed seed counts as the worst


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["9"], "no configuration 9"),
        (["0", "--lengths", "x"], "--lengths 'x': cannot be used; allowed: distinct whole numbers"),
        (["0", "--lengths", "99"], "--lengths: the task has no length 99; allowed: 1-5"),
        (["0", "--task", "vocabulry=7"], "--task vocabulry: unknown key"),
        (["0", "--task", "vocabulary"], "--task vocabulary"),
        (["0", "--task", "vocabulary=7"], "the weights were trained with shape (6, 8), and this task needs (7, 8)"),
        (["0", "--task", "name=nothing"], "nothing"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(trained_sweep, words, message):
    before = (trained_sweep / "events.jsonl").read_bytes()
    done = CliRunner().invoke(cli.app, ["evaluate", str(trained_sweep), *words])
    assert isinstance(done.exception, LengthwiseError) and done.exception.exit_code == 2, done.exception
    assert message in str(done.exception)
    assert (trained_sweep / "events.jsonl").read_bytes() == before


def test_curves_of_other_weights_are_computed_again(trained_sweep):
    evaluate_later(trained_sweep, [0], samples=3)
    *records, last = read_records(trained_sweep)
    last.fields["weights"][0] = "0" * 64
    (trained_sweep / "events.jsonl").write_bytes(b"".join(map(encode_record, [*records, last])))
    evaluate_later(trained_sweep, [0], samples=3)
    assert len(later(trained_sweep)) == 2
    (evaluation,) = summarize(SweepState.load(trained_sweep)).later_evaluations  # the last record counts
    assert evaluation.sha256 == later(trained_sweep)[-1].fields["sha256"]


def test_a_running_sweep_is_refused(trained_sweep):
    evaluate_later(trained_sweep, [0])
    with Ledger.open(trained_sweep), pytest.raises(SweepLocked, match="another driver is running"):
        evaluate_later(trained_sweep, [0])


@pytest.mark.parametrize("damage", ["flip", "gone"])
def test_missing_and_damaged_weights_are_named(trained_sweep, damage):
    file = list_kept_weights(SweepState.load(trained_sweep)).popitem()[1]
    data = bytearray(file.path.read_bytes())
    data[-1] ^= 1
    file.path.write_bytes(data) if damage == "flip" else file.path.unlink()
    with pytest.raises(DamagedWeights, match=str(file.path)):
        evaluate_later(trained_sweep, [0, 1, 2])
    assert not later(trained_sweep)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file": "../curves.parquet"}, "is not a plain path inside the sweep folder"),
        ({"config_id": "abcdef012345"}, "of an unknown configuration abcdef012345"),
    ],
)
def test_a_record_made_by_somebody_else_is_refused(trained_sweep, changes, message):
    evaluate_later(trained_sweep, [0], samples=3)
    *records, last = read_records(trained_sweep)
    last.fields.update(changes)
    (trained_sweep / "events.jsonl").write_bytes(b"".join(map(encode_record, [*records, last])))
    with pytest.raises(LedgerError, match=message):
        make_csv_tables(summarize(SweepState.load(trained_sweep)))


def test_a_sweep_without_weights_says_how_they_are_kept(small_sweep):
    with pytest.raises(UserError, match=r"resources\.keep_weights: true"):
        evaluate_later(small_sweep.folder, [0])


def test_a_released_sweep_can_be_evaluated(tmp_path):
    folder = shutil.copytree(RELEASED / "kept_weights", tmp_path / "kept_weights")
    evaluate_later(folder, [0, 1])
    again = values(folder)
    assert again.to_numpy() == pytest.approx(recorded(folder, 1).loc[again.index].to_numpy(), abs=1e-5)
