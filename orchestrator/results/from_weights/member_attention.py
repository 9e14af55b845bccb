"""The attention weights of one input, in every layer and head of a member whose weights were kept."""

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.record.kept.weights import stored_weights
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.from_weights.member_maps import (
    MemberMaps,
    describe_median_seed,
    median_seed,
    member_title,
    trained_member,
)
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Row, Summary
from orchestrator.trainer import refuse_program
from orchestrator.wording import label
from trainers.errors import ConfigError, Problem, WeightsError
from trainers.evaluation.attention_maps import InputAttention, compute_input_attention


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberAttention:
    """The attention weights of one input, with the member and the title of its figure."""

    config_id: str
    seed: int
    average: str
    title: str
    attended: InputAttention

    @property
    def maps(self) -> MemberMaps:
        """A heat map of every head."""
        return MemberMaps(title=self.title, maps=self.attended.maps())

    @property
    def name(self) -> str:
        """Member, average and input as part of a file name."""
        shown = self.attended
        distribution = [shown.distribution] if shown.distribution else []
        return "-".join(map(str, (self.config_id, self.seed, self.average, *distribution, shown.length, shown.row)))


def read_attention(
    folder: Path,
    configuration: str | int,
    *,
    length: int,
    distribution: str | None = None,
    row: int = 0,
    seed: int | None = None,
    average: str | None = None,
) -> MemberAttention:
    """Return the attention weights of row `row` of the evaluation inputs at `length`, for one configuration.

    The defaults are the distribution that is trained on, the median seed, and the judged average. Raises UserError for
    anything the sweep does not have or has not kept, DamagedWeights, NoMaps if the sweep's classes cannot be built any
    more, and the errors of reading the ledger.
    """
    state = SweepState.load(folder)
    refuse_program(state.spec, "attention")
    found = find_configuration(state, configuration)
    result = summary(state)
    ranked = result.by_config_id[found.config_id]
    which = result.objective.average if average is None else average
    chosen, seed_words = _choose_seed(result, ranked, seed)
    weights = stored_weights(state, found, chosen, which)
    member = trained_member(result, weights)
    try:
        shown = compute_input_attention(member, weights, length=length, distribution=distribution, row=row)
    except ConfigError as error:
        raise UserError("\n".join(_as_option(problem) for problem in error.problems)) from error
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error
    kind = f" of {shown.distribution}" if shown.distribution else ""
    title = f"{member_title(result, ranked, seed_words, which, weights.step)}; row {row}{kind} at length {length}"
    return MemberAttention(config_id=found.config_id, seed=chosen, average=which, title=title, attended=shown)


def _choose_seed(result: Summary, row: Row, seed: int | None) -> tuple[int, str]:
    """Return the seed, by default the median one, and its description."""
    if seed is not None:
        return seed, f"seed {seed}"
    judged = median_seed(result, row)
    if judged is None:
        raise UserError(f"no seed of configuration {label(row.number)} has a score; --seed names one")
    return judged[0], f"seed {judged[0]}, {describe_median_seed(judged[1])}"


def _as_option(problem: Problem) -> str:
    """Return a problem in terms of command line options."""
    given = problem if problem.key.startswith("model") else replace(problem, key=f"--{problem.key}")
    return str(given)
