"""The sampler of a running sweep: draws its configurations one generation after the other."""

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.interface.measurements import make_measurement_fields
from orchestrator.plan import optuna_draws
from orchestrator.plan.configurations import Configuration, make_configurations
from orchestrator.plan.packing.packs import SeedsToPack
from orchestrator.plan.recorded_configurations import map_config_ids, refuse_changed_defaults, set_recorded_defaults
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.lineage import is_continued_member
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.search_design import count_grid_points, map_draws
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec


class ConfigurationSampler:
    """Draws the configurations that the ledger lacks, with the recorded defaults.

    `first_generation`: the configurations of the first generation, if the check of `spec` has built them.
    """

    def __init__(self, spec: SweepSpec, state: SweepState, first_generation: Iterable[Configuration] = ()) -> None:
        self._spec = spec
        self._state = state
        # By number, until a generation is drawn.
        self._first_generation = {configuration.number: configuration for configuration in first_generation}
        self._spec_as_recorded: SweepSpec | None = None
        self._draw_indices: dict[int, int] = {}  # by number of the configuration
        self._recorded_ids: dict[str, str] = {}  # the recorded config_id, by the config_id of today's code

    def draw_new(self, numbers: range) -> list[Configuration]:
        """Return the configurations of a generation that are not recorded."""
        built, self._first_generation = self._first_generation, {}
        if not self._state.draws and built.keys() == set(numbers):
            self._spec_as_recorded = self._spec
            drawn = [built[number] for number in numbers]
        else:
            drawn = self._draw_and_build(numbers)
        for configuration in drawn:
            self._recorded_ids.setdefault(configuration.config_id, configuration.config_id)
        return drawn

    def make_record_fields(self, new: Iterable[Configuration]) -> list[dict[str, Any]]:
        """Return the fields of the records of new configurations."""
        trainer = get_trainer(self._spec.sections)
        grid = count_grid_points(self._state.specs[0])

        # A table of measurements is recorded in full only once.
        recorded_digests = set(self._state.measurements_by_digest)
        records = list[dict[str, Any]]()
        for configuration in new:
            draw_index = self._draw_indices.get(configuration.number, configuration.number // grid)
            measurements = make_measurement_fields(
                trainer.list_measurements(configuration.build_member(self._spec.seeds[0])), recorded_digests
            )
            recorded_digests.add(measurements["measured"])
            records.append(
                {
                    "number": configuration.number,
                    "config_id": configuration.config_id,
                    "values": configuration.values,
                    "resolved": configuration.resolved,
                    "duplicate_of": configuration.duplicate_of,
                    **({} if draw_index == configuration.number // grid else {"draw": draw_index}),
                    **measurements,
                }
            )
        return records

    def _draw_and_build(self, numbers: range) -> list[Configuration]:
        """Draw the configurations of a generation that are not recorded, and build them."""
        # Samplers may use the scores of earlier generations; a killed driver may have recorded part of this one.
        earlier_results = []
        for number in range(numbers.start):
            draw = self._state.draws[number]
            score = self._state.configurations[draw.config_id].score
            earlier_results.append(optuna_draws.EarlierResult(values=draw.values, score=score))
        draw_indices, drawn_before = map_draws(self._state), self._state.draws
        recorded_draws = {
            number: optuna_draws.Draw(number=number, values=draw.values, draw_index=draw_indices[number])
            for number, draw in drawn_before.items()
        }

        # Draw all configurations, as an uninterrupted sweep would, and keep the new ones.
        draws = optuna_draws.draw_configurations(self._spec, numbers, earlier_results, recorded_draws)
        new_draws = [(draw.number, draw.values) for draw in draws if draw.number not in drawn_before]
        self._draw_indices |= {draw.number: draw.draw_index for draw in draws}

        # Build them with the recorded defaults, which today's code may no longer have.
        if self._spec_as_recorded is None:
            recorded = list(self._state.configurations.values())
            self._spec_as_recorded = set_recorded_defaults(self._spec, recorded)
            self._recorded_ids = map_config_ids(recorded)
            refuse_changed_defaults(
                self._spec_as_recorded, recorded, f"{self._state.folder} cannot draw more configurations"
            )
        return make_configurations(self._spec_as_recorded, new_draws, self._recorded_ids)


def find_missing_members(
    state: SweepState, config_ids: set[str], built_by_id: Mapping[str, Configuration]
) -> tuple[list[SeedsToPack], list[SeedsToPack]]:
    """Return two lists of configurations with their seeds that are in no pack.

    The first list starts from step 0, the second continues from checkpoints of another sweep. They are packed apart,
    because all members of a pack start from step 0 if one of them has no checkpoint. `built_by_id`: configurations
    that are already built, by config_id.
    """
    new, continued = list[SeedsToPack](), list[SeedsToPack]()
    for configuration in (recorded for config_id, recorded in state.configurations.items() if config_id in config_ids):
        missing = [
            seed for seed in state.list_planned_seeds(configuration.config_id) if seed not in configuration.members
        ]
        continuing = [seed for seed in missing if is_continued_member(state, configuration.config_id, seed)]
        for waiting, seeds in ((new, [seed for seed in missing if seed not in continuing]), (continued, continuing)):
            if seeds:
                waiting.append(
                    (built_by_id.get(configuration.config_id) or make_planned_configuration(configuration), seeds)
                )
    return new, continued


def make_planned_configuration(recorded: ConfigurationState) -> Configuration:
    """Return a recorded configuration as a `Configuration` of the plan."""
    return Configuration(
        number=recorded.number, config_id=recorded.config_id, values=recorded.values, resolved=recorded.resolved
    )
