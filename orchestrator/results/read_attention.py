"""Compute the attention weights of one input in every layer and head of a member whose weights were kept."""

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.files.weights import open_weights
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.trainer_choice import refuse_program
from trainers.config.recorded_members import build_recorded_member
from trainers.errors import ConfigError, WeightsError
from trainers.evaluation.attention_weights import InputAttention, compute_input_attention


def read_attention(
    state: SweepState,
    configuration: str | int,
    seed: int,
    *,
    length: int,
    average: str,
    distribution: str | None = None,
    row: int = 0,
) -> InputAttention:
    """Return the attention weights of one evaluated input; see `Sweep.attention`."""
    # Use the model's classes as the sweep recorded them, because the user's files may have changed since.
    refuse_program(state.spec, "attention")
    weights = open_weights(state, find_configuration(state, configuration), seed, average)
    import_recorded(state)

    # Errors of the trainer become errors that the command line prints without a traceback.
    try:
        member = build_recorded_member(weights.member, seed)
        return compute_input_attention(member, weights, length=length, distribution=distribution, row=row)
    except ConfigError as error:
        raise UserError(str(error)) from error
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error
