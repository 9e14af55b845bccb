"""The fields of a hand-written record of a configuration about its metrics: it has none."""

from typing import Any

NOTHING_MEASURED: dict[str, Any] = {
    "measured": "m",
    "measured_in_full": {
        "m": {
            "lengths": [], "averages": [], "sets": [], "longest_trained": {}, "headline": [],
        }
    },
}  # fmt: skip
