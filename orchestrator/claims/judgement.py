"""The verdict of a claim: held, contradicted, no effect within a bound, undecided, or not tested."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.claims.arm_values import ArmValues
from orchestrator.claims.seed_tests import Answer
from orchestrator.claims.sweep_curves import SweepCurves
from search_spaces.grammar.claims import Claim

HELD = "held"
CONTRADICTED = "contradicted"
NO_EFFECT = "no effect"  # followed by its bound
UNDECIDED = "undecided"
NOT_TESTED = "not tested"

# The first words of reasons of NOT_TESTED.
NOT_LEARNED = "not learned"
CONTROL_FAILED = "its control"
MIXED = "mixed"  # of a claim whose tests have different verdicts
VERDICTS = (HELD, CONTRADICTED, NO_EFFECT, UNDECIDED, MIXED, NOT_TESTED)
SIGNIFICANCE_LEVEL = 0.05
SUGGESTED_SEEDS = (9, 12, 17, 24, 36, 48)  # numbers of seeds that may be suggested


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict of a claim with the answers behind it. All tests of a claim have the same verdict."""

    claim: Claim
    verdict: str
    reason: str = ""
    sweep: SweepCurves | None = None  # None if the sweep is missing
    arms: Mapping[str, ArmValues] | None = None
    answer: Answer | None = None  # over all seeds; the only answer that decides
    learned_answer: Answer | None = None  # over the seeds that learned the task
    measured_answer: Answer | None = None  # over all seeds, with the values of unlearned ones as measured
    other_statistic_answer: Answer | None = None  # the mean of a difference that the median decides, or vice versa
    holm_p: float = math.nan  # the p-value after Holm's correction over all claims of the page
    # The number of seeds with values like these that would decide an undecided claim: one of SUGGESTED_SEEDS, 0 if none
    # would, None if unknown.
    seeds_needed: int | None = None
    pooled: tuple[str, ...] = ()  # the ids of the tests whose seeds the judged test pools
    unpooled_answer: Answer | None = None  # of a judged test that pools: the answer over its own seeds

    @property
    def verdict_text(self) -> str:
        """The verdict with its reason, if there is one."""
        separator = ": " if self.verdict == NOT_TESTED else " "
        return f"{self.verdict}{separator}{self.reason}" if self.reason else self.verdict

    @property
    def is_decided(self) -> bool:
        """Whether the claim was tested and the result is conclusive."""
        return self.verdict not in (UNDECIDED, NOT_TESTED)
