"""Format keys, values, lengths, times and commands for terminals, tables, legends and reports."""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.addresses import find_address
from trainers.errors import format_ranges as format_ranges  # messages of trainers list names and numbers alike
from trainers.errors import join_first_few as join_first_few

NOT_REACHED = "not reached"  # infinity, for a metric that counts steps to a threshold
MAX_RANGE_NUMBERS = 100_000  # in a range on the command line
SHORT_NAMES = {"learning_rate": "lr", "weight_decay": "wd", "batch_size": "batch", "train_length": "train"}
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12}\b|\d+(?:[.,]\d+)*")  # also memory addresses and config_ids

_Subject = TypeVar("_Subject")


def format_label(number: int | None) -> str:
    """Return the label of a configuration in tables and commands: format_label(7) -> "#7"; "-" for None."""
    return "-" if number is None else f"#{number}"


def shorten_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return a short name of each dotted key: its shortest unique tail, or the usual abbreviation of it (SHORT_NAMES).

    The names of different keys differ. A trailing `.name` is left out.
    shorten_keys(["training.learning_rate", "training.averages.ema.decay"]) -> {..: "lr", ..: "ema.decay"}
    shorten_keys(["model.name", "model.position.name"]) -> {..: "model", ..: "position"}
    shorten_keys(["config.learning_rate", "config.lr"]) -> {..: "learning_rate", ..: "lr"}
    """
    short_names = {}
    known_keys = set(keys)
    stems = {key: key if (stem := key.removesuffix(".name")) in known_keys else stem for key in keys}
    for key, stem in stems.items():
        # Every average has the same settings, so a tail without its name would say nothing.
        parts = stem.split(".")
        shortest = min(2 if "averages" in parts else 1, len(parts))
        tails = [".".join(parts[-n:]) for n in range(shortest, len(parts) + 1)]

        # The shortest tail that no other key ends with is unique; the added dots make whole parts compare.
        other_stems = [f".{other}" for other in stems.values() if other != stem]
        unique_tails = [tail for tail in tails if not any(other.endswith(f".{tail}") for other in other_stems)]
        tail = unique_tails[0] if unique_tails else stem

        # An abbreviation must not look like the tail of another key, such as `config.lr`.
        short = SHORT_NAMES.get(tail, tail)
        short_names[key] = tail if any(other.endswith(f".{short}") for other in other_stems) else short
    return short_names


def list_differing_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the sorted keys with different values in two mappings, or with a value in only one of them."""
    return sorted(key for key in {*first, *second} if first.get(key) != second.get(key))


def compact_value(value: Any) -> str:
    """Return a value as a short text: three significant digits, more just below 1 (such as an EMA decay).

    compact_value(0.00316227) -> "0.00316"; compact_value(0.99951) -> "0.9995"; compact_value(True) -> "true"
    compact_value({"name": "upe", "uniform": 3}) -> "upe (uniform 3)"; compact_value([None, "a"]) -> "[null, a]"
    compact_value({"source": "pretrained #3", "file": "...", "sha256": "...", "strict": False}) ->
    "pretrained #3 (strict false)"
    """
    # A part of a model or task is known by its name; the options follow in parentheses.
    if isinstance(value, Mapping):
        name_key = next((key for key in ("name", "source") if key in value), None)
        options = {key: item for key, item in value.items() if key != name_key}
        if name_key == "source":  # initial weights; their file and default options are left out
            hidden_keys = ("file", "sha256")
            options = {
                key: item for key, item in options.items() if key not in hidden_keys and item not in (None, True)
            }
        listing = ", ".join(f"{key} {compact_value(item)}" for key, item in options.items())
        return " ".join([*([str(value[name_key])] if name_key else []), *([f"({listing})"] if listing else [])]) or "{}"

    # Constants are written as in YAML, where the user finds them.
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(compact_value, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if not isinstance(value, float):
        return " ".join(str(value).split())

    # Decays of averages differ in their distance to 1, so show enough digits to know it within five percent.
    if 0.9 < value < 1:
        digits = next(
            n
            for n in range(3, 17)
            if n == 16 or (round(value, n) < 1 and abs(round(value, n) - value) <= 0.05 * (1 - value))
        )
        return str(round(value, digits))

    # Python writes 1e-05 and 1e+10; both become short: 1e-5, 1e10.
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.3g}")


def compact_pair(value: Any, other: Any) -> tuple[str, str]:
    """Return two different values as short texts, in full if the short texts are equal."""
    texts = compact_value(value), compact_value(other)
    return texts if texts[0] != texts[1] else (str(value), str(other))


