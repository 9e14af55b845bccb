"""Name packs by their seeds, for messages in which a reader looks for a seed."""

from collections.abc import Iterable

from orchestrator.record.state.labels import make_label
from orchestrator.record.state.state import SweepState
from orchestrator.results.seed_failures import MAX_NAMED, name_seeds


def name_pack_seeds(state: SweepState, pack_ids: Iterable[str], maximum: int = MAX_NAMED) -> str:
    """Return the seeds of packs as text, as `name_seeds` names them: "#0 #1 seeds 0-3"."""
    members = (member for pack_id in pack_ids for member in state.packs[pack_id].members)
    numbers = ((state.configurations[config_id].number, seed) for config_id, seed in members)
    return name_seeds(((make_label(state.provenance, number), seed) for number, seed in numbers), maximum)
