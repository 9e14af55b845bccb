"""The names by which a person calls a configuration: its label `#7`, its number, its config_id or the start of that."""

from orchestrator.errors import UserError
from orchestrator.record.state.parts import ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import label
from trainers.errors import find_nearest

SHORTEST = 4  # characters of a config_id that may stand for it


def find_configuration(state: SweepState, name: str | int) -> ConfigurationState:
    """Return the configuration called `name`: a label such as "#7", a number, a config_id or a unique start of one.

    A number takes precedence over the start of a config_id; the number of a repeated draw means the configuration that
    it repeats. Raises UserError with what is allowed and the nearest config_id.
    """
    text = str(name).strip()
    number = text.removeprefix("#")
    if text in state.configurations:
        return state.configurations[text]
    if number.isascii() and number.isdigit() and int(number) in state.draws:
        return state.configurations[state.draws[int(number)].config_id]

    # the start of a config_id
    matches = [name for name in state.configurations if len(text) >= SHORTEST and name.startswith(text)]
    if len(matches) == 1:
        return state.configurations[matches[0]]
    if matches:
        which = ", ".join(f"{label(state.configurations[name].number)} ({name})" for name in matches)
        raise UserError(f"{state.folder}: {text} is the start of several configurations: {which}")

    # none: what is allowed
    hint = find_nearest(text, state.configurations)
    last = max(state.draws, default=-1)
    allowed = f"allowed: {label(0)} to {label(last)}, a config_id, or the start of one" if last >= 0 else "it has none"
    problem = f"{state.folder}: there is no configuration {text}; {allowed}"
    raise UserError(problem + (f"; did you mean {hint}?" if hint else ""))
