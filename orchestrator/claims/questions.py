"""The seven questions: from the values of one or two arms to an effect with its interval and its p-value."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from orchestrator.claims.members import Members
from orchestrator.claims.values import ArmValues, passes
from orchestrator.errors import UserError
from orchestrator.statistics.effects import effects
from orchestrator.statistics.intervals import FEWEST_FOR_CORRELATION, FEWEST_FOR_MEDIAN, median
from orchestrator.statistics.partial_effects import partial_effects
from search_spaces.grammar.claims import Claim

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came out: an effect, its 95 % interval, and the two-sided p-value of `null`.

    `n` counts `unit`, of `ran` that were trained; `needed` is how many an interval takes. `detail` says in words what
    the numbers do not. NaN where there is none.
    """

    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    null: float = 0.0
    n: int = 0
    ran: int = 0
    needed: int = FEWEST_FOR_MEDIAN
    unit: str = "seeds"
    detail: str = ""


def ask(claim: Claim, members: Members, arms: list[ArmValues], *, learned_only: bool) -> Answer:
    """Put the question of a claim to its arms; with `learned_only` to the seeds that learned in all of them."""
    kept = [_keep_learned(arms) if learned_only else pd.Series(True, index=arm.values.index) for arm in arms]
    values = [
        arm.values[keep.reindex(arm.values.index, fill_value=False)] for arm, keep in zip(arms, kept, strict=True)
    ]
    answer = _QUESTIONS[claim.question](claim, members, values)
    return replace(answer, ran=max(arm.seeds for arm in arms) if answer.unit == "seeds" else answer.ran)


def _keep_learned(arms: list[ArmValues]) -> "pd.Series[bool]":
    """The seeds that learned in every configuration of every arm; a failed member has not."""
    both = pd.concat([arm.learned.groupby(level="seed").all() for arm in arms], axis=1).all(axis=1)
    index = arms[0].learned.index
    kept = pd.Series(both.reindex(index.get_level_values("seed")).to_numpy(), index=index)
    for arm in arms[1:]:
        more = pd.Series(both.reindex(arm.learned.index.get_level_values("seed")).to_numpy(), index=arm.learned.index)
        kept = pd.concat([kept, more[~more.index.isin(kept.index)]])
    return kept


