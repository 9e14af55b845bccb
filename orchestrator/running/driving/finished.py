"""Whether a recorded sweep has anything left to train."""

from orchestrator.plan import search
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.racing import is_race_over
from search_spaces import SweepSpec


def is_finished(spec: SweepSpec, state: SweepState) -> bool:
    """Return whether all configurations are drawn and scored or pruned, all packs ended, and no round follows."""
    all_drawn = len(state.draws) == search.count_configurations(spec)
    all_scored = all(configuration.is_done for configuration in state.configurations.values())
    all_ended = all(pack.has_ended for pack in state.packs.values())  # also those of pruned configurations
    return all_drawn and all_scored and all_ended and is_race_over(state)
