"""Compare configurations over their seeds, at trained, selection and test lengths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Literal

import numpy as np

from orchestrator.errors import LengthwiseError
from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.state.labels import make_label
from orchestrator.results.comparing.shared_streams import SharedStreams, compare_streams
from orchestrator.results.summary import CACHED_SUMMARIES, ConfigurationResult, Summary
from orchestrator.statistics.exact_tests import correct_by_holm
from orchestrator.statistics.failed_seeds import get_failed_seed_value, summarize_seeds
from orchestrator.statistics.intervals import LEVEL, MIN_FOR_MEDIAN
from orchestrator.statistics.quartiles import Floats
from orchestrator.statistics.two_samples import TwoSamples, compare_groups, subtract_pairs, summarize_differences

LENGTH_GROUPS = ("test", "selection", "trained")  # test lengths, which influence no choice, come first
MAX_ALL_PAIRS = 6  # up to this many configurations, every pair is compared
MAX_AGAINST_FIRST = 20  # of more, this many are compared with the first
FAILED = "a seed failed, and with it the configuration (objective.failed_seeds: fail)"
NO_VALUES = "no seed of either has a value"
UNPAIRED_FAILED = "a seed failed, and seeds that are not paired cannot be averaged without it"
UNPAIRED_INFINITE = "a value is infinite, and no mean over several configurations is defined with it"
FIRST_TWO = "first and second"
PAIRS = "every pair"
AGAINST_FIRST = "each against the first"


@dataclass(frozen=True)
class Side:
    """A configuration of a comparison, and the summary of its sweep."""

    summary: Summary
    row: ConfigurationResult

    @property
    def label(self) -> str:
        """The label of the configuration; in a confirmation the label in the search."""
        return make_label(self.summary.state.provenance, self.row.number)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question about two configurations: compare a metric, reduced over lengths, seed by seed."""

    group: str
    lengths: tuple[int, ...]
    metric: str
    average: str
    reduce: str
    direction: str
    policy: str


@dataclass(frozen=True, kw_only=True)
class SeedComparison:
    """A comparison of two configurations at a group of lengths; `outcome` is first - second.

    `first` and `second` are config_ids, empty for the mean of several configurations. `unmatched` counts the seeds
    without a pair on both sides. `holm_p` is corrected for the `tests` comparisons with a p in the same `family` and at
    the same lengths. Medians are over seeds.
    """

    question: Question
    first: str = ""
    second: str = ""
    first_median: float
    second_median: float
    first_seeds: int
    second_seeds: int
    first_failed: int
    second_failed: int
    unmatched: int
    shared: SharedStreams
    outcome: TwoSamples
    family: str
    tests: int = 1
    holm_p: float = math.nan

    @property
    def first_better_count(self) -> int | None:
        """The number of pairs in which the first is better; None without pairs or a better direction."""
        counts = {"minimize": self.outcome.first_smaller_count, "maximize": self.outcome.second_smaller_count}
        return counts.get(self.question.direction) if self.outcome.paired else None

    @property
    def second_better_count(self) -> int | None:
        """The number of pairs in which the second is better; None without pairs or a better direction."""
        first = self.first_better_count
        return None if first is None else self.outcome.n - first - self.outcome.ties

    @property
    def is_at_end(self) -> bool:
        """Whether both medians are 0 or both are 1, the ends of most metrics, where a difference can hardly show."""
        return self.first_median == self.second_median and self.first_median in (0.0, 1.0)

    @property
    def verdict(self) -> Literal["first", "second", "equal", "inconclusive"]:
        """Which configuration is better, or lower without a better direction, if the interval excludes 0.

        It is "equal" if both ends of the interval are 0, because then at most a few seeds differ. Pairs in which both
        seeds failed are ties but no evidence. If there are such pairs, at least two other pairs must tie, and more
        pairs must tie than differ. If both medians are 0 or both are 1, it is "inconclusive" instead of "equal".
        """
        outcome = self.outcome
        if outcome.low == outcome.high == 0:
            if self.is_at_end:
                return "inconclusive"
            has_evidence = outcome.ties - outcome.both_failed > max(1, outcome.n - outcome.ties)
            return "equal" if has_evidence or not outcome.both_failed else "inconclusive"
        if not (self.outcome.low > 0 or self.outcome.high < 0):  # NaN without an interval
            return "inconclusive"
        return "first" if (self.outcome.low > 0) == (self.question.direction == "maximize") else "second"


