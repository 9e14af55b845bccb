"""The trained, selection and test lengths of a metric.

Every metric has its own lengths. Trained lengths occur in training on its distribution. Selection lengths are those of
the objective, for metrics on the distribution that is judged. Test lengths are all others beyond the longest trained
one; if the distribution is not trained on, all others.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from orchestrator.errors import UserError
from orchestrator.measured import Measured
from orchestrator.wording import read_numbers
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
    """Return the length groups of a metric of a configuration, by default of the judged metric."""
    judged, described = measured.metrics[objective.metric], measured.metrics[metric or objective.metric]
    selection = tuple(sorted(objective.lengths)) if described.distribution == judged.distribution else ()
    longest = measured.longest_trained.get(described.distribution)
    return LengthGroups(
        every=described.lengths,
        trained=described.trained_lengths,
        selection=selection,
        test=tuple(s for s in described.lengths if (longest is None or s > longest) and s not in selection),
    )


def few_lengths(groups: LengthGroups, present: Iterable[int]) -> tuple[int, ...]:
    """Return up to FEW of the lengths `present`: the longest trained one, the longest test length, others between."""
    known = set(present)
    trained = [length for length in groups.trained if length in known and length not in groups.selection][-1:]
    others = sorted(known & {*groups.selection, *groups.test})
    evenly = np.linspace(0, len(others) - 1, min(FEW - len(trained), len(others))).round().astype(int)
    chosen = [others[i] for i in evenly]
    test = [length for length in others if length in groups.test][-1:]
    if test and test[0] not in chosen:
        chosen[int(np.argmin([abs(length - test[0]) for length in chosen]))] = test[0]
    return tuple(sorted({*trained, *chosen})) or tuple(sorted(known))[-FEW:]


def parse_lengths(asked: str, known: Collection[int] | None, allowed: str) -> tuple[int, ...]:
    """Return the lengths given by --lengths, ascending; raises UserError, with `allowed`, for repeated or unknown ones.

    If `known` is None, every length is allowed.
    """
    numbers = read_numbers(asked)
    if not numbers or not (known is None or set(numbers) <= set(known)):
        raise UserError(f"--lengths {asked!r}: allowed: {allowed}")
    return tuple(sorted(numbers))
