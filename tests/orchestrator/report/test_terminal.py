"""What a sweep prints at its end fits one screen, says the same as every table, and leaves out what it says it does."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.report import terminal
from orchestrator.report.tables.clear_effects import clear_averages, clear_cells, clear_sentence
from orchestrator.report.tables.configurations import configuration_section
from orchestrator.report.tables.sentences import best_sentence, selection_sentence, threshold_words
from orchestrator.results.analysis import (
    compare_weight_averages,
    effects_at_test_lengths,
    effects_on_score,
    read_confirmations,
)
from orchestrator.results.summarise import summary
from orchestrator.wording import three_digits

RELEASED = Path(__file__).parents[2] / "sweeps" / "1.0.0"
SCREEN = 33  # lines


def noisy(number, seed, average, metric, lengths, step):
    """Worse with the number, but not in order; raw weights are better at long lengths only."""
    level = 0.02 * (1 + number) + 0.05 * math.sin(3.0 * number) + 0.03 * np.maximum(lengths - 5, 0) + 0.001 * seed
    return level - (0.01 * (lengths > 7) if average == "raw" else 0.0)


def draws(count):
    return [
        {"training.learning_rate": 10.0 ** -(4 - n / 5), "model.dropout": round(0.1 * (n * 7 % 5), 2)}
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def twelve(tmp_path_factory, synthetic_sweep):
    """Twelve configurations of three seeds; one seed of one of them diverged."""
    return summary(synthetic_sweep(tmp_path_factory.mktemp("built") / "twelve", draws(12), 3, noisy, {(4, 1): 60}))


def table_of(text):
    """The table of configurations: its heading and its lines as words."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Configurations by score")) + 1
    end = next((i for i in range(start + 2, len(lines)) if not re.match(r" *(\d|failed) ", lines[i])), len(lines))
    return lines[start].split(), [re.sub(r", (?=[^\[]*\])", ",", line).split() for line in lines[start + 2 : end]]


@pytest.mark.parametrize("width", [80, 100])
def test_an_ordinary_sweep_fits_one_screen(twelve, small_sweep, short_text, width):
    for result, room in ((twelve, SCREEN - 3), (summary(small_sweep), SCREEN)):  # the second compares values as well
        lines = short_text(result, width).splitlines()
        assert len(lines) <= room and max(map(len, lines)) <= width and "…" not in "".join(lines)


def test_it_says_how_it_was_judged_and_what_the_first_configuration_came_to(twelve, short_text):
    text = short_text(twelve, 1000)
    first = twelve.rows[0]
    assert text.startswith("Sweep twelve (study set_complement): finished\n")
    assert selection_sentence(twelve) in text and "lengths 8-11 were not used for selection; trained on 1-5" in text
    assert best_sentence(twelve)[0] in text
    for at in (first.trained, first.selection, first.test):
        assert f"{three_digits(at.median)} [{three_digits(at.q25)}, {three_digits(at.q75)}]" in text
    assert "failed: 1 (a failed seed counts as the worst value); crashed: 0, diverged: 1" in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_has_the_first_configurations_with_quartiles_where_there_is_room(twelve, short_text, width):
    text = short_text(twelve, width)
    heading, lines = table_of(text)
    values = ["dropout", "lr", "trained", "selection", "test", "reach", "failed"]
    assert heading == ["rank", "label", *(["config_id"] if width > 80 else []), *values]
    assert "... and 6 more in report.csv" in text
    for line, row in zip(lines, twelve.rows[:6], strict=True):
        cells = [three_digits(at.median) for at in (row.trained, row.selection, row.test)]
        quartiles = [
            f"[{three_digits(at.q25)},{three_digits(at.q75)}]" for at in (row.trained, row.selection, row.test)
        ]
        assert line[:2] == [str(row.rank), f"#{row.number}"] and line[-1] == str(row.seeds_failed)
        shown = [one for both in zip(cells, quartiles, strict=True) for one in both] if width > 80 else cells
        assert line[heading.index("trained") : -2] == shown


