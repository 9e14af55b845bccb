"""The environments of the packs of a running sweep, as their workers report them."""

from collections.abc import Mapping
from typing import Any

from orchestrator.code.code_record import compute_mapping_digest
from orchestrator.engine.environment import ENGINE, compute_trainers_digest


class ReportedEnvironments:
    """The environments of the packs of a driver, as their workers report them."""

    def __init__(self) -> None:
        self._environments: dict[str, dict[str, Any]] = {}  # by pack_id
        self._engines = set[str]()

    def store_and_compare(self, pack_id: str, environment: dict[str, Any]) -> str | None:
        """Store the environment of a pack; return a warning, once, if its worker runs different code of lengthwise."""
        known_engines = {compute_trainers_digest(), *self._engines}
        self._environments[pack_id] = environment
        if ENGINE not in environment:  # a program
            return None
        self._engines.add(environment[ENGINE])
        if environment[ENGINE] in known_engines:
            return None
        return "worker and driver run different code of lengthwise; see Provenance in report.html"

    def get_device(self, pack_id: str) -> str | None:
        """Return the device of the worker of a pack, None before it has reported its environment."""
        environment = self._environments.get(pack_id)
        return None if environment is None else str(environment.get("device"))

    def make_fields(self, pack_id: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recorded fields of a pack's environment: its digest, and its content unless it is `recorded`."""
        environment = self._environments.get(pack_id)
        if environment is None:
            return {}
        digest = compute_mapping_digest(environment)
        return {"environment": digest} | ({} if digest in recorded else {"environment_in_full": {digest: environment}})
