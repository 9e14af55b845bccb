"""Which of the evaluated lengths were trained on, which were used to select configurations, and which to test them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainers.config.member import MemberConfig

FEW = 4


@dataclass(frozen=True, kw_only=True)
class LengthGroups:
    """The evaluated lengths of a configuration; `test` is beyond the trained ones and not used for selection."""

    every: tuple[int, ...]
    trained: tuple[int, ...]
    selection: tuple[int, ...]
    test: tuple[int, ...]


def length_groups(member: MemberConfig, selection: Iterable[int]) -> LengthGroups:
    """The groups of one configuration; `selection` are the lengths of the objective."""
    every, trained, chosen = tuple(member.evaluated_lengths), member.task.trained_lengths, set(selection)
    return LengthGroups(
        every=every,
        trained=tuple(length for length in every if length in trained),
        selection=tuple(sorted(chosen)),
        test=tuple(length for length in every if length > max(trained) and length not in chosen),
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
