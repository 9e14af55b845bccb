"""Judge the claims of a file by their sweeps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.claims.askings import find_poolable, group_askings, pool_arms
from orchestrator.claims.judgement import (
    CONTRADICTED,
    HELD,
    NO_EFFECT,
    NOT_LEARNED,
    NOT_TESTED,
    SIGNIFICANCE_LEVEL,
    SUGGESTED_SEEDS,
    UNDECIDED,
    VERDICTS,
    Judgement,
)
from orchestrator.claims.packed import locate_packed, read_packed
from orchestrator.claims.questions import Answer, ask
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.values import ArmValues, read_arms
from orchestrator.errors import UserError
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.exact_tests import correct_by_holm
from orchestrator.text.wording import compact_value, counted
from search_spaces import nearest_name
from search_spaces.grammar.claims import Claim, ClaimsFile


def judge(file: ClaimsFile, sweeps: Mapping[str, SweepCurves | str]) -> list[Judgement]:
    """Return the judgement of every claim; `sweeps` has each sweep by name, or the reason why it cannot be used.

    Raises UserError for a claim that does not fit its sweep.
    """
    judgements = []
    for claim in file.claims:
        try:
            judgements.append(_judge_claim(claim, sweeps[claim.sweep]))
        except UserError as error:
            raise UserError(f"{file.path}: claim {claim.id}: {error}") from None
    return decide_verdicts([_pool_askings(askings) for askings in group_askings(judgements)], file)


def decide_verdicts(rows: Sequence[Sequence[Judgement]], file: ClaimsFile) -> list[Judgement]:
    """Return the judgements in the order of the file; each row has the askings of a claim, the judged one last.

    A claim is not tested if its control did not hold, or if too few seeds ran or learned. Other claims are held,
    contradicted or without effect if the interval says so and p is below .05 after Holm's correction (Holm, 1979), else
    undecided. The correction is over every claim that was ever asked on the page: p is 1 for claims that are not
    tested, not run or removed, and for all askings except the judged one.
    """
    # Take the judged asking of each row, and the rows with an answer.
    judged = {row[-1].claim.id: row[-1] for row in rows}
    row_of = {judgement.claim.id: row[-1].claim.id for row in rows for judgement in row}
    tested = {name for name, judgement in judged.items() if judgement.answer is not None and not judgement.reason}

    # Decide by corrected p-values; repeat until no further claim is untested because its control failed.
    while True:
        p_values = [_read_p_value(judged[claim.id]) if claim.id in tested else 1.0 for claim in file.claims]
        p_values += [1.0] * (file.family - len(file.claims))  # of removed claims
        corrected = {
            claim.id: p for claim, p in zip(file.claims, correct_by_holm(p_values), strict=False) if claim.id in tested
        }
        decided: dict[str, Judgement] = {}
        for name in judged:
            _decide_row(name, judged, row_of, corrected, decided)
        untested = {name for name in tested if decided[name].verdict == NOT_TESTED}
        if not untested:
            break
        tested -= untested

    # Count the seeds that would decide undecided claims, and give all askings of a row its verdict.
    family = file.family + 1  # with a further asking
    decided = {name: add_seeds_needed(judgement, list(decided.values()), family) for name, judgement in decided.items()}
    by_id = {judgement.claim.id: judgement for row in rows for judgement in row}
    for name, row_name in row_of.items():
        row = decided[row_name]
        by_id[name] = row if name == row_name else replace(by_id[name], verdict=row.verdict, reason="")
    return [by_id[claim.id] for claim in file.claims]


def count_verdicts(judgements: Sequence[Judgement], source: str) -> dict[str, int]:
    """Return how many claims of a source have each verdict; the askings of a claim count once, by the last."""
    last = [askings[-1] for askings in group_askings(judgements) if askings[-1].claim.source == source]
    return {
        name: count for name in VERDICTS if (count := sum(judgement.verdict.startswith(name) for judgement in last))
    }


def add_seeds_needed(judgement: Judgement, page: Sequence[Judgement], family: int) -> Judgement:
    """Return the judgement; an undecided one with the number of seeds that would decide it, or a note if none would.

    `page` are the judgements of the page, `family` is the number of its claims. Claims that were asked again are
    unchanged.
    """
    if judgement.answer is None or judgement.answer.ask_more is None or judgement.verdict != UNDECIDED:
        return judgement

    # Try the numbers of SUGGESTED_SEEDS that are larger than today's.
    ask_more, larger_counts = judgement.answer.ask_more, [n for n in SUGGESTED_SEEDS if n > judgement.answer.n]
    if not larger_counts or judgement.claim.asked_again:
        return judgement

    # The p-values of the other claims stay as they are.
    tested = [
        _read_p_value(other) for other in page if other.claim.id != judgement.claim.id and not math.isnan(other.holm_p)
    ]
    untested = [1.0] * (family - 1 - len(tested))

    def decide(n: int) -> bool:
        answer = ask_more(n)
        return (
            read_verdict(judgement.claim, answer) != UNDECIDED
            and correct_by_holm([answer.p, *tested, *untested])[0] <= SIGNIFICANCE_LEVEL
        )

    # Note it if even the largest number would not decide the claim.
    seeds_needed = next(filter(decide, larger_counts), 0)
    note = "" if seeds_needed else f"; {SUGGESTED_SEEDS[-1]} like these would not decide it"
    return replace(judgement, seeds_needed=seeds_needed, reason=f"{judgement.reason}{note}")


def _read_p_value(judgement: Judgement) -> float:
    """Return the p-value of an answer before Holm's correction; 1 without an answer."""
    return 1.0 if judgement.answer is None or math.isnan(judgement.answer.p) else judgement.answer.p


