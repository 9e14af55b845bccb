"""The four verdicts of a claim: held, contradicted, no effect within a bound, or not tested and why."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from statsmodels.stats.multitest import multipletests

from orchestrator.claims.members import Members
from orchestrator.claims.questions import Answer, ask
from orchestrator.claims.values import ArmValues, read_arms
from orchestrator.wording import compact_value, counted
from search_spaces.grammar.claims import Claim, ClaimsFile

HELD, CONTRADICTED, NOT_TESTED = "held", "contradicted", "not tested"
LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What came of one claim.

    `answer` is over the seeds that count, `all_seeds` over all of them where some do not; `holm` is the p-value after
    Holm's correction over the claims of the page that were tested. `members` is None where the sweep is not there.
    """

    claim: Claim
    verdict: str
    reason: str = ""
    members: Members | None = None
    arms: Mapping[str, ArmValues] | None = None
    answer: Answer | None = None
    all_seeds: Answer | None = None
    holm: float = math.nan

    @property
    def words(self) -> str:
        """The verdict, with its reason where nothing was tested."""
        return f"{self.verdict}: {self.reason}" if self.reason else self.verdict


def judge(file: ClaimsFile, members: Mapping[str, Members | str]) -> list[Judgement]:
    """Return what came of every claim; `members` has each sweep by name, or why it cannot be asked.

    A claim whose control did not hold is not tested, nor is one of too few seeds or of seeds that did not learn. The
    others are held, contradicted or without effect where the whole interval says so and the p-value is below .05 after
    Holm's correction (Holm, 1979); else undecided. The correction is over the claims of the file that could be asked,
    also those whose control then failed. Raises UserError for a claim that
    asks for what its sweep does not have.
    """
    asked = [_ask(claim, members[claim.sweep]) for claim in file.claims]
    open_ones = [one for one in asked if one.answer is not None and not one.reason]
    corrected = dict(zip((one.claim.id for one in open_ones), correct_by_holm(open_ones), strict=True))
    found: dict[str, Judgement] = {}
    for one in asked:
        found[one.claim.id] = _decide(one, corrected.get(one.claim.id, math.nan), found)
    return list(found.values())


def correct_by_holm(judgements: Sequence[Judgement]) -> list[float]:
    """Return the p-values after Holm's correction; NaN stays NaN and is not counted."""
    values = [one.answer.p if one.answer is not None else math.nan for one in judgements]
    known = [value for value in values if not math.isnan(value)]
    corrected = iter(multipletests(known, method="holm")[1] if known else ())
    return [math.nan if math.isnan(value) else float(next(corrected)) for value in values]


def _ask(claim: Claim, members: Members | str) -> Judgement:
    """The answer to a claim, or why there is none, before its control and the other claims are looked at."""
    if isinstance(members, str):
        return Judgement(claim=claim, verdict=NOT_TESTED, reason=members)
    arms = read_arms(claim, members)
    compared = [arms[name] for name in claim.compare]
    every = ask(claim, members, compared, learned_only=False)
    answer = ask(claim, members, compared, learned_only=True) if claim.learned else every
    reason = ""
    if claim.learned and answer.n < answer.needed <= every.n:
        counts = ", ".join(f"{arm.name} {arm.seeds_learned} of {arm.seeds}" for arm in compared)
        reason = f"not learned ({counts} seeds)"
    elif answer.n < answer.needed or math.isnan(answer.low):
        reason = f"{answer.n} of {max(answer.ran, answer.needed)} {answer.unit}"
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
            reason = f"undecided after {counted(answer.n, answer.unit[:-1])}"
        elif not holm <= LEVEL:
            verdict, reason = NOT_TESTED, f"undecided: p = {answer.p:.2g}, {holm:.2g} after Holm's correction"
    fields = {name: getattr(asked, name) for name in ("claim", "members", "arms", "answer", "all_seeds")}
    return Judgement(verdict=verdict, reason=reason, holm=holm, **fields)


def read_verdict(claim: Claim, answer: Answer) -> str:
    """What an interval says of a claim, alone: NOT_TESTED where it decides nothing."""
    low, high, null = answer.low, answer.high, answer.null
    if claim.question == "equivalence":
        least, most = null - (claim.within or 0.0), null + (claim.within or 0.0)
        if least <= low and high <= most:
            return f"no effect within ±{compact_value(claim.within)}"
        return CONTRADICTED if high < least or low > most else NOT_TESTED
    if claim.negligible is not None and -claim.negligible <= low and high <= claim.negligible:
        return f"no effect within ±{compact_value(claim.negligible)}"
    smaller, larger = high < null, low > null
    if not smaller and not larger:
        return NOT_TESTED
    return HELD if smaller == (claim.expect == "smaller") else CONTRADICTED


def read_sweeps(file: ClaimsFile, storage: Path) -> dict[str, Members | str]:
    """Return the finished sweeps of a claims file from the storage folder; a text says why one cannot be asked."""
    found: dict[str, Members | str] = {}
    for name in file.sweeps:
        folder = storage / name
        if not (folder / "events.jsonl").exists():
            found[name] = "the sweep was not run"
            continue
        members = Members(folder)
        found[name] = members if members.state.ended == "complete" else "the sweep is not finished"
    return found
