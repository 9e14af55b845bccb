"""Judge the claims of a file by their sweeps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.claims.askings import find_poolable, group_askings, pool_arms
from orchestrator.claims.judgement import (
    CONTRADICTED,
    HELD,
    LEVEL,
    NO_EFFECT,
    NOT_LEARNED,
    NOT_TESTED,
    SEEDS,
    UNDECIDED,
    VERDICTS,
    Judgement,
)
from orchestrator.claims.packed import packed_path, read_packed
from orchestrator.claims.questions import Answer, ask
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.values import ArmValues, read_arms
from orchestrator.errors import UserError
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.exact_tests import holm
from orchestrator.text.wording import compact_value, counted
from search_spaces import nearest_name
from search_spaces.grammar.claims import Claim, ClaimsFile


def judge(file: ClaimsFile, sweeps: Mapping[str, SweepCurves | str]) -> list[Judgement]:
    """Return the judgement of every claim; `sweeps` has each sweep by name, or why it cannot be used.

    Raises UserError for a claim that does not fit its sweep.
    """
    asked = []
    for claim in file.claims:
        try:
            asked.append(_ask(claim, sweeps[claim.sweep]))
        except UserError as error:
            raise UserError(f"{file.path}: claim {claim.id}: {error}") from None
    return settle([_pool(askings) for askings in group_askings(asked)], file)


def settle(rows: Sequence[Sequence[Judgement]], file: ClaimsFile) -> list[Judgement]:
    """Return the judgements in the order of the file; each row has the askings of a claim, the judged one last.

    A claim is not tested if its control did not hold, or if too few seeds ran or learned. Other claims are held,
    contradicted or without effect if the interval says so and p is below .05 after Holm's correction (Holm, 1979), else
    undecided. The correction is over every claim that was ever asked on the page: p is 1 for claims that are not
    tested, not run or removed, and for all askings except the judged one.
    """
    # The judged asking of each row, and the rows with an answer.
    judged = {row[-1].claim.id: row[-1] for row in rows}
    row_of = {judgement.claim.id: row[-1].claim.id for row in rows for judgement in row}
    tested = {name for name, judgement in judged.items() if judgement.answer is not None and not judgement.reason}

    # Decide by corrected p-values, until no control that did not hold leaves further claims untested.
    while True:
        p_values = [_p(judged[claim.id]) if claim.id in tested else 1.0 for claim in file.claims]
        p_values += [1.0] * (file.family - len(file.claims))  # of removed claims
        corrected = {claim.id: p for claim, p in zip(file.claims, holm(p_values), strict=False) if claim.id in tested}
        decided: dict[str, Judgement] = {}
        for name in judged:
            _decide(name, judged, row_of, corrected, decided)
        untested = {name for name in tested if decided[name].verdict == NOT_TESTED}
        if not untested:
            break
        tested -= untested

    # How many seeds would decide undecided claims; all askings of a row have its verdict.
    family = file.family + 1  # with a further asking
    decided = {
        name: count_seeds_needed(judgement, list(decided.values()), family) for name, judgement in decided.items()
    }
    by_id = {judgement.claim.id: judgement for row in rows for judgement in row}
    for name, row_name in row_of.items():
        row = decided[row_name]
        by_id[name] = row if name == row_name else replace(by_id[name], verdict=row.verdict, reason="")
    return [by_id[claim.id] for claim in file.claims]


def count_verdicts(judgements: Sequence[Judgement], source: str) -> dict[str, int]:
    """Return how many claims of a source have each verdict; repeated askings count once, by the last."""
    last = [askings[-1] for askings in group_askings(judgements) if askings[-1].claim.source == source]
    return {name: count for name in VERDICTS if (count := sum(asked.verdict.startswith(name) for asked in last))}


def count_seeds_needed(judgement: Judgement, page: Sequence[Judgement], family: int) -> Judgement:
    """Return the judgement, if undecided with the number of seeds that would decide it, or a note if none would.

    `page` are the judgements of the page, `family` is the number of its claims. Claims that were asked again are
    unchanged.
    """
    if judgement.answer is None or judgement.answer.ask_more is None or judgement.verdict != UNDECIDED:
        return judgement
    ask_more, larger_counts = judgement.answer.ask_more, [n for n in SEEDS if n > judgement.answer.n]
    if not larger_counts or judgement.claim.asked_again:
        return judgement
    tested = [_p(other) for other in page if other.claim.id != judgement.claim.id and not math.isnan(other.holm_p)]
    untested = [1.0] * (family - 1 - len(tested))

    def decide(n: int) -> bool:
        answer = ask_more(n)
        return read_verdict(judgement.claim, answer) != UNDECIDED and holm([answer.p, *tested, *untested])[0] <= LEVEL

    seeds_needed = next(filter(decide, larger_counts), 0)
    never = "" if seeds_needed else f"; {SEEDS[-1]} like these would not decide it"
    return replace(judgement, seeds_needed=seeds_needed, reason=f"{judgement.reason}{never}")


def _p(judgement: Judgement) -> float:
    """Return the p-value of an answer before Holm's correction; 1 without an answer."""
    return 1.0 if judgement.answer is None or math.isnan(judgement.answer.p) else judgement.answer.p


