"""Find a configuration by its label `#7`, its number, its config_id or the start of its config_id."""

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import UserError
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_label
from trainers.errors import suggest_nearest

MIN_PREFIX = 4  # characters of a config_id


def make_label(provenance: Mapping[str, Any], number: int) -> str:
    """Return the label of a configuration for readers: "#8"; in a confirmation the label in the search.

    CSV files have the number, which differs from the label in a confirmation.
    """
    recorded = provenance.get(CONFIRMS, {}).get("configurations", ())
    search_number = recorded[number].get("number") if number < len(recorded) else None
    return format_label(number if search_number is None else search_number)


def find_configuration(state: SweepState, name: str | int) -> ConfigurationState:
    """Return the configuration with a label such as "#7", a number, a config_id or a unique start of a config_id.

    In a confirmation a text is first a label in the search, as in its tables, and an int always a number. A number
    takes precedence over the start of a config_id; the number of a repeated draw gives the configuration of the first
    draw. Raises UserError with the allowed names and the nearest config_id.
    """
    # Exact names: a config_id, the label of a draw, or its number.
    text = str(name).strip()
    number = text.removeprefix("#")
    if text in state.configurations:
        return state.configurations[text]
    number_by_label = {make_label(state.provenance, draw): draw for draw in sorted(state.draws, reverse=True)}
    if isinstance(name, str) and (labelled := number_by_label.get(f"#{number}")) is not None:
        return state.configurations[state.draws[labelled].config_id]
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

    # No match: list what is allowed, in a search as a range.
    labels = [*reversed(number_by_label)]
    if CONFIRMS not in state.provenance and len(labels) > 1:
        labels = [f"{labels[0]} to {labels[-1]}"]
    allowed = f"allowed: {', '.join(labels)}, a config_id, or at least its first {MIN_PREFIX} characters"
    allowed = allowed if labels else "there are none"
    hint = suggest_nearest(text, state.configurations)
    raise UserError(f"{state.folder}: no configuration {text}; {allowed}{hint}")
