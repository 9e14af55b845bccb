"""The domains of a space: values to draw a key from, written as a mapping with the kind of domain as a key.

`{choice: [a, b]}` `{grid: [a, b]}` `{uniform: [low, high]}` `{log_uniform: [low, high]}`
`{one_minus_log_uniform: [low, high]}` `{int_uniform: [low, high], step: 1}`
`{normal: [mean, std], low: ..., high: ...}`, each with an optional `when: {other.key: value or list of values}`.
All random domains are drawn together; each draw is combined with every grid point.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from search_spaces.grammar.sections import ABSENT, SECTION_KEY

ReportProblem = Callable[..., None]
"""report(subkey, message, given=..., allowed=..., nearest=...) records a problem at `subkey` below the domain's key."""

When = dict[str, tuple[Any, ...]]
Schema = dict[str, Any]

NUMBER: Schema = {"type": "number"}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}


def _make_pair_schema(first: Schema, second: Schema) -> Schema:
    """Return the JSON Schema of a list of two values."""
    return {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}


@dataclass(frozen=True)
class Domain(ABC):
    """The values of a searched key, drawn only if other keys have the values in `when` (empty: always).

    kind: the key in a sweep file. schema: JSON Schema of its value. syntax: its form in messages. options: JSON Schemas
    of further keys.
    """

    kind: ClassVar[str]
    syntax: ClassVar[str] = "[low, high]"
    schema: ClassVar[Schema]
    options: ClassVar[dict[str, Schema]] = {}

    when: When = field(default_factory=dict, kw_only=True)

    @classmethod
    @abstractmethod
    def parse(cls, raw: dict[str, Any], when: When, report: ReportProblem) -> Self | None:
        """Return the domain that the mapping `raw` describes; None, with at least one problem, if it is invalid."""

    def to_plain(self) -> dict[str, Any]:
        """Return the domain as plain data, as in a sweep file."""
        fields = self._to_fields()
        return (
            fields | {"when": {key: make_plain(values) for key, values in self.when.items()}} if self.when else fields
        )

    @abstractmethod
    def _to_fields(self) -> dict[str, Any]:
        """Return the mapping of a sweep file, without `when`."""


@dataclass(frozen=True)
class _Listed(Domain):
    """Base of domains with a list of values."""

    schema: ClassVar[Schema] = {"type": "array", "minItems": 1, "uniqueItems": True}
    syntax: ClassVar[str] = "[a, b, ...]"

    values: tuple[Any, ...]

    @classmethod
    def parse(cls, raw: dict[str, Any], when: When, report: ReportProblem) -> Self | None:
        """Return the domain of a non-empty list of distinct values, None with a problem."""
        values = raw[cls.kind]
        if not isinstance(values, list) or not values:
            message = "must be a list of values, at least one"
            report(f".{cls.kind}", message, given=values, allowed=f"{{{cls.kind}: {cls.syntax}}}")
            return None
        seen: dict[Any, int] = {}
        for index, value in enumerate(values):
            if (first := seen.setdefault(make_value_key(value), index)) != index:
                report(f".{cls.kind}[{index}]", f"repeats item {first} of the list", given=value)
        return cls(tuple(values), when=when) if len(seen) == len(values) else None

    def _to_fields(self) -> dict[str, Any]:
        return {self.kind: make_plain(self.values)}


@dataclass(frozen=True)
class Choice(_Listed):
    """A value of the list, drawn at random for each configuration."""

    kind = "choice"


@dataclass(frozen=True)
class Grid(_Listed):
    """Every value of the list: each draw of the random domains is repeated with every combination of grid values."""

    kind = "grid"


@dataclass(frozen=True)
class _Interval(Domain):
    """Base of domains of real numbers from low to high, inside the bounds of their kind."""

    low: float
    high: float

    schema: ClassVar[Schema] = _make_pair_schema(NUMBER, NUMBER)
    above: ClassVar[float] = float("-inf")
    below: ClassVar[float] = float("inf")
    bounds: ClassVar[str] = "[low, high], two numbers, low < high"

    @classmethod
    def parse(cls, raw: dict[str, Any], when: When, report: ReportProblem) -> Self | None:
        """Return the domain of two finite numbers, low < high, inside the bounds of the kind; None with a problem."""
        pair = read_number_pair(raw, cls.kind, cls.bounds, report)
        if pair is None:
            return None

        # A draw is low plus a share of high - low, so the difference must be finite as well.
        low, high = float(pair[0]), float(pair[1])
        excluded = [index for index, bound in enumerate((low, high)) if not cls.above < bound < cls.below]
        for index in excluded:
            message = f"must be above {cls.above:g}" + (f" and below {cls.below:g}" if cls.below < float("inf") else "")
            report(f".{cls.kind}[{index}]", message, given=pair[index], allowed=cls.bounds)
        if low >= high:
            report(f".{cls.kind}", "low must be below high", given=list(pair), allowed=cls.bounds)
        if is_too_wide := high - low == float("inf"):
            report(f".{cls.kind}", "is too wide: high - low is beyond the largest number", given=list(pair))
        return cls(low, high, when=when) if low < high and not excluded and not is_too_wide else None

    def _to_fields(self) -> dict[str, Any]:
        return {self.kind: [self.low, self.high]}


