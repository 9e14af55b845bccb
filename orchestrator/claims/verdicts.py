"""Judge the claims of a file by their sweeps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.claims.answers import answer_question
from orchestrator.claims.archive import locate_archive, read_archive
from orchestrator.claims.arm_values import ArmValues, compute_arms
from orchestrator.claims.judgement import (
    CONTRADICTED,
    CONTROL_FAILED,
    HELD,
    MIXED,
    NO_EFFECT,
    NOT_LEARNED,
    NOT_TESTED,
    SIGNIFICANCE_LEVEL,
    SUGGESTED_SEEDS,
    UNDECIDED,
    VERDICTS,
    Judgement,
)
from orchestrator.claims.repeated_tests import find_judged_test, find_poolable_tests, group_tests, pool_arms
from orchestrator.claims.seed_tests import Answer
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.exact_tests import correct_by_holm
from orchestrator.text.wording import compact_value, format_count
from search_spaces import find_nearest_name
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
    return decide_verdicts([_pool_tests(tests) for tests in group_tests(judgements)], file)


def decide_verdicts(groups: Sequence[Sequence[Judgement]], file: ClaimsFile) -> list[Judgement]:
    """Return the judgements in the order of the file; each group has the tests of a claim, the judged one last.

    A claim is not tested if its control did not hold, or if too few seeds ran or learned. Other claims are held,
    contradicted or without effect if the interval says so and p is below .05 after Holm's correction (Holm, 1979), else
    undecided. The correction is over every claim that was ever asked on the page: p is 1 for claims that are not
    tested, not run or removed, and for all tests except the judged one.
    """
    # Only the judged test of each group can be tested; the others get its verdict.
    judged = {tests[-1].claim.id: tests[-1] for tests in groups}
    judged_ids = {test.claim.id: tests[-1].claim.id for tests in groups for test in tests}
    tested_ids = {
        claim_id for claim_id, judgement in judged.items() if judgement.answer is not None and not judgement.reason
    }

    # A claim whose control fails gets p = 1, which changes the corrected p-values of others; repeat until none fails.
    while True:
        p_values = [_get_p_value(judged[claim.id]) if claim.id in tested_ids else 1.0 for claim in file.claims]
        p_values += [1.0] * (file.family - len(file.claims))  # of removed claims
        corrected_p = {
            claim.id: p
            for claim, p in zip(file.claims, correct_by_holm(p_values), strict=False)
            if claim.id in tested_ids
        }
        decided: dict[str, Judgement] = {}
        for claim_id in judged:
            _decide_test(claim_id, judged, judged_ids, corrected_p, decided)
        untested_ids = {claim_id for claim_id in tested_ids if decided[claim_id].verdict == NOT_TESTED}
        if not untested_ids:
            break
        tested_ids -= untested_ids

    # More seeds mean a further test of the claim, which enlarges the family by one.
    page = list(decided.values())
    family = file.family + 1
    decided = {claim_id: add_seeds_needed(judgement, page, family) for claim_id, judgement in decided.items()}

    # All tests of a group get its verdict.
    by_id = {test.claim.id: test for tests in groups for test in tests}
    for claim_id, judged_id in judged_ids.items():
        judgement = decided[judged_id]
        is_judged = claim_id == judged_id
        by_id[claim_id] = judgement if is_judged else replace(by_id[claim_id], verdict=judgement.verdict, reason="")
    return [by_id[claim.id] for claim in file.claims]


def count_verdicts(judgements: Sequence[Judgement], source: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many claims of a source have each verdict, and how many tests; a repeated test counts once.

    Claims that are the same (`same_as`) count once: by the verdict that all of their tests share, apart from tests that
    were not run, else as mixed.
    """
    claims: dict[str, list[str]] = {}
    for tests in group_tests(judgements):
        first, last = tests[0].claim, tests[-1]
        if last.claim.source == source:
            # A verdict of no effect is followed by its bound.
            verdict = next(verdict for verdict in VERDICTS if last.verdict.startswith(verdict))
            claims.setdefault(first.same_as or first.id, []).append(verdict)

    by_claim = [set(verdicts) - {NOT_TESTED} or {NOT_TESTED} for verdicts in claims.values()]
    return (
        _count([verdicts.pop() if len(verdicts) == 1 else MIXED for verdicts in by_claim]),
        _count([verdict for verdicts in claims.values() for verdict in verdicts]),
    )


