"""The progress of a running pack in its driver."""

from dataclasses import dataclass


@dataclass
class RunningPack:
    """A pack that a worker is training, by its last heartbeat."""

    phase: str = "starting"
    step: int = 0
    member_steps_per_second: float = 0.0
    seconds: float = 0.0  # of training, also in earlier attempts
