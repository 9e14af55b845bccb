"""The five verdicts of a claim: held, contradicted, no effect within a bound, undecided, or not tested and why."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.claims.members import Members
from orchestrator.claims.packed import packed_path, read_packed
from orchestrator.claims.questions import Answer, ask
from orchestrator.claims.values import ArmValues, read_arms
from orchestrator.errors import UserError
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.exact_tests import holm
from orchestrator.wording import compact_value, counted
from search_spaces import nearest_name
from search_spaces.grammar.claims import Claim, ClaimsFile

HELD, CONTRADICTED, NO_EFFECT = "held", "contradicted", "no effect"  # the last with its bound behind it
UNDECIDED, NOT_TESTED = "undecided", "not tested"
VERDICTS = (HELD, CONTRADICTED, NO_EFFECT, UNDECIDED, NOT_TESTED)
LEVEL = 0.05
SEEDS = (9, 12, 17, 24, 36, 48)  # that a sweep is asked to have


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict of one claim.

    `answer` is over the seeds that learned, `all_seeds` over all of them; `other` is the mean over all seeds of a
    difference that its median decides, or the median of one that its mean decides; `holm` is the p-value after Holm's
    correction over the tested claims of the page. `members` is None if the sweep is missing. `enough` is the number of
    seeds with values like these that would decide an undecided claim: one of SEEDS, 0 if none would, None if unknown.
    """

    claim: Claim
    verdict: str
    reason: str = ""
    members: Members | None = None
    arms: Mapping[str, ArmValues] | None = None
    answer: Answer | None = None
    all_seeds: Answer | None = None
    other: Answer | None = None
    holm: float = math.nan
    enough: int | None = None

    @property
    def words(self) -> str:
        """The verdict, with the reason if no test was made or its result is inconclusive."""
        separator = ": " if self.verdict == NOT_TESTED else " "
        return f"{self.verdict}{separator}{self.reason}" if self.reason else self.verdict

    @property
    def is_decided(self) -> bool:
        """Whether the claim was tested and the result is conclusive."""
        return self.verdict not in (UNDECIDED, NOT_TESTED)


def judge(file: ClaimsFile, members: Mapping[str, Members | str]) -> list[Judgement]:
    """Return the verdict of every judged claim; `members` has each sweep by name, or why it cannot be used.

    A claim is not tested if its control did not hold, or with too few seeds or seeds that did not learn. The others are
    held, contradicted or without effect if the whole interval says so and p is below .05 after Holm's correction (Holm,
    1979); otherwise undecided. The correction is over all claims of the file with a p, also those whose control then
    failed. Raises UserError for a claim that does not fit its sweep.
    """
    asked = []
    for claim in file.judged:
        try:
            asked.append(_ask(claim, members[claim.sweep]))
        except UserError as error:
            raise UserError(f"{file.path}: claim {claim.id}: {error}") from None
    open_ones = [one for one in asked if one.answer is not None and not one.reason]
    p_values = holm([one.answer.p if one.answer is not None else math.nan for one in open_ones])
    corrected = dict(zip((one.claim.id for one in open_ones), p_values, strict=True))
    decided: dict[str, Judgement] = {}
    for one in asked:
        decided[one.claim.id] = _decide(one, corrected.get(one.claim.id, math.nan), decided)
    return [count_enough(one, list(decided.values())) for one in decided.values()]


def group_askings(judgements: Sequence[Judgement]) -> list[list[Judgement]]:
    """Return the claims in the order of the page, each as the list of its askings, the last one last."""
    by_id = {one.claim.id: one for one in judgements}
    again = {one.claim.asked_again for one in judgements}
    askings = [[one] for one in judgements if one.claim.id not in again]
    for asking in askings:
        while (following := by_id.get(asking[-1].claim.asked_again or "")) is not None:
            asking.append(following)
    return askings


def count_verdicts(judgements: Sequence[Judgement], source: str) -> dict[str, int]:
    """Return how many claims of a source have each verdict; a claim that was asked again counts once, by the last."""
    last = [askings[-1] for askings in group_askings(judgements) if askings[-1].claim.source == source]
    return {name: count for name in VERDICTS if (count := sum(one.verdict.startswith(name) for one in last))}


def count_enough(one: Judgement, page: Sequence[Judgement]) -> Judgement:
    """Return the judgement; if undecided, with the number of seeds that would decide it, or a note if none would.

    A judgement whose claim is asked again is returned unchanged.
    """
    if one.answer is None or one.answer.ask_more is None or one.verdict != UNDECIDED:
        return one
    ask_more, more = one.answer.ask_more, [n for n in SEEDS if n > one.answer.n]
    if not more or one.claim.asked_again:
        return one
    tested = [
        other.answer.p for other in page if other is not one and other.answer is not None and not math.isnan(other.holm)
    ]

    def decide(n: int) -> bool:
        found = ask_more(n)
        return read_verdict(one.claim, found) != UNDECIDED and holm([found.p, *tested])[0] <= LEVEL

    enough = next(filter(decide, more), 0)
    reason = one.reason if enough else f"{one.reason}, as it would be after {SEEDS[-1]} seeds like these"
    return replace(one, enough=enough, reason=reason)


