"""What a sweep prints at its end: at most 20 lines of 100 characters, with the numbers of the summary."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.report.sentences import what_mattered
from orchestrator.results.analysis import effects_on_score
from orchestrator.results.confirmations import read_confirmations
from orchestrator.results.summarise import summary
from orchestrator.text.wording import three_digits

RELEASED = Path(__file__).parents[2] / "sweeps" / "1.0.0"


def noisy(number, seed, average, metric, lengths, step):
    """Worse with the number, but not in order."""
    return 0.02 * (1 + number) + 0.05 * math.sin(3.0 * number) + 0.03 * np.maximum(lengths - 5, 0) + 0.001 * seed


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
    """The heading and the lines of the table of configurations, as words."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith("rank "))
    end = next((i for i in range(start + 2, len(lines)) if not re.match(r" *(\d|failed) ", lines[i])), len(lines))
    return lines[start].split(), [re.sub(r", (?=[^\[]*\])", ",", line).split() for line in lines[start + 2 : end]]


def test_a_sweep_fits_twenty_lines_of_a_hundred_characters(twelve, small_sweep, short_text):
    confirmed = summary(SweepState.load(RELEASED / "finished"))
    wordy = replace(twelve, notes=tuple(f"note {n} {'with many words ' * 20}" for n in range(5)))
    for result in (twelve, summary(small_sweep), confirmed, wordy):
        lines = short_text(result, 100).splitlines()
        assert len(lines) <= 20 and lines[-1] == f"Page: {result.folder / 'report.html'}"
        assert all(len(line) <= 100 for line in lines[:-1])
        assert sum(bool(re.match(r" *\d+  #", line)) for line in lines) == min(6, result.configurations_finished)