def _difference(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """The first arm minus the second, seed by seed: the median over seeds, and the sign test."""
    return _median_answer(_by_seed(_paired(values, np.subtract)), null=claim.around or 0.0)


def _equivalence(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """The same of two arms, or of one; p is that of two one-sided sign tests against the ends of what is allowed."""
    rows = _paired(values, np.subtract) if len(values) == 2 else values[0]
    seeds, middle, half = _by_seed(rows), claim.around or 0.0, claim.within or 0.0
    answer = _median_answer(seeds, null=middle)
    above, below = ((seeds > middle - half).sum(), (seeds < middle + half).sum())
    tests = [stats.binomtest(int(count), len(seeds), 0.5, "greater").pvalue for count in (above, below) if len(seeds)]
    return replace(answer, p=max(tests, default=math.nan))


def _bound(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """The median over seeds against a bound."""
    return _median_answer(_by_seed(values[0]), null=claim.bound or 0.0)


def _ratio(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """One arm over the other, seed by seed.

    Steps to a threshold lie between two evaluations, and a seed that never got there needs more than were trained: so a
    ratio of steps has a smallest and a largest value that it can have. The interval reaches over both, and the effect
    is the ratio as it was recorded.
    """
    first, second = values
    if not claim.metric[0].startswith("steps_to_"):
        return _median_answer(_by_seed(_paired(values, np.divide)), null=_null(claim))
    bounds = [[_by_seed(one) for one in _step_bounds(arm, members)] for arm in (first, second)]
    (low_1, high_1), (low_2, high_2) = bounds
    with np.errstate(divide="ignore", invalid="ignore"):
        least, most = low_1 / high_2, high_1 / low_2
    answers = [_median_answer(one, null=_null(claim)) for one in (least, most)]
    recorded = _by_seed(_paired(values, np.divide))
    got_there = [f"{int(np.isfinite(arm).sum())} of {len(arm)}" for arm in values]
    return replace(
        answers[0],
        effect=float(np.median(recorded)) if len(recorded) else math.nan,
        high=answers[1].high,
        p=max(answers[0].p, answers[1].p),
        detail=f"seeds that got there: {got_there[0]} and {got_there[1]}",
    )


def _step_bounds(steps: "pd.Series[float]", members: Members) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """The fewest and the most steps that each seed may have needed."""
    every, most = members.state.spec["evaluation"]["every"], max(members.steps.values())
    return (steps - every).where(np.isfinite(steps), most), steps


def _share(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """The share of seeds that succeed, with its exact interval (Clopper and Pearson, 1934)."""
    good = _succeeded(claim, values[0])
    hits, n, null = int(good.sum()), len(good), _null(claim)
    if not n:
        return Answer(null=null)
    test = stats.binomtest(hits, n, null)
    interval = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    return Answer(
        effect=hits / n, low=interval.low, high=interval.high, p=test.pvalue, null=null, n=n, detail=f"{hits} of {n}"
    )


def _fisher(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """The difference of two shares of seeds, with Fisher's exact test and Newcombe's interval (1998, method 10)."""
    good = [_succeeded(claim, one) for one in values]
    (a, n), (b, m) = ((int(one.sum()), len(one)) for one in good)
    if not n or not m:
        return Answer()
    p = stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue
    (low_1, high_1), (low_2, high_2) = (
        stats.binomtest(k, total).proportion_ci(0.95, method="wilson") for k, total in ((a, n), (b, m))
    )
    one, other = a / n, b / m
    low = one - other - math.hypot(one - low_1, high_2 - other)
    high = one - other + math.hypot(high_1 - one, other - low_2)
    return Answer(effect=one - other, low=low, high=high, p=p, n=min(n, m), detail=f"{a} of {n} against {b} of {m}")


def _trend(claim: Claim, members: Members, values: list["pd.Series[float]"]) -> Answer:
    """The rank correlation of a searched key with the median over seeds of each configuration.

    With `hold_others` its effect with the other searched keys held fixed, in standard deviations of ranks.
    """
    state, key = members.state, str(claim.key)
    drawn = {name: dict(found.values) for name, found in state.configurations.items()}
    if not any(key in one for one in drawn.values()):
        raise UserError(f"sweep {members.name}: {key} was not searched")
    table = members.table(claim.metric, claim.average[0], claim.evaluation)
    lengths = list(members.groups[claim.lengths]) if isinstance(claim.lengths, str) else list(claim.lengths)
    scores = table[lengths].mean(axis=1, skipna=False).groupby(level="config_id").agg(lambda v: np.median(v.to_numpy()))
    by_name = {str(name): float(score) for name, score in scores.items()}
    if claim.hold_others:
        averages = {k for one in drawn.values() for k in one if ".averages." in k and k != key}
        drawn = {name: {k: v for k, v in one.items() if k not in averages} for name, one in drawn.items()}
        rows = partial_effects(drawn, by_name)
        column = "coefficient"
    else:
        rows = effects({name: {key: one[key]} for name, one in drawn.items() if key in one}, by_name)
        column = "correlation"
    rows = rows[rows["hyperparameter"] == key]
    if claim.category is not None:
        rows = rows[rows["value"] == claim.category]
    if len(rows) != 1:
        raise UserError(f"sweep {members.name}: {key} has names for values: name one of them as `category`")
    row = rows.iloc[0]
    return Answer(
        effect=float(row[column]),
        low=float(row["low"]),
        high=float(row["high"]),
        p=_interval_p(float(row[column]), float(row["low"]), float(row["high"])),
        n=int(row["n"]),
        ran=len(drawn),
        needed=FEWEST_FOR_CORRELATION,
        unit="configurations",
    )


def _interval_p(effect: float, low: float, high: float) -> float:
    """The p-value that a normal 95 % interval stands for."""
    if math.isnan(low) or high <= low:
        return math.nan
    return float(2 * stats.norm.sf(abs(effect) / ((high - low) / (2 * stats.norm.ppf(0.975)))))


def _null(claim: Claim) -> float:
    """What the effect is held against."""
    return claim.bound if claim.bound is not None else {"share": 0.5, "ratio": 1.0}.get(claim.question, 0.0)


def _succeeded(claim: Claim, values: "pd.Series[float]") -> "pd.Series[bool]":
    return passes(claim.success, values)


def _paired(values: list["pd.Series[float]"], operation: Callable[[Values, Values], Values]) -> "pd.Series[float]":
    """The operation on rows of two arms that are pairs."""
    both = pd.concat(values, axis=1, join="inner")
    with np.errstate(divide="ignore", invalid="ignore"):
        found = operation(both.iloc[:, 0].to_numpy(dtype=np.float64), both.iloc[:, 1].to_numpy(dtype=np.float64))
    return pd.Series(found, index=both.index)


def _by_seed(rows: "pd.Series[float]") -> Values:
    """One value a seed, the median over its configurations; a seed with a failed member is left out."""
    groups = [group.to_numpy(dtype=np.float64) for _, group in rows.groupby(level="seed", sort=True)]
    return np.array([float(np.median(group)) for group in groups if not np.isnan(group).any()])


def _median_answer(seeds: Values, null: float) -> Answer:
    """The median over seeds, its interval, and the sign test against `null`, ties left out."""
    found = median(seeds)
    low, high = found.ends
    above, below = int((seeds > null).sum()), int((seeds < null).sum())
    p = stats.binomtest(above, above + below).pvalue if above + below else 1.0
    value = math.nan if found.value is None else found.value
    return Answer(effect=value, low=low, high=high, p=p if len(seeds) else math.nan, null=null, n=found.n)


_QUESTIONS: dict[str, Callable[[Claim, Members, list["pd.Series[float]"]], Answer]] = {
    "difference": _difference,
    "equivalence": _equivalence,
    "bound": _bound,
    "ratio": _ratio,
    "share": _share,
    "fisher": _fisher,
    "trend": _trend,
}
