"""Whether the compared seeds also chose one of two configurations, and the number that the page has of it."""

import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.report.page.data import make_page_data
from orchestrator.results.comparing.seed_comparisons import Side, compare_sides, make_question
from orchestrator.results.make_summary import summarize
from orchestrator.results.selection_bias import find_chosen, is_biased
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN


def summarize_some(synthetic_sweep, folder, seeds, values, spec=None, count=3):
    """Return the summary of `count` configurations, with the same value at every length: values(number, seed)."""
    state = synthetic_sweep(
        folder,
        [{"model.dropout": 0.1 * number} for number in range(count)],
        seeds,
        lambda number, seed, average, metric, lengths, step: values(number, seed) + 0.0 * lengths,
        spec=spec,
    )
    return summarize(state)


@pytest.mark.parametrize(
    ("count", "seeds", "gap", "is_chosen", "has_bias"),
    [
        (3, 10, 0.1, True, True),
        (3, 10, 0.0, False, False),
        (3, MIN_FOR_MEDIAN - 1, 0.1, True, False),
        (2, 10, 0.1, False, False),
    ],
)
def test_a_lead_of_several_is_biased_with_an_interval_and_another_score(
    count, seeds, gap, is_chosen, has_bias, tmp_path, synthetic_sweep
):
    def values(number, seed):
        return 0.3 + 0.01 * seed + gap * number

    summary = summarize_some(synthetic_sweep, tmp_path / "some", seeds, values, count=count)
    first, second = (Side(summary, row) for row in summary.rows[:2])
    comparison = compare_sides(first, second, make_question(first, second, "test"), "")
    assert (find_chosen(summary, summary.rows[:2]) is summary.rows[0]) == is_chosen
    assert is_biased(summary, comparison) == has_bias


def test_the_page_decides_by_the_score_and_not_by_medians(tmp_path, synthetic_sweep):
    """The largest values are equal, and so are the scores; the medians are not."""
    summary = summarize_some(
        synthetic_sweep,
        tmp_path / "tied",
        7,
        lambda number, seed: 0.9 if seed == 0 else 0.1 + 0.1 * number,
        {"objective.seeds": "max"},
    )
    assert summary.rows[0].score == summary.rows[1].score
    assert summary.rows[0].selection_quartiles != summary.rows[1].selection_quartiles
    data = make_page_data(summary, read_curves(summary.state))
    assert not data["has_leader"] and not any(row["lost_to_first"] for row in data["configurations"])
    assert data["min_pairs"] == MIN_FOR_MEDIAN