def format_values(values: Mapping[str, Any], keys: Iterable[str] = ()) -> str:
    """Return the values of these dotted keys, or of all, as a text: "lr 0.01, dropout 0.1"."""
    names = shorten_keys([key for key in keys or values if key in values])
    return ", ".join(f"{name} {compact_value(values[key])}" for key, name in names.items())


def format_number(value: float | None, infinity_text: str = "inf") -> str:
    """Return a number with three significant digits: format_number(0.019) -> "0.0190"; "-" for NaN and None.

    `infinity_text` is the text for infinity.
    """
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return infinity_text if value > 0 else "-inf"
    return f"{value or 0.0:#.3g}".rstrip(".")  # -0.0 has no sign


def format_steps(steps: float) -> str:
    """Return a step or a median of steps in full: format_steps(1234567) -> "1,234,567"; 24.5 -> "24.5"."""
    return f"{steps:,.1f}".removesuffix(".0")


def format_signed(value: float) -> str:
    """Return a difference with its sign and three significant digits: format_signed(0.019) -> "+0.0190".

    Zero has no sign, as in orchestrator/report/page/script/numbers.js.
    """
    return f"{value:+#.3g}".rstrip(".") if value else "0.00"


def format_metric(metric: str, average: str) -> str:
    """Return a metric of an average of the weights: "loss (ema)"; of the weights themselves: "loss"."""
    return metric if average == "raw" else f"{metric} ({average})"


def describe_better(direction: str) -> str:
    """Return which values of a metric with this direction are better: "lower is better"."""
    return f"{'lower' if direction == 'minimize' else 'higher'} is better"


def format_duration(seconds: float) -> str:
    """Return a duration as a text: 42 s, 3 min 20 s, 2 h 05 min."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, remainder = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {remainder:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def format_count(number: float, noun: str) -> str:
    """Return a number with its noun: "1 pack", "2 packs", "0.5 GPUs"."""
    text = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{text} {noun}" if number == 1 else f"{text} {noun}s"


def join_with_and(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: join_with_and(["a", "b", "c"]) -> "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def format_command(verb: str, folder: Path) -> str:
    """Return a shell command on a sweep directory: "lengthwise resume sweeps/quickstart"."""
    return f"lengthwise {verb} {shlex.quote(find_address(folder) or str(folder))}"


def group_errors(errors: Iterable[tuple[str, _Subject]]) -> dict[str, list[_Subject]]:
    """Group (message, subject) pairs whose messages differ only in numbers, largest group first.

    Returns the first message of each group with all of its subjects. Memory addresses, pack_ids and config_ids count
    as numbers.
    """
    # One cause usually gives messages that differ in a seed, a step or an address.
    groups: dict[str, tuple[str, list[_Subject]]] = {}
    for message, subject in errors:
        groups.setdefault(_NUMBER.sub("0", message), (message, []))[1].append(subject)
    return dict(sorted(groups.values(), key=lambda group: -len(group[1])))


def format_lengths(numbers: Sequence[int], kind: str = "") -> str:
    """Return lengths with their noun: format_lengths((6, 7)) -> "lengths 6-7"; ((5,), "test") -> "test length 5"."""
    noun = "length" if len(numbers) == 1 else "lengths"
    return " ".join(filter(None, (kind, noun, format_ranges(numbers))))


def read_numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers of a list with ranges, in order: read_numbers("1-3, 7") -> (1, 2, 3, 7).

    Empty for any other text, for repeated numbers, and for a range of more than MAX_RANGE_NUMBERS.
    """
    numbers, problem = _parse_numbers(text)
    return () if problem else numbers


def describe_wrong_numbers(text: str) -> str:
    """Return why `read_numbers` cannot read a text: "the range 5-3 is reversed", "5 is repeated"."""
    return _parse_numbers(text)[1] or "cannot be used"


def _parse_numbers(text: str) -> tuple[tuple[int, ...], str]:
    """Return the whole numbers of a list with ranges up to its first problem, and that problem, "" without one."""
    numbers: list[int] = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
        if not match:
            return tuple(numbers), "cannot be used"
        first, last = int(match[1]), int(match[2] or match[1])

        # A huge range, probably a typing error, would fill the memory.
        if first > last:
            return tuple(numbers), f"the range {part} is reversed"
        if last - first >= MAX_RANGE_NUMBERS:
            return tuple(numbers), f"the range {part} has more than {MAX_RANGE_NUMBERS:,} numbers"
        if repeated := set(numbers).intersection(range(first, last + 1)):
            return tuple(numbers), f"{min(repeated)} is repeated"
        numbers += range(first, last + 1)
    return tuple(numbers), ""
