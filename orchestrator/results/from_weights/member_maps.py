"""Maps of the kept weights of a configuration's median seed, as data.

Models and positional encodings define the maps (`trainers.tensors.position_maps`). The weights are those after the last
step, of the judged average.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.code.own_code import OwnCodeError
from orchestrator.errors import DamagedWeights, NoMaps, UntrustedCode
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import format_values, label
from trainers.config.member import MemberConfig
from trainers.config.recorded import recorded_member
from trainers.errors import ConfigError, WeightsError
from trainers.evaluation.weights import StoredWeights
from trainers.tensors.position_maps import Map


@dataclass(frozen=True, kw_only=True)
class MemberMaps:
    """The maps of one member, and the title of its figure."""

    title: str
    maps: Mapping[str, Map]


def read_maps(result: Summary, row: Row) -> MemberMaps | None:
    """Return the maps of a configuration's median seed; None if there are none or its weights were not kept.

    Reads only the weights that the maps need. Raises DamagedWeights naming the file, and NoMaps if the classes of the
    sweep cannot be built any more.
    """
    judged = median_seed(result, row)
    kept = result.weights.get((row.config_id, judged[0])) if judged else None
    if judged is None or kept is None:
        return None
    seed, count = judged
    average = result.objective.average
    try:
        weights = kept.weights(average)
        member = trained_member(result, weights)
        maps = member.model.maps(weights, member.task)
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error
    title = member_title(result, row, f"seed {seed}, {describe_median_seed(count)}", average, weights.step)
    return MemberMaps(title=title, maps=maps) if maps else None


def trained_member(result: Summary, weights: StoredWeights) -> MemberConfig:
    """Return the member that was trained to these weights. Raises NoMaps if its classes cannot be built any more."""
    try:
        result.import_code()
        return recorded_member(weights.member, weights.member["seed"])
    except (OwnCodeError, UntrustedCode, ConfigError) as error:
        why = error.problems[0] if isinstance(error, ConfigError) else error
        raise NoMaps(f"the kept weights cannot be drawn without the classes they were trained with: {why}") from error


def member_title(result: Summary, row: Row, seed: str, average: str, step: int) -> str:
    """Return the title of a member's figure: its configuration, its seed in words, its average and step."""
    values = format_values(row.values, result.searched)
    place = f" (rank {row.rank})" if row.rank else ""
    first = f"{result.name}: configuration {label(row.number)}{place}{': ' if values else ''}{values}"
    return f"{first}\n{seed}; {average} weights after step {step}"


def describe_median_seed(count: int) -> str:
    """Return in words which of `count` seeds with a score the median seed is."""
    median = "the median one" if count % 2 else "the lower of the two median ones"
    return f"{median} of {count} by score" if count > 1 else "the only one with a score"


def median_seed(result: Summary, row: Row) -> tuple[int, int] | None:
    """Return the seed with the median score (the lower of two) and how many seeds have one; None without any."""
    band = result.bands.get((row.config_id, *result.objective_curve))
    if band is None:
        return None
    scores = band.seed_values(result.objective.lengths, result.objective.reduce)
    ordered = sorted((score, seed) for seed, score in scores.items() if not math.isnan(score))
    return (ordered[(len(ordered) - 1) // 2][1], len(ordered)) if ordered else None