def _count(verdicts: Sequence[str]) -> dict[str, int]:
    """Return the number of each verdict that occurs, in the order of VERDICTS."""
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def add_seeds_needed(judgement: Judgement, page: Sequence[Judgement], family: int) -> Judgement:
    """Return the judgement; if undecided, with the number of seeds that would decide it, or a note if none would.

    `page` are the judgements of the page, `family` is the number of tests in Holm's correction. Claims that were asked
    again are unchanged.
    """
    # Only an undecided claim that was asked once can still be decided by more seeds.
    if judgement.answer is None or judgement.answer.extrapolate is None or judgement.verdict != UNDECIDED:
        return judgement
    extrapolate = judgement.answer.extrapolate
    larger_counts = [n for n in SUGGESTED_SEEDS if n > judgement.answer.n]
    if not larger_counts or judgement.claim.asked_again:
        return judgement

    # Assume that the p-values of the other claims stay as they are; 1 for those that are not tested.
    other_p_values = [
        _get_p_value(other) for other in page if other.claim.id != judgement.claim.id and not math.isnan(other.holm_p)
    ]
    other_p_values += [1.0] * (family - 1 - len(other_p_values))

    def is_decisive(n: int) -> bool:
        answer = extrapolate(n)
        return (
            judge_interval(judgement.claim, answer) != UNDECIDED
            and correct_by_holm([answer.p, *other_p_values])[0] <= SIGNIFICANCE_LEVEL
        )

    # The smallest suggested number that decides it; 0 without any.
    seeds_needed = next(filter(is_decisive, larger_counts), 0)
    note = "" if seeds_needed else f"; {SUGGESTED_SEEDS[-1]} like these would not decide it"
    return replace(judgement, seeds_needed=seeds_needed, reason=f"{judgement.reason}{note}")


def _get_p_value(judgement: Judgement) -> float:
    """Return the p-value of an answer before Holm's correction; 1 without an answer."""
    return 1.0 if judgement.answer is None or math.isnan(judgement.answer.p) else judgement.answer.p


def _pool_tests(tests: Sequence[Judgement]) -> list[Judgement]:
    """Return the tests of a claim with the judged one last: the last that was run, with pooled seeds."""
    last_test = find_judged_test(tests)
    pooled_tests = find_poolable_tests(tests[: tests.index(last_test) + 1])

    # The answer is over all their seeds, but the shown arms belong to the last test.
    if len(pooled_tests) > 1 and last_test.sweep is not None:
        judged = _answer_claim(last_test.claim, last_test.sweep, pool_arms(pooled_tests))
        pooled_ids = tuple(judgement.claim.id for judgement in pooled_tests)
        judged = replace(judged, arms=last_test.arms, pooled=pooled_ids, unpooled_answer=last_test.answer)
    else:
        judged = last_test
    return [*(judgement for judgement in tests if judgement is not last_test), judged]


def _judge_claim(claim: Claim, sweep: SweepCurves | str) -> Judgement:
    """Return the judgement of a claim before its control and Holm's correction."""
    if isinstance(sweep, str):
        return Judgement(claim=claim, verdict=NOT_TESTED, reason=sweep)
    return _answer_claim(claim, sweep, compute_arms(claim, sweep))


def _answer_claim(claim: Claim, sweep: SweepCurves, arms: Mapping[str, ArmValues]) -> Judgement:
    """Return the judgement of a claim by these arms, before its control and Holm's correction."""
    compared_arms = [arms[name] for name in claim.compare]
    answer = answer_question(claim, sweep, compared_arms, learned_only=False)
    learned_answer = answer_question(claim, sweep, compared_arms, learned_only=True) if claim.learned else None

    # Few learned seeds say little about the task, so their effect is not shown.
    reason = ""
    if learned_answer is not None and learned_answer.n < learned_answer.n_needed <= answer.n:
        counts = ", ".join(f"{arm.name} {arm.seeds_learned} of {arm.seeds}" for arm in compared_arms)
        reason = f"{NOT_LEARNED} ({counts} seeds)"
        answer = replace(answer, effect=math.nan)
    elif answer.n < answer.n_needed or math.isnan(answer.low):
        too_few = f"{answer.n} of {max(answer.n_trained, answer.n_needed)} {answer.unit}"
        reason = answer.reason if answer.reason and answer.n >= answer.n_needed else too_few
    return Judgement(
        claim=claim,
        verdict=NOT_TESTED,
        reason=reason,
        sweep=sweep,
        arms=arms,
        answer=answer,
        learned_answer=learned_answer,
        measured_answer=_answer_as_measured(claim, sweep, compared_arms, answer),
        other_statistic_answer=None
        if reason.startswith(NOT_LEARNED)
        else _answer_with_other_statistic(claim, sweep, compared_arms),
    )