def _pool(askings: Sequence[Judgement]) -> list[Judgement]:
    """Return the askings of a claim with the judged one last: the last that was run, with pooled seeds."""
    last = next((asking for asking in reversed(askings) if asking.sweep is not None), askings[-1])
    pooled = find_poolable(askings[: askings.index(last) + 1])
    if len(pooled) > 1 and last.sweep is not None:
        together = _answer(last.claim, last.sweep, pool_arms(pooled))
        names = tuple(judgement.claim.id for judgement in pooled)
        judged = replace(together, arms=last.arms, pooled=names, own_answer=last.answer)
    else:
        judged = last
    return [*(judgement for judgement in askings if judgement is not last), judged]


def _ask(claim: Claim, sweep: SweepCurves | str) -> Judgement:
    """Return the judgement of a claim before its control and Holm's correction."""
    if isinstance(sweep, str):
        return Judgement(claim=claim, verdict=NOT_TESTED, reason=sweep)
    return _answer(claim, sweep, read_arms(claim, sweep))


def _answer(claim: Claim, sweep: SweepCurves, arms: Mapping[str, ArmValues]) -> Judgement:
    # The answers over all seeds, and over those that learned.
    compared = [arms[name] for name in claim.compare]
    answer = ask(claim, sweep, compared, learned_only=False)
    learned_answer = ask(claim, sweep, compared, learned_only=True) if claim.learned else None

    # Why it cannot be tested.
    reason = ""
    if learned_answer is not None and learned_answer.n < learned_answer.needed <= answer.n:
        counts = ", ".join(f"{arm.name} {arm.seeds_learned} of {arm.seeds}" for arm in compared)
        reason, answer = f"{NOT_LEARNED} ({counts} seeds)", replace(answer, effect=math.nan)
    elif answer.n < answer.needed or math.isnan(answer.low):
        few = f"{answer.n} of {max(answer.ran, answer.needed)} {answer.unit}"
        reason = answer.reason if answer.reason and answer.n >= answer.needed else few
    return Judgement(
        claim=claim,
        verdict=NOT_TESTED,
        reason=reason,
        sweep=sweep,
        arms=arms,
        answer=answer,
        learned_only=learned_answer,
        measured=_ask_as_measured(claim, sweep, compared, answer),
        other_statistic=None if reason.startswith(NOT_LEARNED) else _other_estimand(claim, sweep, compared),
    )


def _ask_as_measured(claim: Claim, sweep: SweepCurves, arms: list[ArmValues], answer: Answer) -> Answer | None:
    """Return the answer with the values of unlearned seeds as measured; None if it equals `answer`.

    Failed seeds still count as the worst value. None for other questions than differences.
    """
    if claim.question != "difference" or not claim.learned:
        return None
    every = [replace(arm, learned=arm.learned | arm.values.notna()) for arm in arms]
    measured = ask(claim, sweep, every, learned_only=False)
    return measured if (measured.effect, measured.low) != (answer.effect, answer.low) else None


def _other_estimand(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer | None:
    """Return the mean over seeds of a difference that the median decides, or vice versa; None if not computed."""
    if claim.question != "difference" or claim.unit is not None:
        return None
    statistic = None if claim.statistic == "mean" else "mean"
    other = ask(claim.model_copy(update={"statistic": statistic}), sweep, arms, learned_only=False)
    return None if math.isnan(other.effect) else other


def _decide(
    name: str,
    judged: Mapping[str, Judgement],
    row_of: Mapping[str, str],
    corrected: Mapping[str, float],
    decided: dict[str, Judgement],
) -> Judgement:
    """Return the judgement of a row, after that of its control's row, and add both to `decided`."""
    if name in decided:
        return decided[name]
    decided[name] = judgement = judged[name]  # while its control is judged, which may refer back
    holm_p = corrected.get(name, math.nan)
    claim, answer, verdict, reason = judgement.claim, judgement.answer, NOT_TESTED, judgement.reason
    control_row = row_of.get(claim.control or "")
    control = None if control_row in (None, name) else _decide(control_row, judged, row_of, corrected, decided)
    if control is not None and control.verdict != HELD:
        reason = f"its control {claim.control} is {control.verdict}"
    elif answer is not None and not reason:
        verdict = read_verdict(claim, answer)
        if verdict == UNDECIDED:
            reason = f"after {counted(answer.n, answer.unit[:-1])}"
        elif not holm_p <= LEVEL:
            verdict, reason = UNDECIDED, f"(p = {answer.p:.2g}, {holm_p:.2g} after Holm's correction)"
    decided[name] = replace(judgement, verdict=verdict, reason=reason, holm_p=holm_p)
    return decided[name]


def read_verdict(claim: Claim, answer: Answer) -> str:
    """Return the verdict of an interval without its p-value; UNDECIDED if it is inconclusive."""
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


def read_sweeps(file: ClaimsFile, storage: Path) -> dict[str, SweepCurves | str]:
    """Return the finished sweeps of a claims file by name, from the storage folder or packed beside the file.

    A text in place of a sweep says why it cannot be used.
    """
    sweeps: dict[str, SweepCurves | str] = {}
    for name in file.sweeps:
        folder, packed = storage / name, packed_path(file, name)
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