@dataclass(frozen=True)
class Uniform(_Interval):
    """A real number, uniform from low to high."""

    kind = "uniform"


@dataclass(frozen=True)
class LogUniform(_Interval):
    """A real number whose logarithm is uniform; 0 < low < high."""

    kind = "log_uniform"
    schema = _make_pair_schema(POSITIVE, POSITIVE)
    above = 0.0
    bounds = "[low, high], two numbers, 0 < low < high"


@dataclass(frozen=True)
class OneMinusLogUniform(_Interval):
    """A real number x with 1 - x log-uniform: for decays near 1, as of an EMA; 0 < low < high < 1."""

    kind = "one_minus_log_uniform"
    schema = _make_pair_schema(*[{**POSITIVE, "exclusiveMaximum": 1}] * 2)
    above = 0.0
    below = 1.0
    bounds = "[low, high], two numbers, 0 < low < high < 1"


@dataclass(frozen=True)
class IntUniform(Domain):
    """A whole number, uniform over low, low + step, ..., high (both included)."""

    kind = "int_uniform"
    schema = _make_pair_schema({"type": "integer"}, {"type": "integer"})
    options: ClassVar[dict[str, Schema]] = {
        "step": {"description": "Distance between neighbouring values.", "type": "integer", "minimum": 1}
    }

    low: int
    high: int
    step: int = 1

    @classmethod
    def parse(cls, raw: dict[str, Any], when: When, report: ReportProblem) -> Self | None:
        """Return the domain of whole numbers low < high and a step that divides high - low; None with a problem."""
        bounds = "[low, high], two whole numbers, low < high"
        pair = read_number_pair(raw, cls.kind, bounds, report, whole=True)
        step = raw.get("step", 1)
        if not is_number(step, whole=True) or step < 1:
            report(".step", "must be a whole number, at least 1", given=step)
            return None
        if pair is None:
            return None

        # Optuna would lower `high` to the last value that the step reaches, and draw from another domain than written.
        low, high = pair
        if low >= high:
            report(f".{cls.kind}", "low must be below high", given=list(pair), allowed=bounds)
            return None
        if remainder := (high - low) % step:
            last = high - remainder
            nearest = f"[{low}, {last}]" if last > low else None
            report(".step", "must divide high - low", given=step, allowed=f"a divisor of {high - low}", nearest=nearest)
            return None
        return cls(low, high, step, when=when)

    def _to_fields(self) -> dict[str, Any]:
        return {"int_uniform": [self.low, self.high], "step": self.step}


@dataclass(frozen=True)
class Normal(Domain):
    """A normally distributed number of this mean and standard deviation, clipped to low and high if given."""

    kind = "normal"
    syntax = "[mean, std]"
    schema = _make_pair_schema(NUMBER, POSITIVE)
    options: ClassVar[dict[str, Schema]] = {
        "low": {"description": "Smaller values become this.", "type": ["number", "null"]},
        "high": {"description": "Larger values become this.", "type": ["number", "null"]},
    }

    mean: float
    std: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def parse(cls, raw: dict[str, Any], when: When, report: ReportProblem) -> Self | None:
        """Return the domain of a mean, a std > 0 and clip bounds around the mean; None with a problem."""
        is_valid = True
        clips: dict[str, float | None] = {}
        for name in ("low", "high"):
            clip = raw.get(name)
            if clip is not None and not is_number(clip):
                report(f".{name}", "must be a number", given=clip)
                is_valid = False
            clips[name] = None if clip is None or not is_number(clip) else float(clip)
        pair = read_number_pair(raw, cls.kind, "[mean, std], two numbers, std > 0", report)
        if pair is None:
            return None

        # low <= mean <= high, low < high and std > 0; a clip beyond the mean would give most draws the same value.
        mean, std = float(pair[0]), float(pair[1])
        if std <= 0:
            report(".normal[1]", "the standard deviation must be above 0", given=pair[1])
            is_valid = False
        low, high = clips["low"], clips["high"]
        if low is not None and low > mean:
            report(".low", f"must not be above the mean, {mean:g}", given=raw["low"])
            is_valid = False
        if high is not None and high < mean:
            report(".high", f"must not be below the mean, {mean:g}", given=raw["high"])
            is_valid = False
        if low is not None and low == high:
            report(".high", "must be above low", given=raw["high"])
            is_valid = False
        return cls(mean, std, low, high, when=when) if is_valid else None

    def _to_fields(self) -> dict[str, Any]:
        clips = {name: clip for name, clip in (("low", self.low), ("high", self.high)) if clip is not None}
        return {"normal": [self.mean, self.std], **clips}