def test_it_says_what_ran_and_what_failed(tmp_path, synthetic_sweep, twelve, short_text):
    text = short_text(twelve, 1000)
    assert "Finished: 12 configurations with 3 seeds; 36 seeds ran, 1 failed (1 diverged, 0 crashed" in text
    lost = {(2, seed): 10 for seed in range(2)}
    result = summary(synthetic_sweep(tmp_path / "lost", draws(4), 2, noisy, lost, died=[1]))
    text = short_text(result, 1000)
    assert "4 failed (2 diverged, 2 crashed; a failed seed counts as the worst value)" in text
    assert [line[0] for line in table_of(text)[1]] == ["1", "2", "failed", "failed"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_has_the_first_configurations_with_quartiles_where_there_is_room(twelve, short_text, width):
    heading, lines = table_of(short_text(twelve, width))
    values = ["dropout", "lr", "trained", "selection", "test", "reach", "failed"]
    assert heading == ["rank", "label", *(["config_id"] if width > 80 else []), *values] and len(lines) == 6
    for line, row in zip(lines, twelve.rows[:6], strict=True):
        found = (row.trained, row.selection, row.test)
        cells = [three_digits(at.median) for at in found]
        quartiles = [f"[{three_digits(at.q25)},{three_digits(at.q75)}]" for at in found]
        assert line[:2] == [str(row.rank), f"#{row.number}"] and line[-1] == str(row.seeds_failed)
        shown = [one for both in zip(cells, quartiles, strict=True) for one in both] if width > 80 else cells
        assert line[heading.index("trained") : -2] == shown


def test_a_key_with_the_name_of_a_column_has_a_column_of_its_own(tmp_path, synthetic_sweep, short_text):
    values = [{"model.form": "auto", "model.dropout": 0.1 * n} for n in range(2)] + [{"model.form": "plain"}]
    built = summary(synthetic_sweep(tmp_path / "forms", values, 2, noisy))
    result = replace(built, rows=tuple(replace(row, form=("table", "plain")[row.number % 2]) for row in built.rows))
    assert "model.form" in table_of(short_text(result))[0]


def test_the_score_has_a_column_where_it_is_no_median_of_means(tmp_path, synthetic_sweep, short_text):
    result = summary(synthetic_sweep(tmp_path / "max", draws(3), 2, noisy, spec={"objective.reduce": "max"}))
    heading, lines = table_of(short_text(result, 80))
    assert [line[heading.index("score")] for line in lines] == [three_digits(row.score) for row in result.rows]


@pytest.mark.parametrize(("width", "absent"), [(58, {"dropout", "lr"}), (66, {"lr"}), (80, set())])
def test_values_that_have_no_room_are_named(twelve, short_text, width, absent):
    text = short_text(twelve, width)
    heading, _ = table_of(text)
    (more,) = [line for line in text.splitlines() if "on the page" in line]
    assert {"dropout", "lr"} - {*heading} == absent == {name for name in ("dropout", "lr") if name in more}
    assert "6 configurations" in more


@pytest.mark.parametrize("width", [30, 40])
def test_nothing_of_the_table_is_cut_on_a_narrow_terminal(twelve, short_text, width):
    text = short_text(twelve, width)
    table = text[text.index("rank") : text.index("Page:")]
    assert "…" not in table and all(len(line) <= width for line in table.splitlines())
    assert all(three_digits(at.median) in table for row in twelve.rows[:6] for at in (row.trained, row.test))


def test_only_effects_whose_interval_excludes_zero_matter(twelve, tmp_path, synthetic_sweep):
    effect = next(one for one in effects_on_score(twelve) if one.key == "training.learning_rate")
    assert f"lr (higher is worse, rank correlation {effect.correlation:+.3g} [{effect.low:+.3g}, " in what_mattered(
        twelve
    )
    assert "inconclusive: dropout" in what_mattered(twelve)  # it is drawn without regard to the score

    def unmoved(number, seed, average, metric, lengths, step):
        return 0.1 + 0.01 * (number * 5 % 7) + 0.001 * lengths

    values = [{"training.learning_rate": 0.001 * (1 + n % 4), "model.dropout": 0.1 * (n % 3)} for n in range(9)]
    result = summary(synthetic_sweep(tmp_path / "none", values, 2, unmoved))
    assert what_mattered(result).startswith("No hyperparameter has a clear effect")


def test_where_nothing_can_be_said_it_says_why(tmp_path, synthetic_sweep, simple_curve):
    two = summary(synthetic_sweep(tmp_path / "two", draws(2), 2, noisy))
    assert "2 configurations are too few for an interval (at least 8)" in what_mattered(two)
    spec = {"search.sampler": "listed", "search.listed": draws(4), "space": {}}
    listed = summary(synthetic_sweep(tmp_path / "listed", draws(4), 8, noisy, spec=spec))
    assert any(effect.differences for effect in effects_on_score(listed))
    assert what_mattered(listed).endswith("change along with one another, and none can be judged by itself.")
    one = summary(synthetic_sweep(tmp_path / "one", [{}], 3, simple_curve))
    assert "No hyperparameter was compared" in what_mattered(one)
    running = replace(two, status="running")
    assert "too few" not in what_mattered(running)


def test_categories_are_told_apart_from_their_first_value(tmp_path, synthetic_sweep):
    def by_norm(number, seed, average, metric, lengths, step):
        return 0.1 + 0.3 * (number % 2) + 0.02 * (number * 5 % 7) + 0.001 * lengths

    values = [{"model.norm": ("none", "pre")[n % 2], "model.dropout": round(0.1 * (n // 2), 1)} for n in range(12)]
    result = summary(synthetic_sweep(tmp_path / "norms", values, 1, by_norm))
    assert "norm (pre is worse, by +" in what_mattered(result)


def test_the_best_value_of_a_grid_is_named(tmp_path, synthetic_sweep):
    """The second of four rates is better than the first by 0.1, the third by 0.3, the fourth worse by 0.1."""

    def by_rate(number, seed, average, metric, lengths, step):
        return 0.6 - (0.0, 0.1, 0.3, -0.1)[number] + 0.001 * lengths + 0.001 * (seed * (number + 3) % 5)

    rates = [0.001, 0.003, 0.01, 0.03]
    spec = {"search.sampler": "grid", "space": {"training.learning_rate": {"grid": rates}}}
    values = [{"training.learning_rate": rate} for rate in rates]
    result = summary(synthetic_sweep(tmp_path / "rates", values, 8, by_rate, spec=spec))
    assert "lr (0.01 is better than 0.001, by -0.3" in what_mattered(result)


def test_confirmed_scores_stand_beside_those_of_the_search(short_text):
    result = summary(SweepState.load(RELEASED / "finished"))
    (one,) = read_confirmations(result)
    row = one.rows[0]
    scores = (
        f"#{row.number} {three_digits(row.search.median)} in the search and {three_digits(row.confirmed.median)} on"
    )
    assert one.sentence in short_text(result) and scores in short_text(result)


def test_an_unfinished_sweep_shows_what_is_finished(tmp_path, synthetic_sweep, short_text):
    done = summary(synthetic_sweep(tmp_path / "some", draws(3), 2, noisy))
    rows = (*done.rows[:2], replace(done.rows[2], complete=False, rank=None, score=None))
    text = short_text(replace(done, rows=rows, status="interrupted"), 80)
    assert "Interrupted: 2 of 3 configurations" in text and " so far is #" in text
    assert [line[0] for line in table_of(text)[1]] == ["1", "2"]
    begun = short_text(summary(synthetic_sweep(tmp_path / "begun", draws(3), 2, noisy, ended=False)), 80)
    assert "0 of 3 configurations" in begun and "rank" not in begun and "Best" not in begun
