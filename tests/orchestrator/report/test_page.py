"""The page of a sweep: it needs nothing else, runs no script but its own, takes names for text, and hides nothing."""

import base64
import hashlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.report.failure_sentences import advise_on_failures
from orchestrator.report.judging_notes import describe_columns, describe_selection
from orchestrator.report.page import data as page_data_module
from orchestrator.report.page.data import make_page_data
from orchestrator.report.sentences import describe_best
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.configuration_tables import make_result_columns, make_value_columns
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.text.wording import format_number
from tests.orchestrator.program.studies import Study


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])


def curves_of(data):
    """The numbers of a page by (metric, average): seeds (C, S, L) and bands (E, C, 3, L), as the page reads them."""
    numbers = np.frombuffer(base64.b64decode(data["numbers"]), dtype="<f4")
    count, evaluations, at, curves = len(data["configurations"]), 1 + len(data["steps"]), 0, {}
    for kind, shape in (("seeds", (count, data["seeds"])), ("bands", (evaluations, count, 3))):
        for metric in data["metrics"]:
            for average in data["averages"]:
                size = int(np.prod(shape)) * len(metric["lengths"])
                array = numbers[at : at + size].reshape(*shape, len(metric["lengths"]))
                curves.setdefault((metric["name"], average), {})[kind] = array
                at += size
    assert at == len(numbers)
    return curves


def test_the_page_needs_nothing_else(small_sweep, page_of):
    page, _ = write_report(small_sweep.folder)
    html = page_of(page)
    assert set(html.references) <= {"#what-failed"} and "link" not in html.tags and "img" not in html.tags
    shown = " ".join(html.text)
    for fact in ("commit " + "0" * 12, "torch 2.13.0", "lab3", "lengthwise publish", "were not used for selection"):
        assert fact in shown
    assert page.stat().st_size < 2e6


def test_keys_with_the_same_abbreviation_have_columns_of_their_own(tmp_path, no_reports, own_code_forgotten):
    study = Study(tmp_path / "study")
    space = {"config.lr": {"grid": [1, 2]}, "config.learning_rate": {"grid": [0.25, 0.5]}}
    study.write(program={"function": "mine.train"}, space=space, seeds=1)
    (study.folder / "mine.py").write_text(
        "def train(config, seed, report, checkpoints):\n"
        "    for step in (10, 20, 30):\n"
        "        report(step, {'acc': {10: config['lr'] * step}}, loss=1 / step)\n"
    )
    summary = summarize(study.run())
    columns = [*make_value_columns(summary)]
    assert [column.heading for column in columns] == ["learning_rate", "lr"]
    assert [column.name for column in columns] == ["config.learning_rate", "config.lr"]
    data = make_page_data(summary, read_curves(summary.state))
    assert [hyperparameter["name"] for hyperparameter in data["hyperparameters"]] == ["learning_rate", "lr"]
    assert {configuration["values"]["learning_rate"] for configuration in data["configurations"]} == {"0.25", "0.5"}
    assert {"lr", "learning_rate"} <= data["table"].keys()


@pytest.mark.parametrize(
    ("levels", "is_logarithmic"),
    [([0.01, 0.05, 0.5], False), ([0.001, 0.05, 0.5], True), ([0.0, 0.001, 0.05, 0.5, 0.5], False)],
)
def test_outcomes_that_span_two_decades_have_a_logarithmic_axis(tmp_path, synthetic_sweep, levels, is_logarithmic):
    values = [{"training.learning_rate": 0.001 * (n + 1)} for n in range(len(levels))]
    state = synthetic_sweep(tmp_path / "levels", values, 2, lambda n, s, a, m, lengths, step: levels[n] + 0 * lengths)
    data = make_page_data(summarize(state), read_curves(state))
    assert data["logarithmic_outcomes"] == (["selection", "test"] if is_logarithmic else [])
    assert data["metrics"][0]["log"] == is_logarithmic  # of the curves


