"""Ranges in lists of lengths are the integers of the range, and change no identity."""

import pytest

from search_spaces import SweepFileError, parse_sweep
from search_spaces.grammar.values import expand_ranges

FILE = """name: ranged
study: tests
task:
  name: copy
  train_length: 3
  test_lengths: {task}
model: {{name: decoder}}
training: {{steps: 3, batch_size: 4, learning_rate: 0.01}}
evaluation: {{lengths: {evaluated}}}
objective:
  metric: accuracy
  average: raw
  lengths: {chosen}
  direction: maximize
seeds: 2
"""


def parse(task: str = "[8]", evaluated: str = "[1, 2, 3, 4, 5, 8]", chosen: str = "[4, 5]", **more):
    return parse_sweep(FILE.format(task=task, evaluated=evaluated, chosen=chosen), "ranged.yaml", **more)


def test_a_range_is_the_list_of_its_integers() -> None:
    written_out, ranged = parse(), parse("8-8", "[1-5, 8]", "4-5")
    assert ranged.objective.lengths == (4, 5)
    assert ranged.evaluation["lengths"] == [1, 2, 3, 4, 5, 8] and ranged.task["test_lengths"] == [8]
    assert ranged == written_out and ranged.spec_hash == written_out.spec_hash
    assert parse(overrides=["objective.lengths=4-5", "evaluation.lengths=[1-5, 8]"]) == written_out


def test_a_listed_configuration_may_have_ranges() -> None:
    listed = ["search={sampler: listed, listed: [{evaluation.lengths: 1-5}, {}]}"]
    assert parse(overrides=listed).search.listed[0] == {"evaluation.lengths": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize("chosen", ["5-4", "[4, 3-5]", "1-", "0-3", "1-999999999", "4 - 5"])
def test_a_wrong_range_is_one_problem_with_its_line(chosen: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        parse(chosen=chosen)
    (problem,) = caught.value.problems
    assert (problem.where, problem.key) == ("ranged.yaml:13", "objective.lengths") and "41-500" in str(problem.allowed)


def test_a_length_of_a_range_that_is_not_evaluated_has_the_line_of_the_list() -> None:
    with pytest.raises(SweepFileError) as caught:
        parse(chosen="5-7")
    assert {problem.where for problem in caught.value.problems} == {"ranged.yaml:13"}
    assert [problem.given for problem in caught.value.problems] == [6, 7]


def test_other_values_stay_as_they_are() -> None:
    for value in ("raw", ["a", "1-2-3"], 7, [7], {"1-2": 3}, None):
        assert expand_ranges(value) is value or expand_ranges(value) == value
