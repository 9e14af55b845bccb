"""The sampler of a running sweep: draws its configurations one generation after the other."""

from collections.abc import Iterable

from orchestrator.plan import search
from orchestrator.plan.configurations import Configuration, configure
from orchestrator.plan.recorded import as_then, names_today, refuse_changed
from orchestrator.record.state.parts import ConfigurationState
from orchestrator.record.state.state import SweepState
from search_spaces import SweepSpec


class ConfigurationSampler:
    """Draws what the ledger does not have yet, with the defaults that its configurations were built with.

    `built` are those of the first generation where `spec` has just been held against today's code, which spares
    building them again.
    """

    def __init__(self, spec: SweepSpec, state: SweepState, built: Iterable[Configuration] = ()) -> None:
        self._spec, self._state = spec, state
        self._built = {one.number: one for one in built}  # until a generation is drawn
        self._as_then: SweepSpec | None = None
        self._names: dict[str, str] = {}  # the config_id in the ledger, by the one that today's code gives

    def new(self, numbers: range) -> list[Configuration]:
        """The configurations of a generation that are not recorded."""
        built, self._built = self._built, {}
        if not self._state.draws and built.keys() == set(numbers):
            self._as_then = self._spec
            found = [built[number] for number in numbers]
        else:
            found = self._drawn(numbers)
        for one in found:
            self._names.setdefault(one.config_id, one.config_id)
        return found

    def _drawn(self, numbers: range) -> list[Configuration]:
        told = []
        for number in range(numbers.start):
            earlier = self._state.configurations[self._state.draws[number].config_id]
            told.append(search.Told(values=self._state.draws[number].values, score=earlier.score))
        draws = search.draw(self._spec, numbers, told)
        new = [(draw.number, draw.values) for draw in draws if draw.number not in self._state.draws]
        if self._as_then is None:
            recorded = [as_configuration(found) for found in self._state.configurations.values()]
            self._as_then, self._names = as_then(self._spec, recorded), names_today(recorded)
            refuse_changed(self._as_then, recorded, f"{self._state.folder} cannot draw more configurations")
        return configure(self._as_then, new, self._names)


def as_configuration(found: ConfigurationState) -> Configuration:
    """A recorded configuration as the plan knows it."""
    return Configuration(number=found.number, config_id=found.config_id, values=found.values, resolved=found.resolved)
