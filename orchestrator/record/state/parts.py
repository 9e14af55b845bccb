"""The parts of a sweep as its ledger tells of them: configurations, their members, draws, packs, conflicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.record.ledger.records import LEDGER_FILE

Status = Literal["planned", "running", "complete", "failed"]


@dataclass
class MemberState:
    """One seed of one configuration; `failed_at` is the training step at which it became non-finite.

    `stopped_at`: the step at which it stopped early, because it was good enough.
    """

    seed: int
    pack_id: str
    status: Status = "planned"
    failed_at: int | None = None
    stopped_at: int | None = None
    error: str | None = None
    step: int = 0
    form: str | None = None
    compiled: bool | None = None


@dataclass
class ConfigurationState:
    """One configuration with its members by seed; `score` is None until `finished`, and stays None if it failed.

    `measured` names what it measures, in `SweepState.measured`; None in ledgers that do not say it.
    `seeds_failed` counts the seeds that the score takes for failed.
    """

    config_id: str
    number: int
    values: dict[str, Any]
    resolved: dict[str, Any]
    measured: str | None = None
    members: dict[int, MemberState] = field(default_factory=dict)
    score: float | None = None
    seeds_failed: int = 0
    finished: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether its score says what its seeds did: it is finite, or infinite though fewer than half of them failed.

        The second is a step that was never reached, and no failure.
        """
        if self.score is None or math.isnan(self.score):
            return False
        return math.isfinite(self.score) or 2 * self.seeds_failed < len(self.members)


@dataclass
class Draw:
    """One numbered draw of the search; draws that resolve alike share a configuration, `duplicate_of` names it."""

    number: int
    config_id: str
    values: dict[str, Any]
    duplicate_of: str | None
    scored: bool = False
    score: float | None = None


@dataclass
class PackState:
    """One pack: its members as (config_id, seed), its evaluations by step, how often and why it died.

    `traces` has the traceback of every attempt, None where none was kept. `ran_under` has every record of the code
    (by name; None if there is none) and environment (by digest).
    """

    pack_id: str
    members: list[tuple[str, int]]
    steps: int
    structural_key: str = ""
    status: Status = "planned"
    step: int = 0
    seconds: float = 0.0
    error: str | None = None
    attempts: list[str] = field(default_factory=list)
    traces: list[str | None] = field(default_factory=list)
    evaluations: dict[int, dict[str, Any]] = field(default_factory=dict)
    ran_under: list[tuple[str | None, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Conflict:
    """A pack reported a step again with other curves; the first report was kept."""

    pack_id: str
    step: int
    kept_sha256: str
    other_sha256: str
    line: int

    def __str__(self) -> str:
        return (
            f"{LEDGER_FILE}:{self.line}: pack {self.pack_id} reported step {self.step} again with other curves "
            f"({self.other_sha256[:12]}, kept {self.kept_sha256[:12]})"
        )