def _answer_as_measured(claim: Claim, sweep: SweepCurves, arms: list[ArmValues], answer: Answer) -> Answer | None:
    """Return the answer with the values of unlearned seeds as measured; None if it equals `answer`.

    Failed seeds still count as the worst value. None for other questions than differences.
    """
    if claim.question != "difference" or not claim.learned:
        return None
    # Only values of unlearned seeds are replaced by the worst, so call all measured seeds learned.
    measured_arms = [replace(arm, is_learned=arm.is_learned | arm.values.notna()) for arm in arms]
    measured = answer_question(claim, sweep, measured_arms, learned_only=False)
    return measured if (measured.effect, measured.low) != (answer.effect, answer.low) else None


def _answer_with_other_statistic(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer | None:
    """Return the mean over seeds of a difference that the median decides, or vice versa; None for other questions."""
    if claim.question != "difference" or claim.unit is not None:
        return None
    statistic = None if claim.statistic == "mean" else "mean"
    other = answer_question(claim.model_copy(update={"statistic": statistic}), sweep, arms, learned_only=False)
    return None if math.isnan(other.effect) else other


def _decide_test(
    claim_id: str,
    judged: Mapping[str, Judgement],
    judged_ids: Mapping[str, str],
    corrected_p: Mapping[str, float],
    decided: dict[str, Judgement],
) -> Judgement:
    """Decide a judged test after its control; add both judgements to `decided` and return the test's."""
    # Enter the claim before its control is decided, because controls may refer to each other.
    if claim_id in decided:
        return decided[claim_id]
    decided[claim_id] = judgement = judged[claim_id]
    holm_p = corrected_p.get(claim_id, math.nan)
    claim = judgement.claim
    answer = judgement.answer
    verdict = NOT_TESTED
    reason = judgement.reason
    control_id = judged_ids.get(claim.control or "")
    control = None
    if control_id not in (None, claim_id):
        control = _decide_test(control_id, judged, judged_ids, corrected_p, decided)

    # A claim whose control failed is not tested; a conclusive interval needs a small p-value as well.
    if control is not None and control.verdict != HELD:
        reason = f"{CONTROL_FAILED} {claim.control} is {control.verdict}"
    elif answer is not None and not reason:
        verdict = judge_interval(claim, answer)
        if verdict == UNDECIDED:
            reason = f"after {format_count(answer.n, answer.unit[:-1])}"
        elif not holm_p <= SIGNIFICANCE_LEVEL:
            verdict = UNDECIDED
            reason = f"(p = {answer.p:.2g}, {holm_p:.2g} after Holm's correction)"
    decided[claim_id] = replace(judgement, verdict=verdict, reason=reason, holm_p=holm_p)
    return decided[claim_id]


def judge_interval(claim: Claim, answer: Answer) -> str:
    """Return the verdict of an interval without its p-value; UNDECIDED if it is inconclusive."""
    low, high, null = answer.low, answer.high, answer.null
    if claim.question == "equivalence":
        lower = null - (claim.within or 0.0)
        upper = null + (claim.within or 0.0)
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


def read_tested_sweeps(file: ClaimsFile, storage: Path) -> dict[str, SweepCurves | str]:
    """Return the finished sweeps of a claims file by name, from the storage folder or archived beside the file.

    The value of a sweep that cannot be used is the reason as text.
    """
    sweeps: dict[str, SweepCurves | str] = {}
    for name in file.sweeps:
        # The folder takes precedence over archived results, which may be older.
        folder, archive = storage / name, locate_archive(file, name)
        if (folder / LEDGER_FILE).exists():
            state = SweepState.load(folder)
            if state.race is not None:
                sweeps[name] = "the sweep was a race, in which results decided who got seeds"
            else:
                sweeps[name] = (
                    SweepCurves(folder, state) if state.end_status == "complete" else "the sweep is not finished"
                )
        else:
            sweeps[name] = (
                read_archive(archive) if archive.exists() else f"the sweep was not run{_suggest_sweep(file, name)}"
            )
    return sweeps


def _suggest_sweep(file: ClaimsFile, name: str) -> str:
    """Return a hint to a sweep file with a similar name; empty if the sweep has a file."""
    if file.path.with_name(f"{name}.yaml").exists():
        return ""
    nearest = find_nearest_name(name, [path.stem for path in file.path.parent.glob("*.yaml")])
    return f"; did you mean {nearest}?" if nearest else ""