def test_no_script_and_no_style_runs_but_those_of_the_package(small_sweep):
    page, _ = write_report(small_sweep.folder)
    text = page.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "http" not in policy
    inline = re.findall(r"<script>(.*?)</script>", text, re.DOTALL) + re.findall(
        r"<style>(.*?)</style>", text, re.DOTALL
    )
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in inline}
    assert len(inline) == 3 and hashes == set(re.findall(r"'sha256-[^']*'", policy))


def test_names_are_text_and_not_markup(tmp_path, synthetic_sweep, simple_curve, short_text, page_of):
    name = "<script>alert(1)</script> [red] & 'x'".replace("/", "")
    spec = {"training.averages": {"</script><u>raw": {"kind": "raw"}, "ema": {"kind": "ema", "decay": 0.5}}}
    state = synthetic_sweep(tmp_path / name, [{"model.norm": "none"}], 1, simple_curve, spec=spec)
    page, _ = write_report(state.folder)
    parsed = page_of(page)
    assert "u" not in parsed.tags and parsed.tags.count("script") == 3 and name in " ".join(parsed.text)
    assert "</script><u>raw" in data_of(page)["averages"]
    assert name in short_text(summarize(state))


def test_control_characters_reach_no_page(tmp_path, synthetic_sweep, simple_curve):
    spec = {"training.averages": {"r\x1b[31maw": {"kind": "raw"}, "ema": {"kind": "ema", "decay": 0.5}}}
    state = synthetic_sweep(tmp_path / "controls", [{"model.norm": "none"}], 1, simple_curve, spec=spec)
    page, _ = write_report(state.folder)
    assert "\\u001b" not in page.read_text() and "\x1b" not in page.read_text()


def test_curves_are_those_of_the_ledger(small_sweep):
    page, _ = write_report(small_sweep.folder)
    data, result = data_of(page), summarize(small_sweep)
    page_curves, curves = curves_of(data), read_curves(small_sweep)
    assert (data["steps"], data["judged_steps"], data["seeds"]) == ([50], [100], 3)
    for (metric, average), arrays in page_curves.items():
        for index, row in enumerate(result.rows):
            band = result.bands[row.config_id, metric, average]
            for number, quartile in enumerate((band.q25, band.median, band.q75)):
                assert np.array_equal(arrays["bands"][0, index, number], np.float32(quartile), equal_nan=True)
            for number, seed in enumerate(row.seeds):
                assert np.array_equal(
                    arrays["seeds"][index, number], np.float32(band.curves_by_seed[seed]), equal_nan=True
                )
    judged = page_curves[result.objective_curve]["bands"]
    row = result.rows[2]
    early = curves[(curves["step"] == 50) & (curves["config_id"] == row.config_id) & (curves["average"] == "ema")]
    early = early[early["metric"] == "total_variation"].pivot(index="seed", columns="length", values="value")
    assert np.allclose(judged[1, 2, 1], np.median(early.to_numpy(float), axis=0))


def test_trained_lengths_are_named_whether_evaluated_or_not(tmp_path):
    study = Study(tmp_path)
    study.write(evaluation__trained_lengths=[2, 3, 4, 5, 7])
    summary = summarize(state := study.run())
    data = make_page_data(summary, read_curves(state))
    (lengths,) = data["groups"]
    assert (lengths["trained_on"], lengths["trained"]) == ([2, 3, 4, 5, 7], [5])
    named = "2-5, 7 (evaluated at 5)"
    assert lengths["trained_text"] == named
    assert describe_columns(summary, data["table"]).split("; ")[:3] == [f"trained {named}", "selection 10", "test 20"]
    assert f"trained on {named}" in describe_selection(summary)


