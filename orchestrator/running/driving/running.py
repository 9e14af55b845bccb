"""What a worker trains, for the display."""

from dataclasses import dataclass


@dataclass
class Running:
    """A pack that a worker is training, as its last heartbeat told it."""

    phase: str = "starting"
    step: int = 0
    failed: int = 0
    rate: float = 0.0