def test_what_does_not_fit_is_named_and_everything_fits_a_log(tmp_path, synthetic_sweep, simple_curve, short_text):
    averages = {
        "raw": {"kind": "raw"},
        "ema": {"kind": "ema", "decay": 0.9},
        "slow_ema": {"kind": "ema", "decay": 0.99},
    }
    values = [
        {
            "training.learning_rate": 10.0 ** -(4 - n / 3),
            "training.weight_decay": 10.0 ** -(3 - n / 4),
            "training.batch_size": 16 << n % 2,
            "model.dropout": 0.0123 * (n + 1),
            "training.averages.ema.decay": 0.9 + 0.0123 * n,
            "training.averages.slow_ema.decay": 0.99 + 0.00123 * n,
        }
        for n in range(5)
    ]
    spec = {"training.averages": averages}
    result = summary(synthetic_sweep(tmp_path / "wide", values, 2, simple_curve, spec=spec))
    names = {"lr", "wd", "batch", "dropout", "ema.decay", "slow_ema.decay"}
    text = short_text(result, 80)
    heading, lines = table_of(text)
    left_out = set(re.search(r"Not shown: (.*) \(see report\.csv\)", text)[1].split(", "))
    assert left_out and left_out | set(heading) >= names and not left_out & set(heading)
    assert {"rank", "label", "trained", "selection", "test"} <= set(heading) and {len(line) for line in lines} == {
        len(heading)
    }
    assert max(map(len, text.splitlines())) <= 80
    log = short_text(result)
    assert set(table_of(log)[0]) >= names | {"label"} and "Not shown" not in log


def test_a_key_with_the_name_of_a_column_has_a_column_of_its_own(tmp_path, synthetic_sweep, short_text, full_text):
    values = [{"model.form": "auto", "model.dropout": 0.1 * n} for n in range(2)] + [{"model.form": "plain"}]
    built = summary(synthetic_sweep(tmp_path / "forms", values, 2, noisy))
    forms = {0: "table", 1: "table", 2: "plain"}
    result = replace(built, rows=tuple(replace(row, form=forms[row.number]) for row in built.rows))
    cells = configuration_section(result).cells
    assert cells["model.form"] == [row.values["model.form"] for row in result.rows]
    assert cells["form"] == [row.form for row in result.rows]
    for text in (short_text(result), full_text(result)):
        assert "auto" in text and "model.form" in text


def test_the_score_has_a_column_where_it_is_no_median_of_means(tmp_path, synthetic_sweep, short_text):
    result = summary(synthetic_sweep(tmp_path / "max", draws(3), 2, noisy, spec={"objective.reduce": "max"}))
    heading, lines = table_of(short_text(result, 80))
    assert [line[heading.index("score")] for line in lines] == [three_digits(row.score) for row in result.rows]


def test_effects_with_an_interval_without_zero_have_a_line_and_no_others(twelve, short_text):
    wanted = []
    for key, name in (("model.dropout", "dropout"), ("training.learning_rate", "lr")):
        for lengths, effects in (
            ("selection 6-7", effects_on_score(twelve)),
            ("test 8-11", effects_at_test_lengths(twelve)),
        ):
            effect = next(one for one in effects if one.key == key)
            ends = [(effect.low, effect.high), *((held.low, held.high) for held in effect.partial.slopes)]
            if any(low > 0 or high < 0 for low, high in ends):
                wanted.append((name, lengths, f"{effect.correlation:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}]"))
    columns = clear_cells(twelve)
    names = ("effect of", "at lengths", "rank correlation")
    assert list(zip(*(columns[name] for name in names), strict=True)) == wanted
    assert {name for name, _, _ in wanted} == {"lr"}  # dropout is drawn without regard to the score
    text = short_text(twelve, 80)
    assert "2 of 4 effects of hyperparameters have a 95 % interval without 0 (+ is worse):" in text
    for what, lengths, number in wanted:
        assert [line for line in text.splitlines() if line.startswith(what) and lengths in line and number in line]


