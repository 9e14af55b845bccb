"""Keyed counter-based random streams: Philox4x32-10 (Salmon et al., SC'11), in C on a CPU and in torch elsewhere."""

from trainers.random import c_library, fused
from trainers.random.fused import enable_fused_draws
from trainers.random.reference import philox4x32
from trainers.random.stream import STREAMS, Stream

__all__ = ["STREAMS", "Stream", "enable_fused_draws", "philox4x32", "pop_warning"]


def pop_warning() -> str | None:
    """Return a warning about slow random numbers that was not returned before in this process; None without one."""
    for state in (c_library.library_state, fused.fused_state):
        if state.failure is not None and not state.is_reported:
            state.is_reported = True
            return state.failure
    return None