def _pool_askings(askings: Sequence[Judgement]) -> list[Judgement]:
    """Return the askings of a claim with the judged one last: the last that was run, with pooled seeds."""
    # Find the last asking that was run, and the earlier ones that asked the same.
    last = next((asking for asking in reversed(askings) if asking.sweep is not None), askings[-1])
    pooled = find_poolable(askings[: askings.index(last) + 1])

    # Answer over all their seeds; the arms that are shown stay those of the last asking.
    if len(pooled) > 1 and last.sweep is not None:
        judged = _answer_claim(last.claim, last.sweep, pool_arms(pooled))
        names = tuple(judgement.claim.id for judgement in pooled)
        judged = replace(judged, arms=last.arms, pooled=names, own_answer=last.answer)
    else:
        judged = last
    return [*(judgement for judgement in askings if judgement is not last), judged]


def _judge_claim(claim: Claim, sweep: SweepCurves | str) -> Judgement:
    """Return the judgement of a claim before its control and Holm's correction."""
    if isinstance(sweep, str):
        return Judgement(claim=claim, verdict=NOT_TESTED, reason=sweep)
    return _answer_claim(claim, sweep, read_arms(claim, sweep))


def _answer_claim(claim: Claim, sweep: SweepCurves, arms: Mapping[str, ArmValues]) -> Judgement:
    """Return the judgement of a claim by these arms, before its control and Holm's correction."""
    # Answer over all seeds, and over those that learned.
    compared = [arms[name] for name in claim.compare]
    answer = ask(claim, sweep, compared, learned_only=False)
    learned_answer = ask(claim, sweep, compared, learned_only=True) if claim.learned else None

    # Give a reason, and no effect, if it cannot be tested: too few seeds learned, or too few ran.
    reason = ""
    if learned_answer is not None and learned_answer.n < learned_answer.needed <= answer.n:
        counts = ", ".join(f"{arm.name} {arm.seeds_learned} of {arm.seeds}" for arm in compared)
        reason, answer = f"{NOT_LEARNED} ({counts} seeds)", replace(answer, effect=math.nan)
    elif answer.n < answer.needed or math.isnan(answer.low):
        too_few = f"{answer.n} of {max(answer.ran, answer.needed)} {answer.unit}"
        reason = answer.reason if answer.reason and answer.n >= answer.needed else too_few
    return Judgement(
        claim=claim,
        verdict=NOT_TESTED,
        reason=reason,
        sweep=sweep,
        arms=arms,
        answer=answer,
        learned_only=learned_answer,
        measured=_ask_as_measured(claim, sweep, compared, answer),
        other_statistic=None if reason.startswith(NOT_LEARNED) else _ask_other_statistic(claim, sweep, compared),
    )