def test_effects_that_do_not_fit_beside_each_other_are_shown_below_each_other(twelve, short_text):
    cells = clear_cells(twelve)
    text = short_text(twelve, 50)
    heading = [line.split() for line in text.splitlines() if line.split()[:2] == ["effect", "of"]]
    assert len(heading) > 1 and max(map(len, text.splitlines())) <= max(50, len(str(twelve.folder)) + 30)
    for name in ("rank correlation", "others held fixed"):
        assert all(part in text for cell in cells[name] for part in cell.split(" ", 1))


@pytest.mark.parametrize("width", [30, 40])
def test_nothing_is_cut_on_a_narrow_terminal(twelve, short_text, full_text, width):
    for text in (short_text(twelve, width), full_text(twelve, width)):
        table = text[text.index("Configurations by score") :]
        assert "…" not in table and all(len(line) <= width for line in table.splitlines() if "/" not in line)
        first = twelve.rows[0]
        for at in (first.trained, first.selection, first.test):
            assert three_digits(at.median) in table


def test_categories_are_told_apart_from_their_first_value(tmp_path, synthetic_sweep):
    def by_norm(number, seed, average, metric, lengths, step):
        return 0.1 + 0.3 * (number % 2) + 0.02 * (number * 5 % 7) + 0.001 * lengths

    values = [{"model.norm": ("none", "pre")[n % 2], "model.dropout": round(0.1 * (n // 2), 1)} for n in range(12)]
    result = summary(synthetic_sweep(tmp_path / "norms", values, 1, by_norm))
    columns = clear_cells(result)
    assert columns["effect of"].count("norm: pre instead of none") == 2
    at = columns["effect of"].index("norm: pre instead of none")
    (held,) = next(one for one in effects_on_score(result) if one.key == "model.norm").partial.slopes
    assert columns["others held fixed"][at] == f"{held.coefficient:+.2f} [{held.low:+.2f}, {held.high:+.2f}]"
    assert "rank correlation" not in columns or columns["rank correlation"][at] == "-"


def test_where_no_interval_is_without_zero_one_line_says_so(tmp_path, synthetic_sweep, short_text):
    def unmoved(number, seed, average, metric, lengths, step):
        return 0.1 + 0.01 * (number * 5 % 7) + 0.001 * lengths

    values = [{"training.learning_rate": 0.001 * (1 + n % 4), "model.dropout": 0.1 * (n % 3)} for n in range(9)]
    result = summary(synthetic_sweep(tmp_path / "none", values, 2, unmoved))
    assert clear_cells(result) == {}
    assert "None of 4 effects of hyperparameters has a 95 % interval without 0.\n" in short_text(result, 80)


def test_keys_without_any_interval_are_named_and_too_few_configurations_say_so(tmp_path, synthetic_sweep, short_text):
    two = summary(synthetic_sweep(tmp_path / "two", draws(2), 2, noisy))
    said = "No effect of a hyperparameter has an interval: n = 2 is too few for an interval (at least 8)."
    assert clear_sentence(two) == said and said in short_text(two)
    values = [{**one, **({"model.norm": ("none", "pre")[n % 2]} if n < 4 else {})} for n, one in enumerate(draws(12))]
    some = summary(synthetic_sweep(tmp_path / "some", values, 1, noisy))
    assert clear_sentence(some).endswith("; norm: no interval):")


def test_keys_that_change_along_with_one_another_have_no_clear_effect(tmp_path, synthetic_sweep):
    """A list of draws, such as `extend --steps` makes: each differs from the others in every key."""
    spec = {"search.sampler": "listed", "search.listed": draws(4), "space": {}}
    found = summary(synthetic_sweep(tmp_path / "listed", draws(4), 8, noisy, spec=spec))
    assert any(effect.differences for effect in effects_on_score(found)) and not clear_cells(found)
    assert clear_sentence(found).endswith("keys change along with one another, and none can be judged by itself.")


def test_averages_that_differ_clearly_have_a_line(twelve, short_text):
    (test,) = (one for one in compare_weight_averages(twelve) if one.group == "test")
    interval = f"[{test.low:+#.3g}, {test.high:+#.3g}]"
    text = f"total_variation with raw instead of ema weights: -0.0100 {interval} at lengths 8-11"
    assert clear_averages(twelve) == [text] and text in short_text(twelve)  # at 6 and 7 they are equal


def test_averages_are_compared_at_the_lengths_that_are_named(tmp_path, synthetic_sweep):
    """The configurations have the test lengths 3-5 and 8-11, and 8-11."""

    def longer_is_better(number, seed, average, metric, lengths, step):
        return 1.0 + 0.001 * seed - (0.01 * lengths if average == "raw" else 0.0)

    values = [{"task.train_length": length} for length in (2, 5)]
    spec = {"search.sampler": "listed", "search.listed": values}
    result = summary(synthetic_sweep(tmp_path / "lengths", values, 6, longer_is_better, spec=spec))
    assert {row.groups.test for row in result.rows} == {(3, 4, 5, 8, 9, 10, 11), (8, 9, 10, 11)}
    (sentence,) = clear_averages(result)
    assert sentence.endswith("-0.0950 [-0.0950, -0.0950] at lengths 8-11")


def test_confirmed_scores_stand_beside_those_of_the_search(short_text, monkeypatch):
    result = summary(SweepState.load(RELEASED / "finished"))
    (one,) = read_confirmations(result)
    row, texts = one.rows[0], []
    for at in (row.search, row.confirmed):
        texts.append(f"{three_digits(at.median)} [{three_digits(at.q25)}, {three_digits(at.q75)}]")
    monkeypatch.setattr(terminal, "CONFIRMED", 1)
    lines = short_text(result, 1000).splitlines()
    assert lines[lines.index(f"{one.sentence}.") :][1:3] == [
        f"  #{row.number} in {one.parent}: search score {texts[0]}, confirmed score {texts[1]}",
        "  ... and 1 more in confirmed.csv",
    ]


def test_an_unfinished_sweep_shows_what_is_finished(tmp_path, synthetic_sweep, short_text):
    done = summary(synthetic_sweep(tmp_path / "some", draws(3), 2, noisy))
    rows = (*done.rows[:2], replace(done.rows[2], complete=False, rank=None, score=None))
    result = replace(done, rows=rows, status="interrupted", finished=False)
    text = short_text(result, 80)
    assert ": interrupted; continue it with: lengthwise resume" in text and "Best so far on" in text
    assert [line[0] for line in table_of(text)[1]] == ["1", "2"] and "2 of 3 configurations" in text
    begun = summary(synthetic_sweep(tmp_path / "begun", draws(3), 2, noisy, ended=False))
    text = short_text(begun, 80)
    assert "0 of 3 configurations have all their seeds" in text and "Selected by" in text
    assert "Configurations by score" not in text and "Best" not in text


def test_packs_that_died_and_configurations_that_failed_are_named(tmp_path, synthetic_sweep, short_text):
    lost = {(2, seed): 10 for seed in range(2)}
    result = summary(synthetic_sweep(tmp_path / "lost", draws(4), 2, noisy, lost, died=[1]))
    text = short_text(result, 1000)
    assert "failed: 4 (a failed seed counts as the worst value); crashed: 2, diverged: 2" in text
    assert "1 pack died: worker died; details: lengthwise status" in text
    assert [line[0] for line in table_of(text)[1]] == ["1", "2", "failed", "failed"]


def test_one_configuration_has_no_effects(tmp_path, synthetic_sweep, simple_curve, short_text):
    result = summary(synthetic_sweep(tmp_path / "one", [{}], 3, simple_curve))
    text = short_text(result, 80)
    heading, lines = table_of(text)
    assert heading == ["rank", "label", "trained", "selection", "test", "reach"] and len(lines) == 1
    title = f"Configurations by score (medians; reach: {threshold_words(result)} up to this length)"
    assert title in text and len(title) <= 80
    assert "effect" not in text and "instead of" not in text and len(text.splitlines()) < 15


def test_many_conflicts_are_cut(twelve, short_text):
    result = replace(twelve, notes=tuple(f"note {n}" for n in range(5)))
    text = short_text(result, 80)
    assert "note 2" in text and "note 3" not in text and "... and 2 more in report.html" in text
