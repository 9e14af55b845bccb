"""Record packs that ran out of memory, and limit the size of similar packs; pure functions of a ledger."""

from dataclasses import dataclass

UNSTEADY = 0.1  # by how much the memory of the same workers may differ from one start of Ray to the next


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A pack that ran out of memory: how many members of which structure, and the bytes it was planned for."""

    structural_key: str
    members: int
    bytes: int

    def most_members(self, bytes_per_worker: float) -> int:
        """Return the most members of a pack of this structure: half as many, scaled if workers have other memory."""
        half, ratio = (self.members + 1) // 2, bytes_per_worker / max(1, self.bytes)
        return half if abs(ratio - 1) <= UNSTEADY else max(1, int(half * ratio))
