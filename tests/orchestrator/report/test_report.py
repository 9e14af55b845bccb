"""The report: numbers equal to those by hand, pages that need nothing else, the truth about unfinished sweeps."""

import csv
import io
import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from orchestrator.consoles import WholeConsole
from orchestrator.record.ledger import LEDGER_FILE
from orchestrator.record.state import SweepState
from orchestrator.report.files import WIDE, print_report, read_summary, render_terminal, write_report
from orchestrator.results.length_groups import LengthGroups, spans
from orchestrator.results.summary import summary


def text_of(result, width=200, rows=20):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render_terminal(result, rows))
    return console.file.getvalue()


class Page(HTMLParser):
    """Collects what a page refers to and the text it shows."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.references, self.text = [], [], []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data):
        self.text.append(data)


def test_summary_equals_the_numbers_by_hand(small_sweep):
    result = summary(small_sweep)
    curves = small_sweep.curves(final_only=True)
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema")]
    assert [row.rank for row in result.rows] == [1, 2, 3, 4, 5, 6]
    assert [row.number for row in result.rows] == [0, 1, 2, 3, 4, 5]
    for row in result.rows:
        table = (
            mine[mine["config_id"] == row.config_id].pivot(index="seed", columns="length", values="value").astype(float)
        )
        counted = np.sort(np.nan_to_num(table.to_numpy(), nan=np.inf), axis=0)  # three seeds, the failed one the worst
        for at, lengths in ((row.trained, range(1, 6)), (row.selection, (6, 7)), (row.test, range(8, 12))):
            means = np.sort(np.nan_to_num(table[list(lengths)].mean(axis=1, skipna=False).to_numpy(), nan=np.inf))
            assert at.median == pytest.approx(means[1]) and at.q25 == pytest.approx((means[0] + means[1]) / 2)
            assert at.q75 == pytest.approx((means[1] + means[2]) / 2)
        assert row.score == row.selection.median
        band = result.bands[row.config_id, "total_variation", "ema"]
        assert band.median == pytest.approx(counted[1])
        reach = [length for length, value in zip(range(1, 12), counted[1], strict=True) if value <= 0.1]
        assert row.generalization_length == max(reach, default=0)
        assert row.area_beyond == pytest.approx(counted[1][5:].mean())
        assert row.groups == LengthGroups(
            every=tuple(range(1, 12)), trained=(1, 2, 3, 4, 5), selection=(6, 7), test=(8, 9, 10, 11)
        )
    assert (result.seeds_run, result.seeds_failed) == (18, 1)
    assert result.finished and result.planned == 6


def test_terminal_says_what_was_selected_and_what_was_not_used(small_sweep):
    text = text_of(summary(small_sweep))
    assert "Sweep small (study set_complement): finished" in text
    assert "seeds ended: 18, failed: 1 (a failed seed counts as the worst value)" in text
    assert (
        "Selected by total_variation of the ema average, mean over lengths 6-7, median over seeds (minimize); "
        "lengths 8-11 were not used for selection; trained on 1-5"
    ) in text
    assert "greatest length at which the median of total_variation (ema)" in text and "is at most 0.1" in text
    for heading in ("trained 1-5", "selection 6-7", "test 8-11", "reach", "failed", "rank correlation [95 %]"):
        assert heading in text
    rows = [line.split() for line in text.splitlines()]
    first = next(row for row in rows if len(row) > 8 and row[0] == "1")
    best = read_summary(small_sweep.folder).rows[0]
    assert first[1:5] == [best.config_id, "none", "16", "0.0001"] and first[5] == f"{best.score:#.3g}"


@pytest.mark.parametrize("width", [80, 100, WIDE, 200])
def test_no_line_is_broken_out_of_its_width_and_nothing_is_cut(small_sweep, width):
    result = summary(small_sweep)
    text = text_of(result, width)
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for row in result.rows:
        assert row.config_id in text
        for at in (row.trained, row.selection, row.test):
            quartiles = [f"{value:#.3g}" if math.isfinite(value) else "inf" for value in (at.q25, at.q75)]
            assert f"[{', '.join(quartiles)}]" in text


def test_terminal_names_figures_that_exist(small_sweep):
    assert "Figures" not in text_of(summary(small_sweep))
    write_report(small_sweep.folder)
    text = text_of(summary(small_sweep))
    for name in ("comparison", "score-model.norm", "score-training.batch_size", "score-training.learning_rate"):
        assert str(small_sweep.folder / "figures" / f"{name}.png") in text


def test_terminal_shows_the_best_and_says_how_many_are_left_out(small_sweep):
    result = summary(small_sweep)
    text = text_of(result, rows=2)
    assert "... and 4 more in report.csv" in text
    assert result.rows[1].config_id in text and result.rows[2].config_id not in text


def test_averages_are_compared_on_the_same_members(small_sweep):
    pairs = summary(small_sweep).comparisons
    assert [(pair.group, pair.average, pair.against) for pair in pairs] == [
        (group, "raw", "ema") for group in ("trained", "selection", "test")
    ]
    curves = small_sweep.curves(final_only=True)
    for pair, lengths in zip(pairs, (range(1, 6), (6, 7), range(8, 12)), strict=True):
        mine = curves[(curves["metric"] == "total_variation") & curves["length"].isin(lengths)]
        means = mine.pivot_table("value", ["config_id", "seed"], "average", observed=True).dropna()
        difference = (means["raw"] - means["ema"]).to_numpy()
        assert (pair.n, pair.configurations, pair.dropped) == (17, 6, 1)
        assert pair.difference == pytest.approx(np.median(difference), rel=1e-5)
        assert (pair.q25, pair.q75) == pytest.approx(tuple(np.quantile(difference, [0.25, 0.75])), rel=1e-5)
        assert (pair.better, pair.worse) == (0, 17)  # the builder makes raw worse everywhere
        assert pair.low > 0 and pair.sign_p == pytest.approx(2**-5) == pair.wilcoxon_p  # of six configurations
    text = text_of(summary(small_sweep))
    assert "Weight averages of the same trained members" in text and "quartiles" in text and "sign test p" in text


def test_better_follows_the_direction_of_the_objective(tmp_path, synthetic_sweep, simple_curve):
    spec = {"objective.metric": "margin", "objective.direction": "maximize", "objective.threshold": 0.1}
    state = synthetic_sweep(
        tmp_path / "up", [{"model.norm": "none"}, {"model.norm": "pre"}], 2, simple_curve, spec=spec
    )
    result = summary(state)
    assert [row.number for row in result.rows] == [1, 0]
    assert [(pair.average, pair.better, pair.worse) for pair in result.comparisons] == [("raw", 4, 0)] * 3
    assert "is at least 0.1" in text_of(result)


def test_report_files(small_sweep):
    page, table = write_report(small_sweep.folder)
    html = Page(page.read_text())
    assert "script" not in html.tags and "link" not in html.tags
    # comparison, three keys, last and best evaluations, margin against its bound, the first three configurations
    assert len(html.references) == 9
    assert all(reference.startswith("data:image/png;base64,") for reference in html.references)
    shown = " ".join(html.text)
    result = summary(small_sweep)
    assert all(row.config_id in shown for row in result.rows)
    for fact in ("0" * 40, "torch 2.13.0", "lab3", "lengthwise publish", "were not used for selection"):
        assert fact in shown

    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["config_id"] for line in lines] == [row.config_id for row in result.rows]
    for line, row in zip(lines, result.rows, strict=True):
        assert float(line["score"]) == row.score and float(line["test_q25"]) == row.test.q25
        assert float(line["training.learning_rate"]) == row.values["training.learning_rate"]
        assert int(line["seeds_failed"]) == row.seeds_failed and line["model.norm"] == row.values["model.norm"]
    assert sorted(path.name for path in small_sweep.folder.glob("report*")) == ["report.csv", "report.html"]


def test_writing_the_report_again_gives_the_same_bytes(small_sweep):
    first = [path.read_bytes() for path in write_report(small_sweep.folder)]
    assert [path.read_bytes() for path in write_report(small_sweep.folder)] == first


def test_names_are_text_and_not_markup(tmp_path, synthetic_sweep, simple_curve):
    name = "<script>alert(1)</script> [red] & 'x'".replace("/", "")
    averages = {"<b>raw": {"kind": "raw"}, "ema": {"kind": "ema", "decay": 0.5}}
    spec = {"training.averages": averages}
    state = synthetic_sweep(tmp_path / name, [{"model.norm": "none"}], 1, simple_curve, spec=spec)
    page, _ = write_report(state.folder)
    parsed = Page(page.read_text())
    assert not {"script", "b"} & set(parsed.tags) and name in " ".join(parsed.text)
    assert name in text_of(summary(state), 300)


@pytest.mark.parametrize("keep", [1, 2, 3, 6, 9])
def test_an_unfinished_sweep_says_so(small_sweep, keep):
    ledger = small_sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:keep]))
    page, table = write_report(small_sweep.folder)
    result = read_summary(small_sweep.folder)
    complete = sum(b'"kind":"pack_end"' in line for line in lines[:keep])
    assert not result.finished and result.configurations_finished == complete
    assert [row.rank for row in result.rows if row.complete] == list(range(1, complete + 1))
    assert all(row.rank is None and row.score is None for row in result.rows if not row.complete)
    for text in (text_of(result), " ".join(Page(page.read_text()).text)):
        assert "UNFINISHED" in text and f"{complete} of 6 configurations have all their seeds" in text
    assert table.read_text().startswith("rank" if result.rows else "config_id")


def test_an_interrupted_sweep_names_the_way_on(small_sweep):
    result = replace(summary(small_sweep), status="interrupted", finished=False)
    assert f"UNFINISHED (interrupted; continue it with: lengthwise resume {small_sweep.folder})" in text_of(result)
    assert "Best so far on lengths 6-7, the lengths it was selected on:" in text_of(result)


def test_a_configuration_that_failed_is_last_and_never_best(tmp_path, synthetic_sweep, simple_curve):
    values = [{"training.learning_rate": rate} for rate in (0.1, 0.01, 0.001)]
    state = synthetic_sweep(tmp_path / "f", values, 2, simple_curve, {(0, 0): 10, (0, 1): 10})
    result = summary(state)
    assert [(row.number, row.rank, row.failed) for row in result.rows] == [
        (1, 1, False),
        (2, 2, False),
        (0, None, True),
    ]
    last = next(line.split() for line in text_of(result).splitlines() if result.rows[2].config_id in line)
    assert last[0] == "failed" and last[-1] == "2"


def test_half_the_seeds_failed_shows_infinite_and_ranks_behind(tmp_path, synthetic_sweep, simple_curve):
    values = [{"training.learning_rate": rate} for rate in (0.1, 0.01)]
    state = synthetic_sweep(tmp_path / "h", values, 4, simple_curve, {(0, 0): 10, (0, 1): 10, (0, 2): 10})
    result = summary(state)
    assert [row.number for row in result.rows] == [1, 0] and result.rows[1].score == math.inf
    write_report(state.folder)
    assert "inf" in text_of(result)


def test_excluded_seeds_are_left_out_of_medians(tmp_path, synthetic_sweep, simple_curve):
    values = [{"training.learning_rate": 0.1}]
    spec = {"objective.failed_seeds": "exclude"}
    state = synthetic_sweep(tmp_path / "x", values, 4, simple_curve, {(0, 0): 10, (0, 1): 10, (0, 2): 10}, spec=spec)
    (row,) = summary(state).rows
    band = summary(state).bands[row.config_id, "total_variation", "ema"]
    assert band.median == pytest.approx(band.seeds[3]) and band.q75 == band.median and row.seeds_failed == 3
    assert "medians are over the seeds that did not fail" in text_of(summary(state))


def test_conditional_keys_and_different_tasks_have_their_place(tmp_path, synthetic_sweep, simple_curve):
    values = [{"task.train_length": 3}, {"task.train_length": 4, "training.clip": 1.0}]
    state = synthetic_sweep(tmp_path / "c", values, 2, simple_curve)
    result = summary(state)
    text = text_of(result)
    assert "the lengths beyond (they differ between configurations)" in text and "trained 1-3" not in text
    assert {row.groups.trained for row in result.rows} == {(1, 2, 3), (1, 2, 3, 4)}
    write_report(state.folder)


def test_no_length_left_to_test_on_is_said(tmp_path, synthetic_sweep, simple_curve):
    spec = {"objective.lengths": [6, 7, 8], "task.vocabulary": 9}
    state = synthetic_sweep(tmp_path / "t", [{"model.norm": "none"}], 2, simple_curve, spec=spec)
    text = text_of(summary(state))
    assert "no other lengths were evaluated" in text and "none were not used" not in text


def test_a_log_gets_whole_lines(small_sweep):
    stream = io.StringIO()
    print_report(summary(small_sweep), Console(file=stream))
    assert max(map(len, stream.getvalue().splitlines())) > 100 and "\x1b" not in stream.getvalue()


def test_conflicting_curves_are_reported(small_sweep):
    state = SweepState.load(small_sweep.folder)
    record = json.loads((small_sweep.folder / LEDGER_FILE).read_text().splitlines()[3])["data"]
    from orchestrator.record.ledger import Record

    state.apply(Record(99, 0.0, "evaluation", {**record, "sha256": "e" * 64}))
    assert "reported step 50 again with other curves" in text_of(summary(state))


def test_spans():
    assert [spans(x) for x in ((), (4,), (1, 2, 3, 7), (2, 1))] == ["none", "4", "1-3, 7", "1-2"]


@pytest.mark.parametrize(("width", "terminal"), [(80, True), (160, False)])
def test_values_intervals_and_paths_are_never_broken(tmp_path, synthetic_sweep, simple_curve, width, terminal):
    folder = tmp_path / ("a sweep of a long name " * 4).strip()
    values = [
        {"training.learning_rate": 10.0 ** -(4 - n / 4), "training.batch_size": 16 << n % 2, "model.norm": norm}
        for n, norm in enumerate(["none", "pre", "post", "none"] * 2)
    ]
    synthetic_sweep(folder, values, 3, simple_curve)
    write_report(folder)
    result = summary(SweepState.load(folder))
    console = WholeConsole(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    console.print(render_terminal(replace(result, status="interrupted", finished=False)))
    lines = console.file.getvalue().splitlines()
    text = "\n".join(lines)
    assert f"  {folder / 'figures' / 'score-training.learning_rate.png'}" in lines
    assert f"lengthwise resume '{folder}'" in text
    for found in result.effects:
        assert all(f"(n = {count})" in text for count in found.counts.values() if len(found.counts) < found.n)
    assert text.count("(n = ") == sum(2 * len(e.counts) for e in result.effects if 0 < len(e.counts) < e.n)
    tables = lines[next(i for i, line in enumerate(lines) if line.startswith("Configurations by score")) :]
    assert all(line.count("[") == line.count("]") for line in tables)
    assert not terminal or all(len(line) <= width for line in lines if str(folder) not in line)


def test_equal_scores_have_one_sentence_instead_of_effects(tmp_path, synthetic_sweep):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    said = "have the same score, so effects of hyperparameters are not shown."
    equal = summary(synthetic_sweep(tmp_path / "equal", values, 2, lambda *where: 0.5))
    lost = {(number, seed): 10 for number in range(2) for seed in range(2)}
    nowhere = summary(synthetic_sweep(tmp_path / "lost", values, 2, lambda *where: 0.5, lost))
    for result, sentence in ((equal, f"All 2 configurations {said}"), (nowhere, "No configuration has a finite score")):
        text, (page, _) = text_of(result), write_report(result.folder)
        assert sentence in text and sentence in page.read_text()
        assert "Kruskal" not in text and "rank correlation" not in text
        assert not (result.folder / "effects.csv").exists()
    alone = summary(synthetic_sweep(tmp_path / "alone", values[:1], 2, lambda *where: 0.5))
    write_report(alone.folder)
    assert not list(alone.folder.glob("figures/score-*")) and "effects of" not in text_of(alone)
