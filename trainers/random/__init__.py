"""Keyed counter-based random streams: Philox4x32-10 (Salmon et al., SC'11), in C on a CPU and in torch elsewhere."""

from trainers.random import fused, library
from trainers.random.fused import fuse
from trainers.random.reference import philox4x32
from trainers.random.stream import STREAMS, Stream

__all__ = ["STREAMS", "Stream", "fuse", "philox4x32", "said"]


def said() -> str | None:
    """What a person should know of how numbers are drawn here, once in a process."""
    return library.said() or fused.said()
