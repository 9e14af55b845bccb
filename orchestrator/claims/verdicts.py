"""The four verdicts of a claim: held, contradicted, no effect within a bound, or not tested and why."""

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

HELD, CONTRADICTED, NOT_TESTED = "held", "contradicted", "not tested"
UNDECIDED = "undecided"  # how the reason begins if the result is inconclusive
LEVEL = 0.05
SEEDS = (9, 12, 17, 24, 36, 48)  # that a sweep is asked to have


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict of one claim.

    `answer` is over the seeds that learned, `all_seeds` over all of them; `holm` is the p-value after Holm's correction
    over the tested claims of the page. `members` is None if the sweep is missing. `enough` is the number of
    seeds with values like these that would decide an undecided claim: one of SEEDS, 0 if none would, None if unknown.
    """

    claim: Claim
    verdict: str
    reason: str = ""
    members: Members | None = None
    arms: Mapping[str, ArmValues] | None = None
    answer: Answer | None = None
    all_seeds: Answer | None = None
    holm: float = math.nan
    enough: int | None = None

    @property
    def words(self) -> str:
        """The verdict, with the reason if it is NOT_TESTED: no test was made, or its result is inconclusive."""
        return f"{self.verdict}: {self.reason}" if self.reason else self.verdict


def judge(file: ClaimsFile, members: Mapping[str, Members | str]) -> list[Judgement]:
    """Return the verdict of every claim; `members` has each sweep by name, or the reason why it cannot be used.

    A claim is not tested if its control did not hold, or with too few seeds or seeds that did not learn. The others are
    held, contradicted or without effect if the whole interval says so and p is below .05 after Holm's correction (Holm,
    1979); otherwise undecided. The correction is over all claims of the file with a p, also those whose control then
    failed. Raises UserError for a claim that does not fit its sweep.
    """
    asked = []
    for claim in file.claims:
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
    return [_name_repetition(count_enough(one, list(decided.values()))) for one in decided.values()]


def count_enough(one: Judgement, page: Sequence[Judgement]) -> Judgement:
    """Return the judgement; if undecided, with the number of seeds that would decide it, or a note if none would.

    A judgement whose claim is asked again is returned unchanged.
    """
    if one.answer is None or one.answer.ask_more is None or not one.reason.startswith(UNDECIDED):
        return one
    ask_more, more = one.answer.ask_more, [n for n in SEEDS if n > one.answer.n]
    if not more or one.claim.asked_again:
        return one
    tested = [
        other.answer.p for other in page if other is not one and other.answer is not None and not math.isnan(other.holm)
    ]

    def decide(n: int) -> bool:
        found = ask_more(n)
        return read_verdict(one.claim, found) != NOT_TESTED and holm([found.p, *tested])[0] <= LEVEL

    enough = next(filter(decide, more), 0)
    reason = one.reason if enough else f"{one.reason}, as it would be after {SEEDS[-1]} seeds like these"
    return replace(one, enough=enough, reason=reason)


def _name_repetition(one: Judgement) -> Judgement:
    """Return the judgement; if it is NOT_TESTED, its reason names the claim that asks it again."""
    again = one.claim.asked_again
    return replace(one, reason=f"{one.reason}; asked again: {again}") if again and one.verdict == NOT_TESTED else one


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
    )


def _decide(asked: Judgement, holm: float, before: Mapping[str, Judgement]) -> Judgement:
    claim, answer = asked.claim, asked.answer
    verdict, reason = NOT_TESTED, asked.reason
    control = before.get(claim.control or "")
    if control is not None and control.verdict != HELD:
        reason = f"its control {control.claim.id} is {control.verdict}"
    elif answer is not None and not reason:
        verdict = read_verdict(claim, answer)
        if verdict == NOT_TESTED:
            reason = f"{UNDECIDED} after {counted(answer.n, answer.unit[:-1])}"
        elif not holm <= LEVEL:
            verdict, reason = NOT_TESTED, f"{UNDECIDED}: p = {answer.p:.2g}, {holm:.2g} after Holm's correction"
    return replace(asked, verdict=verdict, reason=reason, holm=holm)


def read_verdict(claim: Claim, answer: Answer) -> str:
    """Return the verdict of an interval alone, NOT_TESTED if it is inconclusive."""
    low, high, null = answer.low, answer.high, answer.null
    if claim.question == "equivalence":
        least, most = null - (claim.within or 0.0), null + (claim.within or 0.0)
        if least <= low and high <= most:
            return HELD
        return CONTRADICTED if high < least or low > most else NOT_TESTED
    if claim.negligible is not None and -claim.negligible <= low and high <= claim.negligible:
        return f"no effect within ±{compact_value(claim.negligible)}"
    smaller, larger = high < null, low > null
    if not smaller and not larger:
        return NOT_TESTED
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
