"""The random streams that members of programs with the same seed share, as the sweep file declares them."""

from collections.abc import Collection, Mapping
from typing import Any


def find_shared_program_streams(
    first: Mapping[str, Any], second: Mapping[str, Any], differing: Collection[str]
) -> dict[str, list[str]]:
    """Return the streams that both configurations declare under `program.seed_shares`; lengthwise cannot check them."""
    declared = [configuration["program"].get("seed_shares") or () for configuration in (first, second)]
    return {name: [] for name in declared[0] if name in declared[1]}
