"""What an objective may leave out changes no identity: the only average, and the direction that the metric has."""

from pathlib import Path

import pytest

import search_spaces
from orchestrator.api.run import _load_spec
from orchestrator.plan.checks.sweep_file_checks import summarize_sample
from search_spaces import SweepFileError, load_sweep
from tests.sweep_files import load_checked

TEXT = """name: left-out
study: tests
task: {{name: padded_addition, width: 6, train_digits: 2}}
model: {{name: encoder, layers: 1, width: 16, heads: 2, hidden: 16}}
training: {{steps: 20, batch_size: 8, learning_rate: 0.003{averages}}}
seeds: 2
objective: {{metric: {metric}, lengths: [3]{more}}}
"""


@pytest.fixture
def written(tmp_path):
    def write(averages="", more="", metric="digit_accuracy"):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(TEXT.format(averages=averages, more=more, metric=metric))
        return path

    return write


@pytest.mark.parametrize(
    ("averages", "average"), [("", "raw"), (", averages: {mine: {kind: ema, decay: 0.9}}", "mine")]
)
def test_identity_is_that_of_a_file_that_says_them(written, averages, average):
    short = load_checked(written(averages))
    whole = load_checked(written(averages, f", average: {average}, direction: maximize"))
    assert short.spec_hash == whole.spec_hash and short.resolved() == whole.resolved()
    assert (short.objective.average, short.objective.direction) == (average, "maximize")
    assert summarize_sample(short).configuration_count == 1


def test_a_dictionary_may_leave_them_out_too(tmp_path):
    sections = load_sweep(Path(search_spaces.__file__).parent / "quickstart.yaml").resolved()
    del sections["objective"]["direction"]
    assert _load_spec(sections, [], None, [], tmp_path).objective.direction == "minimize"


def test_what_is_ambiguous_is_missing(written):
    two = ", averages: {raw: {}, ema: {decay: 0.9}}"
    with pytest.raises(SweepFileError, match=r"objective\.average: is missing"):
        load_checked(written(two))
    with pytest.raises(SweepFileError) as caught:
        summarize_sample(load_checked(written(metric="digit_accuracyy")))
    assert "objective.metric" in {problem.key for problem in caught.value.problems}


ONE = ", averages: {ema: {decay: 0.9}}"


@pytest.mark.parametrize(
    ("averages", "searched", "average"),
    [
        (", averages: bema", "", "bema"),
        (ONE, "space: {training.averages.ema.decay: {grid: [0.9, 0.99]}}", "ema"),
        (ONE, "space: {training.averages.bema.decay: {grid: [0.9, 0.99]}}", None),
        (ONE, "space: {training.averages: {grid: [raw, bema]}}", None),
        ("", "space: {training: {grid: [{steps: 2, batch_size: 8, learning_rate: 0.1, averages: bema}]}}", None),
        ("", "search: {sampler: listed, listed: [{training: {steps: 2, batch_size: 8, learning_rate: 0.1}}]}", None),
    ],
)
def test_the_average_is_left_out_where_all_configurations_have_the_same_one(written, averages, searched, average):
    path = written(averages)
    path.write_text(path.read_text() + searched + ("\nsearch: {sampler: grid}" if "space" in searched else ""))
    if average is None:
        with pytest.raises(SweepFileError, match=r"objective\.average: is missing") as caught:
            load_sweep(path)
        assert len(caught.value.problems) == 1
    else:
        assert load_checked(path).objective.average == average


def test_the_objective_is_held_against_the_sections_that_replace_the_fixed_one(written):
    path = written(", averages: {raw: {}}", ", average: ema")
    training = "{steps: 2, batch_size: 8, learning_rate: 0.1, averages: ema}"
    path.write_text(
        f"{path.read_text()}evaluation: {{lengths: [4]}}\nsearch: {{sampler: grid}}\n"
        f"space: {{evaluation: {{grid: [{{lengths: [3, 4]}}]}}, training: {{grid: [{training}]}}}}"
    )
    assert load_sweep(path).objective.lengths == (3,)


def test_a_direction_that_nobody_has_asked_for_is_never_run(written):
    with pytest.raises(SweepFileError, match=r":7: objective\.direction: "):
        summarize_sample(load_sweep(written()))
    file = Path(search_spaces.__file__).parent / "quickstart.yaml"
    objective = "objective={metric: margin_bound, average: ema, lengths: [6, 7]}"
    with pytest.raises(SweepFileError, match=r"objective\.direction: is missing"):
        summarize_sample(load_checked(file, [objective]))
