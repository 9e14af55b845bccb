"""Record packs that ran out of memory, and limit the size of similar packs; pure functions of a ledger."""

from dataclasses import dataclass

MEMORY_TOLERANCE = 0.1  # share by which the reported memory of the same workers may differ between starts of Ray


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A pack that ran out of memory: its structure, number of members, and the bytes it was planned for."""

    structural_key: str
    members: int
    bytes: int

    def find_max_members(self, bytes_per_worker: float) -> int:
        """Return the maximum size of such packs: half the size of this pack, scaled for workers with other memory."""
        half, ratio = (self.members + 1) // 2, bytes_per_worker / max(1, self.bytes)
        return half if abs(ratio - 1) <= MEMORY_TOLERANCE else max(1, int(half * ratio))