@lru_cache(CACHED_SUMMARIES)
def compare_seeds(summary: Summary) -> tuple[SeedComparison, ...]:
    """Compare grid points (or listed configurations) in pairs, and the first configuration with the second.

    Only grid points with the same draw as the first are compared. If there are more than MAX_ALL_PAIRS of them, only
    the first is compared, with the next MAX_AGAINST_FIRST by rank.
    """
    rows = [row for row in summary.rows if row.is_complete and row.rank is not None]
    if len(rows) < 2:
        return ()

    # More tests weaken Holm's correction, so all pairs are compared only if there are few.
    same_draw = [row for row in rows if _has_same_draw(summary, rows[0], row)]
    all_pairs = len(same_draw) <= MAX_ALL_PAIRS
    first, *others = same_draw
    pairs = list(combinations(same_draw, 2)) if all_pairs else [(first, row) for row in others[:MAX_AGAINST_FIRST]]

    # The first two are compared in any case; if they are the only pair, they are reported once, as the first two.
    has_first_two = rows[1] in same_draw
    is_only_pair = has_first_two and len(pairs) == 1
    families = {PAIRS if all_pairs else AGAINST_FIRST: pairs} if pairs and not is_only_pair else {}
    if not (families and has_first_two):
        families[FIRST_TWO] = [(rows[0], rows[1])]

    # Each group of lengths is a question of its own, so the correction is over the pairs of a group.
    comparisons = []
    for family, family_pairs in families.items():
        for group in LENGTH_GROUPS:
            group_comparisons = [
                compare_sides(Side(summary, first), Side(summary, second), question, family)
                for first, second in family_pairs
                if (question := make_question(Side(summary, first), Side(summary, second), group)).lengths
            ]
            comparisons += correct_family(group_comparisons)
    return tuple(comparisons)


def make_question(
    first: Side, second: Side, group: str, metric: str | None = None, average: str | None = None
) -> Question:
    """Return the question at the common lengths of a group, by default about the judged metric and average."""
    objective = first.summary.objective
    metric, average = metric or objective.metric, average or objective.average
    lengths = [set(getattr(side.summary.find_length_groups(side.row, metric), group)) for side in (first, second)]

    # The objective's reduction and direction belong to the judged metric, and make no sense for others.
    is_judged = metric == objective.metric
    return Question(
        group=group,
        lengths=tuple(sorted(lengths[0] & lengths[1])),
        metric=metric,
        average=average,
        reduce=objective.reduce if group == "selection" and is_judged else "mean",
        direction=objective.direction if is_judged else first.summary.metrics[metric].direction,
        policy=objective.failed_seeds,
    )


def compare_sides(
    first: Side, second: Side, question: Question, family: str, shared: SharedStreams | None = None
) -> SeedComparison:
    """Compare two configurations: by pairs of seeds if these share random streams, else as two samples.

    `has_enough_pairs` says which common seeds are enough for pairs. Failed seeds count as
    `statistics.failed_seeds` says. `shared` is the result of `compare_recorded_streams`, if it is known.
    """
    shared = shared or compare_recorded_streams(first, second)
    first_values, second_values = (collect_seed_values(side, question) for side in (first, second))
    common_seeds = sorted(first_values.keys() & second_values.keys())
    is_paired = shared.is_paired and has_enough_pairs(len(common_seeds), len(first_values), len(second_values))
    x, y = (
        [values[seed] for seed in (common_seeds if is_paired else values)] for values in (first_values, second_values)
    )

    # Medians and failures cover all seeds, as in other tables; the outcome covers only the compared seeds.
    return SeedComparison(
        question=question,
        first=first.row.config_id,
        second=second.row.config_id,
        first_median=summarize_seeds(first_values.values(), question.policy, question.direction).median,
        second_median=summarize_seeds(second_values.values(), question.policy, question.direction).median,
        first_seeds=len(first_values),
        second_seeds=len(second_values),
        first_failed=int(np.isnan(list(first_values.values())).sum()),
        second_failed=int(np.isnan(list(second_values.values())).sum()),
        unmatched=len(first_values) + len(second_values) - 2 * len(common_seeds) if is_paired else 0,
        shared=shared,
        outcome=compare_tables(np.array([x]), np.array([y]), question, is_paired=is_paired),
        family=family,
    )


def compare_at_first_group(first: Side, second: Side, family: str) -> SeedComparison | None:
    """Compare two configurations at the first of LENGTH_GROUPS that both measure; None if they cannot be compared."""
    questions = (make_question(first, second, group) for group in LENGTH_GROUPS)
    question = next((question for question in questions if question.lengths), None)
    if question is None:
        return None
    try:
        return compare_sides(first, second, question, family)
    except LengthwiseError:  # code that is missing or not trusted; nothing else of a report needs it
        return None


