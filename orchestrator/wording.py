"""How keys, values, lengths, times and deaths are written, by terminal, tables, legends and reports alike."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NOT_REACHED = "not reached"  # an infinite value of a metric that counts until something is reached
USUAL = {"learning_rate": "lr", "weight_decay": "wd", "batch_size": "batch", "train_length": "train"}


def label(number: int | None) -> str:
    """The one name of a configuration that everything shows and every command takes: label(7) -> "#7"."""
    return "-" if number is None else f"#{number}"


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


def first_few(names: Sequence[str], most: int = 3) -> str:
    """Names in a line, not more than `most` of them: first_few(["a", "b", "c"], 2) -> "a, b and 1 more"."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The keys, sorted, that two tables do not share with one value."""
    return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))


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


def three_digits(value: float | None, infinite: str = "inf") -> str:
    """A measured number with three significant digits, for columns: three_digits(0.019) -> "0.0190".

    `infinite` is how infinity is written.
    """
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return infinite if value > 0 else "-inf"
    return f"{value:#.3g}".rstrip(".")


def _close(rounded: float, value: float) -> bool:
    return abs(rounded - value) <= 0.05 * (1 - value)


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42 s, 3 min 20 s, 2 h 05 min."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: int, noun: str) -> str:
    """counted(1, "pack") -> "1 pack"; counted(2, "pack") -> "2 packs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def command(verb: str, folder: Path) -> str:
    """A command on a sweep directory, as it can be pasted into a shell."""
    return f"lengthwise {verb} {shlex.quote(str(folder))}"


def death_sentence(errors: Sequence[str], folder: Path) -> str:
    """How many packs were given up, the last error, and what to do; empty when none was."""
    if not errors:
        return ""
    more = f"details: {command('status', folder)} --trace; try them again: {command('resume', folder)} --retry-failed"
    return f"{counted(len(errors), 'pack')} died: {errors[-1]}; {more}"


def spans(numbers: Sequence[int]) -> str:
    """Lengths or seeds in words: spans((1, 2, 3, 7)) -> "1-3, 7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"