DOMAINS: dict[str, type[Domain]] = {
    kind.kind: kind for kind in (Choice, Grid, Uniform, LogUniform, OneMinusLogUniform, IntUniform, Normal)
}

SYNTAX = ", ".join(f"{{{kind.kind}: {kind.syntax}}}" for kind in DOMAINS.values())
"""The syntax of every domain, for messages."""


def is_number(value: Any, *, whole: bool = False) -> bool:
    """Return whether a value is an int or (unless `whole`) a float; a bool is neither."""
    return isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)


def parse_number(value: Any) -> Any:
    """Return the number that a text denotes, and a whole float as an int; return other values unchanged.

    parse_number("1_000") and parse_number(1e3) -> 1000; parse_number("1e-4") -> 0.0001
    """
    # Integers come first, because a float would round large ones.
    for kind in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            value = kind(value)
            break
    return int(value) if isinstance(value, float) and value.is_integer() else value


def suggest_number(value: Any, *, whole: bool = False) -> str | None:
    """Return the YAML text of the number that was probably meant by a value of another type; None if unclear.

    suggest_number("1e-4") -> "0.0001 without quotes"; suggest_number(1e3, whole=True) -> "1000"
    """
    number = parse_number(value)
    if number is value or not is_number(number, whole=whole) or not abs(number) < 2**63:
        return None
    return f"{number} without quotes" if isinstance(value, str) and "_" not in value else str(number)


def read_number_pair(raw: dict[str, Any], kind: str, bounds: str, report: ReportProblem, *, whole: bool = False) -> Any:
    """Return the two numbers of a domain as a tuple; None, with a problem, if they are invalid."""
    # {min: 0, max: 1} is probably meant as [0, 1].
    pair = raw[kind]
    if not isinstance(pair, list) or len(pair) != 2:
        ends = list(pair.values()) if isinstance(pair, dict) else []
        nearest = str(ends) if len(ends) == 2 and all(map(is_number, ends)) else None
        report(f".{kind}", "must be a list of two numbers", given=pair, allowed=bounds, nearest=nearest)
        return None

    invalid_indices = [index for index, bound in enumerate(pair) if not is_number(bound, whole=whole)]
    for index in invalid_indices:
        message = f"must be a {'whole ' if whole else ''}number"
        nearest = suggest_number(pair[index], whole=whole)
        report(f".{kind}[{index}]", message, given=pair[index], allowed=bounds, nearest=nearest)
    return None if invalid_indices else tuple(pair)


def make_plain(value: Any) -> Any:
    """Return a deep copy of data with tuples as lists."""
    if isinstance(value, dict):
        return {key: make_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [make_plain(item) for item in value]
    return value


def make_value_key(value: Any) -> Any:
    """Return a hashable key that is equal for equal values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, dict):
        return ("mapping", frozenset((key, make_value_key(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(make_value_key(item) for item in value))
    return (isinstance(value, bool), None if value is ABSENT else value)


_WHEN_SCHEMA = {
    "description": "Drawn only if each of these keys has the given value, or one of the given list; else the key keeps "
    "its fixed value. Each of them must be a choice, a grid or a fixed value.",
    "type": "object",
    "minProperties": 1,
}


def make_space_schema() -> dict[str, Any]:
    """Return the JSON Schema of `space`: dotted keys of the open sections, each with a domain."""
    domain = {"anyOf": [_make_domain_schema(kind) for kind in DOMAINS.values()]}
    return {"type": "object", "patternProperties": {f"^{SECTION_KEY.pattern}$": domain}, "additionalProperties": False}


def make_listed_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration of `search.listed`: dotted keys of the open sections with any value."""
    return {"type": "object", "patternProperties": {f"^{SECTION_KEY.pattern}$": {}}, "additionalProperties": False}


def _make_domain_schema(kind: type[Domain]) -> dict[str, Any]:
    """Return the JSON Schema of a kind of domain."""
    description = {"description": (kind.__doc__ or "").strip()}
    properties = {kind.kind: description | kind.schema, **kind.options, "when": _WHEN_SCHEMA}
    return {"type": "object", "properties": properties, "required": [kind.kind], "additionalProperties": False}