def _ask(claim: Claim, members: Members | str) -> Judgement:
    """Return the answer to a claim, or why there is none, before its control and Holm's correction."""
    if isinstance(members, str):
        return Judgement(claim=claim, verdict=NOT_TESTED, reason=members)
    arms = read_arms(claim, members)
    compared = [arms[name] for name in claim.compare]
    every = ask(claim, members, compared, learned_only=False)
    answer = ask(claim, members, compared, learned_only=True) if claim.learned else every
    reason = ""
    if claim.learned and answer.n < answer.needed <= every.n:
        counts = ", ".join(f"{arm.name} {arm.seeds_learned} of {arm.seeds}" for arm in compared)
        reason, answer = f"not learned ({counts} seeds)", replace(answer, effect=math.nan)
    elif answer.n < answer.needed or math.isnan(answer.low):
        few = f"{answer.n} of {max(answer.ran, answer.needed)} {answer.unit}"
        reason = answer.reason if answer.reason and answer.n >= answer.needed else few
    return Judgement(
        claim=claim,
        verdict=NOT_TESTED,
        reason=reason,
        members=members,
        arms=arms,
        answer=answer,
        all_seeds=every if claim.learned else None,
        other=_other_estimand(claim, members, compared),
    )


def _other_estimand(claim: Claim, members: Members, arms: list[ArmValues]) -> Answer | None:
    """Return the mean over all seeds of a difference that its median decides, or the median if its mean does."""
    if claim.question != "difference" or claim.unit is not None:
        return None
    statistic = None if claim.statistic == "mean" else "mean"
    other = ask(claim.model_copy(update={"statistic": statistic}), members, arms, learned_only=False)
    return None if math.isnan(other.effect) else other


def _decide(asked: Judgement, holm: float, before: Mapping[str, Judgement]) -> Judgement:
    claim, answer = asked.claim, asked.answer
    verdict, reason = NOT_TESTED, asked.reason
    control = before.get(claim.control or "")
    if control is not None and control.verdict != HELD:
        reason = f"its control {control.claim.id} is {control.verdict}"
    elif answer is not None and not reason:
        verdict = read_verdict(claim, answer)
        if verdict == UNDECIDED:
            reason = f"after {counted(answer.n, answer.unit[:-1])}"
        elif not holm <= LEVEL:
            verdict, reason = UNDECIDED, f"(p = {answer.p:.2g}, {holm:.2g} after Holm's correction)"
    return replace(asked, verdict=verdict, reason=reason, holm=holm)


def read_verdict(claim: Claim, answer: Answer) -> str:
    """Return the verdict of an interval alone, UNDECIDED if it is inconclusive."""
    low, high, null = answer.low, answer.high, answer.null
    if claim.question == "equivalence":
        least, most = null - (claim.within or 0.0), null + (claim.within or 0.0)
        if least <= low and high <= most:
            return HELD
        return CONTRADICTED if high < least or low > most else UNDECIDED
    bound = claim.no_effect_bound
    if bound is not None and -bound <= low and high <= bound:
        return f"{NO_EFFECT} within ±{compact_value(bound)}"
    smaller, larger = high < null, low > null
    if not smaller and not larger:
        return UNDECIDED
    return HELD if smaller == (claim.expect == "smaller") else CONTRADICTED


def read_sweeps(file: ClaimsFile, storage: Path) -> dict[str, Members | str]:
    """Return the finished sweeps of a claims file, from the storage folder or packed beside the file.

    A text says why a sweep cannot be used.
    """
    found: dict[str, Members | str] = {}
    for name in file.sweeps:
        folder, packed = storage / name, packed_path(file, name)
        if (folder / LEDGER_FILE).exists():
            state = SweepState.load(folder)
            if state.race is not None:
                found[name] = "the sweep was a race, in which results decided who got seeds"
            else:
                found[name] = Members(folder, state) if state.ended == "complete" else "the sweep is not finished"
        else:
            found[name] = read_packed(packed) if packed.exists() else f"the sweep was not run{_meant(file, name)}"
    return found


def _meant(file: ClaimsFile, name: str) -> str:
    """Return the sweep that a name without a file beside the claims may stand for, as a question."""
    if file.path.with_name(f"{name}.yaml").exists():
        return ""
    nearest = nearest_name(name, [path.stem for path in file.path.parent.glob("*.yaml")])
    return f"; did you mean {nearest}?" if nearest else ""
