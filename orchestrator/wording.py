"""How keys and values are written where room is short: tables, legends, run names."""

import math
from collections.abc import Sequence
from typing import Any

USUAL = {"learning_rate": "lr", "weight_decay": "wd", "batch_size": "batch", "train_length": "train"}


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """The shortest tail of each dotted key that no other key shares; usual names are abbreviated.

    short_keys(["training.learning_rate", "training.averages.ema.decay"]) -> {..: "lr", ..: "ema.decay"}
    """
    short = {}
    for key in keys:
        parts = key.split(".")
        least = 2 if "averages" in parts else 1
        tails = [".".join(parts[-n:]) for n in range(min(least, len(parts)), len(parts) + 1)]
        alone = [tail for tail in tails if not any(other != key and f".{other}".endswith(f".{tail}") for other in keys)]
        tail = alone[0] if alone else key
        short[key] = USUAL.get(tail, tail)
    return short


def compact_value(value: Any) -> str:
    """A value in a few characters: three significant digits, except for values near one such as an EMA decay.

    compact_value(0.00316227) -> "0.00316"; compact_value(0.99951) -> "0.9995"; compact_value(True) -> "true"
    """
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if not isinstance(value, float):
        return " ".join(str(value).split())
    if 0.9 < value < 1:
        digits = next(
            n for n in range(3, 17) if n == 16 or (1 - round(value, n) > 0 and _close(round(value, n), value))
        )
        return str(round(value, digits))
    text = f"{value:.3g}"
    return text.replace("e-0", "e-").replace("e+0", "e")


def three_digits(value: float | None) -> str:
    """A measured number with three significant digits, for columns: three_digits(0.019) -> "0.0190"."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:#.3g}".rstrip(".")


def _close(rounded: float, value: float) -> bool:
    return abs(rounded - value) <= 0.05 * (1 - value)