@pytest.mark.parametrize(("limit", "steps"), [(page_data_module.MAX_NUMBERS, [50, 100, 150]), (1, [150])])
def test_many_evaluations_are_thinned_and_the_last_before_the_judged_one_stays(
    tmp_path, synthetic_sweep, simple_curve, monkeypatch, limit, steps
):
    monkeypatch.setattr(page_data_module, "MAX_NUMBERS", limit)
    state = synthetic_sweep(tmp_path / "longer", [{}], 2, simple_curve, spec={"training.steps": 200})
    data = make_page_data(summarize(state), read_curves(state))
    assert (data["steps"], data["judged_steps"]) == (steps, [200])


def test_a_judged_evaluation_before_the_last_step_is_beside_all_steps(tmp_path, synthetic_sweep):
    """The best evaluation of one seed is the first, that of the other the last."""

    def turning(number, seed, average, metric, lengths, step):
        return 0.1 + 0.001 * (step if seed else -step)

    spec = {"objective.evaluation": "best"}
    state = synthetic_sweep(tmp_path / "turning", [{}], 2, turning, spec=spec)
    data = make_page_data(summarize(state), read_curves(state))
    assert (data["steps"], data["judged_steps"]) == ([50, 100], [50, 100])


def test_a_running_sweep_loads_itself_again_and_says_nothing_of_effects(small_sweep):
    result, curves = summarize(small_sweep), read_curves(small_sweep)
    running = make_page_data(replace(result, status="running"), curves)
    assert running["running"] and running["effects"] == []
    ended = make_page_data(result, curves)
    assert not ended["running"] and ended["effects"]


def test_what_failed_and_why_is_shown(tmp_path, synthetic_sweep, simple_curve, page_of):
    values = [{"model.dropout": 0.1 * n} for n in range(4)]
    state = synthetic_sweep(tmp_path / "lost", values, 2, simple_curve, {(2, 1): 60}, died=[1])
    with Ledger.open(state.folder) as ledger:
        (pack_id,) = (pack.pack_id for pack in state.packs.values() if pack.status == "failed")
        frames = ['  File "/mine/train.py", line 7', *3 * ['  File "/lib/site-packages/torch/nn/module.py", line 8']]
        trace = "\n".join(["Traceback <of line 7>", *frames, "E: no"])
        ledger.append("attempt", pack_id=pack_id, error="worker died", trace=trace)
    output = state.folder / "members" / f"{state.packs[pack_id].members[0][0]}-0"
    output.mkdir(parents=True)
    page, _ = write_report(state.folder)
    shown = " ".join(" ".join(page_of(page).text).split())
    assert "Traceback <of line 7>" in shown and str(output) in shown
    folded, *whole = re.findall("<pre>(.*?)</pre>", page.read_text().partition("<summary>Tracebacks")[2], re.DOTALL)[:2]
    assert [folded.count("torch"), folded.count("train.py"), "3 frames of torch" in folded] == [1, 1, True]
    assert [(text.count("torch"), text.count("train.py")) for text in whole] == [(3, 1)]
    assert "3 failed (2 crashed: worker died; 1 diverged" in shown
    assert "loss or weights NaN or infinite at step 60" in shown
    assert "worker died" in shown and "What failed" in shown
    assert "#2 seed 1" in shown and "#1 seeds 0-1" in shown  # seeds that failed alike have one line
    cells = re.findall(r'class="(\w+)" title="#(\d) seed (\d):[^>]*>(.)<', page.read_text())
    kinds = {(int(number), int(seed)): (kind, letter) for kind, number, seed, letter in cells}
    assert len(kinds) == 8 and {seed: kind for seed, kind in kinds.items() if kind[0] != "complete"} == {
        (1, 0): ("crashed", "C"), (1, 1): ("crashed", "C"), (2, 1): ("diverged", "D"),
    }  # fmt: skip
    whole, _ = write_report(synthetic_sweep(tmp_path / "whole", values, 2, simple_curve).folder)
    assert "What failed" not in " ".join(page_of(whole).text) and ", none failed" in " ".join(page_of(whole).text)


