"""The lengths that panels are drawn at."""

import pytest

from orchestrator.results.scoring.length_groups import LengthGroups, few_lengths


@pytest.mark.parametrize(
    ("trained", "selection", "test", "present", "chosen"),
    [
        (range(1, 6), [8, 10], range(11, 21), range(1, 21), (5, 8, 15, 20)),
        (range(1, 6), [20], range(6, 20), range(1, 21), (5, 6, 13, 19)),  # the longest test length, though not the last
        (range(1, 6), [8], [40], [1, 2, 8, 40], (2, 8, 40)),
        (range(1, 6), [8], [40, 50], [3, 40], (3, 40)),  # no number at 50
        (range(1, 6), [8], [40], [1, 2], (2,)),
        (range(1, 6), [5], range(6, 12), range(1, 12), (4, 5, 8, 11)),
        ([], [8], [9, 10, 11, 12], range(8, 13), (8, 9, 11, 12)),
    ],
)
def test_lengths_of_the_panels(trained, selection, test, present, chosen):
    every = tuple(sorted({*trained, *selection, *test}))
    groups = LengthGroups(every=every, trained=tuple(trained), selection=tuple(selection), test=tuple(test))
    assert few_lengths(groups, present) == chosen
