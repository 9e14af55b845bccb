"""What one input attends to, of a member whose weights were kept: the weights of every layer and head, as data."""

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.record.kept.weights import stored_weights
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.from_weights.position_maps import (
    MemberMaps,
    median_seed,
    member_title,
    trained_member,
    which_seed,
)
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import label
from trainers.errors import ConfigError, Problem, WeightsError
from trainers.evaluation.attention_maps import Attended, attended


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberAttention:
    """What one input attends to, of which member, and how its figure is headed."""

    config_id: str
    seed: int
    average: str
    title: str
    attended: Attended

    @property
    def maps(self) -> MemberMaps:
        """A heat map of every head."""
        return MemberMaps(title=self.title, maps=self.attended.maps())

    @property
    def name(self) -> str:
        """Member, average and input in one word."""
        of = self.attended
        input_parts = [of.distribution] if of.distribution else []
        return "-".join(map(str, (self.config_id, self.seed, self.average, *input_parts, of.length, of.row)))


def attention_of(
    folder: Path,
    configuration: str | int,
    *,
    length: int,
    distribution: str | None = None,
    row: int = 0,
    seed: int | None = None,
    average: str | None = None,
) -> MemberAttention:
    """What row `row` of the evaluation at `length` attends to, in a configuration of the sweep in `folder`.

    By default `distribution` is the one that is trained on, `seed` the median one and `average` the one that is judged.
    Raises UserError for what the sweep does not have or has not kept, DamagedWeights, NoMaps where the classes of the
    sweep cannot be built any more, and what reading the ledger raises.
    """
    state = SweepState.load(folder)
    found = find_configuration(state, configuration)
    result = summary(state)
    of = next(one for one in result.rows if one.config_id == found.config_id)
    which = result.objective.average if average is None else average
    chosen, said = _seed(result, of, seed)
    weights = stored_weights(state, found, chosen, which)
    member = trained_member(result, weights)
    try:
        shown = attended(member, weights, length=length, distribution=distribution, row=row)
    except ConfigError as error:
        raise UserError("\n".join(_as_option(problem) for problem in error.problems)) from error
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error
    kind = f" of {shown.distribution}" if shown.distribution else ""
    title = f"{member_title(result, of, said, which, weights.step)}; row {row}{kind} at length {length}"
    return MemberAttention(config_id=found.config_id, seed=chosen, average=which, title=title, attended=shown)


def _seed(result: Summary, row: Row, seed: int | None) -> tuple[int, str]:
    """The seed, and which one it is in words."""
    if seed is not None:
        return seed, f"seed {seed}"
    judged = median_seed(result, row)
    if judged is None:
        raise UserError(f"no seed of configuration {label(row.number)} has a score; --seed names one")
    return judged[0], f"seed {judged[0]}, {which_seed(judged[1])}"


def _as_option(problem: Problem) -> str:
    """A problem in the words of the command line."""
    given = problem if problem.key.startswith("model") else replace(problem, key=f"--{problem.key}")
    return str(given)