@pytest.mark.parametrize(("died", "retried", "diverged"), [([1], 1, 1), ([], 0, 1), ([1], 1, 0)])
def test_the_next_step_stands_above_what_failed(died, retried, diverged, tmp_path, synthetic_sweep, simple_curve):
    values = [{"model.dropout": 0.1 * n} for n in range(4)]
    lost = {(2, 1): 60} if diverged else {}
    state = synthetic_sweep(tmp_path / "lost", values, 2, simple_curve, lost, died=died)
    html = write_report(state.folder)[0].read_text()
    advice = html.partition("id=what-failed")[2].partition("<table>")[0]
    assert advice.count(f"resume {state.folder}") == advice.count("--retry-failed") == retried
    assert (advice.count("--name"), advice.count("counted as worst")) == (diverged, diverged)

    # Only code of the user is accepted, and a running sweep cannot be resumed.
    assert "--accept-code-change" not in advice
    running = replace(summarize(state), status="running")
    assert "--retry-failed" not in " ".join(advise_on_failures(running))
    state.codes[-1]["modules"].append({"module": "mine"})
    assert ("--accept-code-change" in " ".join(advise_on_failures(summarize(state)))) == bool(retried)


@pytest.mark.parametrize("causes", [1, 2, 3])
def test_few_tracebacks_are_open(causes, tmp_path, synthetic_sweep, simple_curve):
    values = [{"model.dropout": 0.1 * n} for n in range(4)]
    state = synthetic_sweep(tmp_path / "lost", values, 2, simple_curve, died=[0, 1, 2])
    with Ledger.open(state.folder) as ledger:
        for number in range(3):
            trace = f"Traceback of {'abc'[min(number, causes - 1)]}"
            ledger.append("attempt", pack_id=f"pack{number:04d}", error="worker died", trace=trace)
    html = write_report(state.folder)[0].read_text()
    assert html.count("Traceback of ") == causes
    assert ("<details open><summary>Tracebacks" in html) == (causes < 3)
    assert html.count("<details open") == (causes < 3)  # other sections stay folded


def test_effects_are_those_of_statistics_and_none_after_rungs(small_sweep):
    result = summarize(small_sweep)
    data = make_page_data(result, read_curves(small_sweep))
    assert {effect["name"] for effect in data["effects"]} == {"lr", "batch", "norm"}
    survivors = replace(result, design=replace(result.design, survivors=True))
    effects = make_page_data(survivors, read_curves(small_sweep))["effects"]
    ends = [
        effect["correlation"][1:] + [end for slope in effect["slopes"] for end in slope["ends"][1:]]
        for effect in effects
    ]
    assert effects and not any(end is not None for bounds in ends for end in bounds)


@pytest.mark.parametrize("keep", [1, 2, 3, 6, 9])
def test_an_unfinished_sweep_says_so(small_sweep, keep, page_of):
    ledger = small_sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:keep]))
    page, table = write_report(small_sweep.folder)
    result = summarize(SweepState.load(small_sweep.folder))
    complete = sum(b'"kind":"pack_end"' in line for line in lines[:keep])
    assert not result.has_ended and result.complete_configurations == complete
    shown = " ".join(page_of(page).text)
    assert "Continue it with: " in shown and f"{complete} of 6 configurations" in shown
    assert table.read_text().startswith("rank" if result.rows else "config_id")


