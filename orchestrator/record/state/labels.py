"""Find a configuration by its label `#7`, its number, its config_id or the start of its config_id."""

from orchestrator.errors import UserError
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_label
from trainers.errors import suggest_nearest

MIN_PREFIX = 4  # characters of a config_id


def find_configuration(state: SweepState, name: str | int) -> ConfigurationState:
    """Return the configuration with a label such as "#7", a number, a config_id or a unique start of a config_id.

    A number takes precedence over the start of a config_id; the number of a repeated draw gives the configuration of
    the first draw. Raises UserError with the allowed names and the nearest config_id.
    """
    # Exact names: a config_id, or the number of a draw.
    text = str(name).strip()
    number = text.removeprefix("#")
    if text in state.configurations:
        return state.configurations[text]
    if number.isascii() and number.isdigit() and int(number) in state.draws:
        return state.configurations[state.draws[int(number)].config_id]

    # Otherwise the start of a single config_id.
    is_long_enough = len(text) >= MIN_PREFIX
    matches = [config_id for config_id in state.configurations if is_long_enough and config_id.startswith(text)]
    if len(matches) == 1:
        return state.configurations[matches[0]]
    if matches:
        candidates = ", ".join(
            f"{format_label(state.configurations[config_id].number)} ({config_id})" for config_id in matches
        )
        raise UserError(f"{state.folder}: {text} is the start of several config_ids: {candidates}")

    # No match: list what is allowed.
    last_number = max(state.draws, default=-1)
    allowed = (
        f"allowed: {format_label(0)} to {format_label(last_number)}, a config_id, or at least its first "
        f"{MIN_PREFIX} characters"
    )
    allowed = allowed if last_number >= 0 else "there are none"
    hint = suggest_nearest(text, state.configurations)
    raise UserError(f"{state.folder}: no configuration {text}; {allowed}{hint}")
