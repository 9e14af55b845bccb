"""Keyed counter-based random streams: Philox4x32-10 (Salmon et al., SC'11), in C on a CPU and in torch elsewhere."""

from trainers.random.library import said
from trainers.random.reference import philox4x32
from trainers.random.stream import STREAMS, Stream

__all__ = ["STREAMS", "Stream", "philox4x32", "said"]