def test_a_configuration_that_still_trains_has_its_latest_curve(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(
        tmp_path / "half", [{}, {"model.dropout": 0.1}], 2, simple_curve, ended=False, stop_after_step=50
    )
    result = summarize(state)
    data = make_page_data(result, read_curves(state))
    assert [configuration["rank"] for configuration in data["configurations"]] == [None, None]
    assert (data["steps"], data["judged_steps"]) == ([], [50])
    assert np.isfinite(curves_of(data)[result.objective_curve]["bands"]).all()


def test_best_is_said_once_with_its_selection_lengths_and_its_test_number(small_sweep, page_of):
    page, _ = write_report(small_sweep.folder)
    result, texts = summarize(small_sweep), page_of(page).text
    (index,) = [n for n, text in enumerate(texts) if re.search(r"\b(best|winner|optimal)\b", text, re.IGNORECASE)]
    first, claim = result.rows[0], "".join(texts[index : index + 9])  # numbers have their own elements
    assert claim.startswith(f"Best at the selection lengths 6-7: #{first.number}, with ")
    reached = first.test_quartiles
    assert f"n the test lengths 8-11 it reaches {reached.median:#.3g} (quartiles {reached.q25:#.3g} to" in claim
    assert describe_best(replace(result, status="running")).startswith("Best so far")


def test_best_has_its_reach_beside_the_longest_length(small_sweep):
    result = summarize(small_sweep)
    first, longest = result.rows[0], max(result.rows[0].groups.test)
    for reach, last in ((7, longest), (longest, longest)):
        shown = replace(result, rows=(replace(first, generalization_length=reach), *result.rows[1:]))
        words = describe_best(shown).rpartition("median is at")[2]
        assert words.endswith(f" at {last}." if reach < longest else f" up to {last}.")
        if reach < longest:  # the median at the longest length
            band = result.bands[first.config_id, *result.objective_curve]
            value = format_number(band.median[band.lengths.index(longest)], result.infinity_text)
            assert f"up to length {reach}, and {value} at" in words
    assert "median is at" not in describe_best(
        replace(result, objective=result.objective.model_copy(update={"threshold": None}))
    )


def test_the_legend_names_the_value_of_failed_seeds_where_it_is_shown(
    small_sweep, tmp_path, synthetic_sweep, simple_curve, short_text, page_of
):
    result = summarize(small_sweep)
    cells = make_cells(result.rows, make_result_columns(result), result.infinity_text)
    assert result.seeds_failed and "; inf: " in describe_columns(result, cells)
    assert "inf: " in " ".join(page_of(write_report(small_sweep.folder)[0]).text)
    excluded = replace(result, objective=result.objective.model_copy(update={"failed_seeds": "exclude"}))
    assert "inf: " not in describe_columns(excluded, cells)

    # Of two seeds one makes the median infinite, so that of the other is shown.
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    two = summarize(synthetic_sweep(tmp_path / "two", values, 2, simple_curve, {(1, 0): 60}))
    row = next(row for row in two.rows if row.seeds_failed)
    (other,) = filter(
        math.isfinite,
        two.bands[row.config_id, *two.objective_curve].reduce_seed_curves(row.groups.test, "mean").values(),
    )
    cells = make_cells(two.rows, make_result_columns(two), two.infinity_text)
    assert cells["test"][two.rows.index(row)] == f"inf (others {format_number(other)})"
    assert "others: " in describe_columns(two, cells)

    # One of six seeds moves neither the median nor a quartile to infinity, but an end of the interval between two.
    state = synthetic_sweep(tmp_path / "six", values, 6, simple_curve, {(1, 3): 60})
    shown = " ".join(short_text(summarize(state), 160).split())
    assert (
        summarize(state).seeds_failed
        and shown.count("-inf: ") == shown.count("failed on one side; -inf: failed seeds)") == 1
    )
    assert "inf: " not in " ".join(page_of(write_report(state.folder)[0]).text)


def test_without_test_lengths_and_without_a_score_nothing_is_claimed(tmp_path, synthetic_sweep, simple_curve):
    spec = {"objective.lengths": [6, 7, 8], "task.vocabulary": 9}
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    untested = summarize(synthetic_sweep(tmp_path / "t", values, 2, simple_curve, spec=spec))
    assert "no test lengths were evaluated" in describe_best(untested)
    failed = {(n, seed): 10 for n in range(2) for seed in range(2)}
    nothing = summarize(synthetic_sweep(tmp_path / "f", values, 2, simple_curve, failed))
    assert "Best" not in describe_best(nothing)
    write_report(SweepState.load(nothing.folder).folder)