def has_enough_pairs(common: int, first: int, second: int) -> bool:
    """Return whether seeds are compared by pairs, given the numbers of common seeds and of each side's seeds.

    Pairs leave out seeds that only one side has. Seeds are paired if one side has all seeds of the other, or if there
    are enough common seeds for an interval; unpaired seeds have no interval.
    """
    return common > 0 and (common == min(first, second) or common >= MIN_FOR_MEDIAN)


def compare_recorded_streams(first: Side, second: Side) -> SharedStreams:
    """Return which random streams members of one seed share between two configurations."""
    first_record, second_record = (side.summary.provenance[side.row.config_id] for side in (first, second))
    return compare_streams(first_record, second_record, partial(import_recorded, first.summary.state))


def correct_family(family: Sequence[SeedComparison]) -> list[SeedComparison]:
    """Return the comparisons of a family with their p after Holm's correction."""
    adjusted = correct_by_holm([comparison.outcome.p for comparison in family])
    tests = sum(not np.isnan(comparison.outcome.p) for comparison in family)
    return [replace(comparison, holm_p=p, tests=tests) for comparison, p in zip(family, adjusted, strict=True)]


def compare_tables(
    x_CS: Floats, y_CS: Floats, question: Question, *, is_paired: bool, level: float = LEVEL
) -> TwoSamples:
    """Compare two tables (configurations, seeds), NaN for failed seeds, by the means of seeds over configurations."""
    # Under `fail` a failed seed leaves no score to compare, and two sides without any value have no order.
    failed_x, failed_y = np.isnan(x_CS), np.isnan(y_CS)
    has_failed = failed_x.any() or failed_y.any()
    if question.policy == "fail" and has_failed:
        return TwoSamples(n=0, reason=FAILED)
    if x_CS.size and failed_x.all() and failed_y.all():
        return TwoSamples(n=0, reason=NO_VALUES)

    # A seed is still NaN only if the policy leaves it out; a pair is left out with either of its seeds.
    x_CS, y_CS = (replace_failed_seeds(values, question) for values in (x_CS, y_CS))
    if is_paired:
        differences = average_configurations(subtract_pairs(x_CS, y_CS))
        is_defined = ~np.isnan(differences)
        return replace(
            summarize_differences(differences[is_defined], level=level),
            both_failed=int(((failed_x & failed_y).all(axis=0) & is_defined).sum()),
            one_failed=int(((failed_x ^ failed_y).any(axis=0) & is_defined).sum()),
        )

    # Without pairs, leaving out a failed seed would average different configurations on each side.
    first, second = (average_configurations(values) for values in (x_CS, y_CS))
    if len(x_CS) > 1 and (has_failed or not (np.isfinite(first).all() and np.isfinite(second).all())):
        reason = UNPAIRED_FAILED if has_failed else UNPAIRED_INFINITE
        return TwoSamples(n=len(first), n_second=len(second), reason=reason)
    return compare_groups(first[~np.isnan(first)], second[~np.isnan(second)])


def average_configurations(values_CS: Floats) -> Floats:
    """Return the mean (seeds,) over the values of each seed that are not NaN; NaN without any."""
    is_present = ~np.isnan(values_CS)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(is_present, values_CS, 0.0).sum(axis=0) / is_present.sum(axis=0))


def replace_failed_seeds(values: Floats, question: Question) -> Floats:
    """Return the values with the NaN of failed seeds replaced by the question's policy; NaN if they are left out."""
    return np.where(np.isnan(values), get_failed_seed_value(question.policy, question.direction), values)


def collect_seed_values(side: Side, question: Question) -> dict[int, float]:
    """Return the value of every planned seed; NaN for a failed seed."""
    band = side.summary.bands.get((side.row.config_id, question.metric, question.average))
    if band is None:
        return {}

    # A planned seed without a value has failed: its pack died before the last step.
    value_by_seed = band.reduce_seed_curves(question.lengths, question.reduce)
    return {seed: value_by_seed.get(seed, math.nan) for seed in sorted({*side.row.seeds, *band.curves_by_seed})}


def _has_same_draw(summary: Summary, first: ConfigurationResult, other: ConfigurationResult) -> bool:
    """Return whether two configurations have equal values of drawn keys, which are neither of a grid nor listed."""
    if summary.design.kind == "grid_by_random":
        return summary.design.draws[first.config_id] == summary.design.draws[other.config_id]

    # Other designs do not number their draws, but equal drawn values identify them.
    drawn_keys = [key for key, kind in summary.searched.items() if kind not in ("grid", "listed")]
    return all(
        first.values[key] == other.values[key] for key in drawn_keys if key in first.values and key in other.values
    )
