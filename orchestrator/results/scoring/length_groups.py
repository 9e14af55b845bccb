"""Which lengths of a metric were trained on, which were used to select configurations, and which test them.

Every metric has lengths of its own. Trained are those that its distribution is trained on, selection those of the
objective, for metrics of the distribution that the objective is on. Test lengths are the others beyond the longest
trained one; of a distribution that is not trained on, all others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from orchestrator.record.state.measured import Measured
from search_spaces import Objective

FEW = 4


@dataclass(frozen=True, kw_only=True)
class LengthGroups:
    """The evaluated lengths of a metric; `test` is beyond the trained ones and not used for selection."""

    every: tuple[int, ...]
    trained: tuple[int, ...]
    selection: tuple[int, ...]
    test: tuple[int, ...]


def length_groups(measured: Measured, objective: Objective, metric: str | None = None) -> LengthGroups:
    """The groups of a metric of a configuration, by default of the one that is judged."""
    judged, of = measured.metrics[objective.metric], measured.metrics[metric or objective.metric]
    selection = tuple(sorted(objective.lengths)) if of.distribution == judged.distribution else ()
    longest = measured.longest_trained.get(of.distribution)
    return LengthGroups(
        every=of.lengths,
        trained=of.trained_lengths,
        selection=selection,
        test=tuple(s for s in of.lengths if (longest is None or s > longest) and s not in selection),
    )


def common_test_lengths(groups: Iterable[LengthGroups]) -> tuple[int, ...]:
    """The test lengths that all configurations share, on which alone they can be compared."""
    shared = [set(one.test) for one in groups]
    return tuple(sorted(set.intersection(*shared))) if shared else ()


def few_lengths(groups: LengthGroups, present: Iterable[int]) -> tuple[int, ...]:
    """Up to FEW of the lengths `present`: the longest trained one, others evenly, the longest test length always."""
    known = set(present)
    trained = [length for length in groups.trained if length in known and length not in groups.selection][-1:]
    others = sorted(known & {*groups.selection, *groups.test})
    evenly = np.linspace(0, len(others) - 1, min(FEW - len(trained), len(others))).round().astype(int)
    chosen = [others[i] for i in evenly]
    test = [length for length in others if length in groups.test][-1:]
    if test and test[0] not in chosen:
        chosen[int(np.argmin([abs(length - test[0]) for length in chosen]))] = test[0]
    return tuple(sorted({*trained, *chosen})) or tuple(sorted(known))[-FEW:]