def _ask_as_measured(claim: Claim, sweep: SweepCurves, arms: list[ArmValues], answer: Answer) -> Answer | None:
    """Return the answer with the values of unlearned seeds as measured; None if it equals `answer`.

    Failed seeds still count as the worst value. None for other questions than differences.
    """
    if claim.question != "difference" or not claim.learned:
        return None
    measured_arms = [replace(arm, learned=arm.learned | arm.values.notna()) for arm in arms]
    measured = ask(claim, sweep, measured_arms, learned_only=False)
    return measured if (measured.effect, measured.low) != (answer.effect, answer.low) else None


def _ask_other_statistic(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer | None:
    """Return the mean over seeds of a difference that the median decides, or vice versa; None for other questions."""
    if claim.question != "difference" or claim.unit is not None:
        return None
    statistic = None if claim.statistic == "mean" else "mean"
    other = ask(claim.model_copy(update={"statistic": statistic}), sweep, arms, learned_only=False)
    return None if math.isnan(other.effect) else other


def _decide_row(
    name: str,
    judged: Mapping[str, Judgement],
    row_of: Mapping[str, str],
    corrected: Mapping[str, float],
    decided: dict[str, Judgement],
) -> Judgement:
    """Return the judgement of a row, after that of its control's row, and add both to `decided`."""
    # Enter the row before its control is decided, because controls may refer to each other.
    if name in decided:
        return decided[name]
    decided[name] = judgement = judged[name]
    holm_p = corrected.get(name, math.nan)
    claim, answer, verdict, reason = judgement.claim, judgement.answer, NOT_TESTED, judgement.reason
    control_row = row_of.get(claim.control or "")
    control = None if control_row in (None, name) else _decide_row(control_row, judged, row_of, corrected, decided)

    # Decide by the control, then by the interval, then by the corrected p-value.
    if control is not None and control.verdict != HELD:
        reason = f"its control {claim.control} is {control.verdict}"
    elif answer is not None and not reason:
        verdict = read_verdict(claim, answer)
        if verdict == UNDECIDED:
            reason = f"after {counted(answer.n, answer.unit[:-1])}"
        elif not holm_p <= SIGNIFICANCE_LEVEL:
            verdict, reason = UNDECIDED, f"(p = {answer.p:.2g}, {holm_p:.2g} after Holm's correction)"
    decided[name] = replace(judgement, verdict=verdict, reason=reason, holm_p=holm_p)
    return decided[name]


def read_verdict(claim: Claim, answer: Answer) -> str:
    """Return the verdict of an interval without its p-value; UNDECIDED if it is inconclusive."""
    low, high, null = answer.low, answer.high, answer.null
    if claim.question == "equivalence":
        lower, upper = null - (claim.within or 0.0), null + (claim.within or 0.0)
        if lower <= low and high <= upper:
            return HELD
        return CONTRADICTED if high < lower or low > upper else UNDECIDED

    # An interval within the bound of no effect has no direction, even if it excludes the null.
    bound = claim.no_effect_bound
    if bound is not None and -bound <= low and high <= bound:
        return f"{NO_EFFECT} within ±{compact_value(bound)}"
    is_smaller, is_larger = high < null, low > null
    if not is_smaller and not is_larger:
        return UNDECIDED
    return HELD if is_smaller == (claim.expect == "smaller") else CONTRADICTED


def read_sweeps(file: ClaimsFile, storage: Path) -> dict[str, SweepCurves | str]:
    """Return the finished sweeps of a claims file by name, from the storage folder or packed beside the file.

    A sweep that cannot be used is replaced by the reason as text.
    """
    sweeps: dict[str, SweepCurves | str] = {}
    for name in file.sweeps:
        # The folder takes precedence over packed results, which may be older.
        folder, packed = storage / name, locate_packed(file, name)
        if (folder / LEDGER_FILE).exists():
            state = SweepState.load(folder)
            if state.race is not None:
                sweeps[name] = "the sweep was a race, in which results decided who got seeds"
            else:
                sweeps[name] = SweepCurves(folder, state) if state.ended == "complete" else "the sweep is not finished"
        else:
            sweeps[name] = (
                read_packed(packed) if packed.exists() else f"the sweep was not run{_suggest_sweep(file, name)}"
            )
    return sweeps


def _suggest_sweep(file: ClaimsFile, name: str) -> str:
    """Return a hint at a sweep with a similar name, if there is no file of this name; else empty."""
    if file.path.with_name(f"{name}.yaml").exists():
        return ""
    nearest = nearest_name(name, [path.stem for path in file.path.parent.glob("*.yaml")])
    return f"; did you mean {nearest}?" if nearest else ""
