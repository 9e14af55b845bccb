"""The five verdicts of a claim: held, contradicted, no effect within a bound, undecided, or not tested and why."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.claims.members import SweepCurves
from orchestrator.claims.questions import Answer
from orchestrator.claims.values import ArmValues
from search_spaces.grammar.claims import Claim

HELD, CONTRADICTED, NO_EFFECT = "held", "contradicted", "no effect"  # the last with its bound behind it
UNDECIDED, NOT_TESTED = "undecided", "not tested"
NOT_LEARNED = "not learned"  # the beginning of a reason
VERDICTS = (HELD, CONTRADICTED, NO_EFFECT, UNDECIDED, NOT_TESTED)
LEVEL = 0.05
SEEDS = (9, 12, 17, 24, 36, 48)  # that a sweep is asked to have


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict of one claim.

    `answer` is over all seeds and decides. Two others decide nothing: `learned_only` is over the seeds that learned the
    task, `measured` over all with the values of unlearned ones as measured. `other` is the mean over all seeds of a
    difference that its median decides, or the median of one that its mean decides; `holm` is the p-value after Holm's
    correction over all claims of the page. `members` is None if the sweep is missing. `enough` is the number of seeds
    with values like these that would decide an undecided claim: one of SEEDS, 0 if none would, None if unknown.

    All askings of a claim have one verdict. That of the asking that was judged has `pooled`: the ids of the askings
    whose seeds `answer` is over, and `alone`, the answer of its own seeds, if there are several.
    """

    claim: Claim
    verdict: str
    reason: str = ""
    members: SweepCurves | None = None
    arms: Mapping[str, ArmValues] | None = None
    answer: Answer | None = None
    learned_only: Answer | None = None
    measured: Answer | None = None
    other: Answer | None = None
    holm: float = math.nan
    enough: int | None = None
    pooled: tuple[str, ...] = ()
    alone: Answer | None = None

    @property
    def words(self) -> str:
        """The verdict, with the reason if no test was made or its result is inconclusive."""
        separator = ": " if self.verdict == NOT_TESTED else " "
        return f"{self.verdict}{separator}{self.reason}" if self.reason else self.verdict

    @property
    def is_decided(self) -> bool:
        """Whether the claim was tested and the result is conclusive."""
        return self.verdict not in (UNDECIDED, NOT_TESTED)
