"""Fields whose type has a fixed set of values: Literal, enums, optional ones and lists of them."""

from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import pytest

from trainers.errors import ConfigError
from trainers.settings.descriptions import describe_class
from trainers.settings.fields import Settings, setting
from trainers.settings.identity import compute_digest, make_identity


class Style(StrEnum):
    PLAIN = "plain"
    HINTS = "with_hints"


class Base(IntEnum):
    TWO = 2
    TEN = 10


class Mode(Enum):
    SLOW = "slow"
    FAST = "fast"


class Chosen(Settings):
    """Every type of a fixed set."""

    literal: Literal["plain", "with_hints"] = setting("plain")
    style: Style = setting(Style.PLAIN)
    base: Base = setting(Base.TEN)
    mode: Mode = setting(Mode.SLOW)
    number: Literal[1, 2, True] = setting(1)
    optional: Literal["a", "b"] | None = setting(None)
    mixed: Literal["auto"] | int = setting("auto")
    several: tuple[Style, ...] = setting((Style.PLAIN,))


GIVEN: list[tuple[str, Any, Any]] = [
    ("literal", "with_hints", "with_hints"),
    ("style", "with_hints", Style.HINTS),
    ("style", Style.HINTS, Style.HINTS),
    ("base", 2, Base.TWO),
    ("mode", "fast", Mode.FAST),
    ("number", True, True),
    ("optional", "b", "b"),
    ("mixed", 3, 3),
    ("several", ["with_hints", "plain"], (Style.HINTS, Style.PLAIN)),
]


@pytest.mark.parametrize(("key", "value", "expected"), GIVEN, ids=[f"{key}-{value}" for key, value, _ in GIVEN])
def test_plain_values_are_accepted_and_written_again(key, value, expected) -> None:
    chosen = Chosen.from_mapping({key: value})
    assert getattr(chosen, key) == expected and type(getattr(chosen, key)) is type(expected)
    plain = chosen.to_dict()[key]
    assert plain == value and not isinstance(plain, Enum)
    assert Chosen.from_mapping(chosen.to_dict()) == chosen
    assert make_identity(chosen) == {key: plain}
    assert compute_digest(make_identity(chosen)) != compute_digest(make_identity(Chosen()))


REFUSED: list[tuple[str, Any, str, str | None]] = [
    ("literal", "with_hint", "plain, with_hints", "with_hints"),
    ("style", "with_hint", "plain, with_hints", "with_hints"),
    ("style", ["plain"], "plain, with_hints", None),
    ("base", 3, "2, 10", None),
    ("base", True, "2, 10", None),
    ("mode", "fst", "slow, fast", "fast"),
    ("number", False, "1, 2, true", None),
    ("optional", "c", "a, b, null", None),
    ("mixed", "aut", "auto or an integer", None),
    ("several", ["plane"], "a list of plain, with_hints", None),
]


@pytest.mark.parametrize(("key", "value", "allowed", "nearest"), REFUSED, ids=[f"{row[0]}-{row[1]}" for row in REFUSED])
def test_other_values_are_refused_with_the_choices(key, value, allowed, nearest) -> None:
    with pytest.raises(ConfigError) as caught:
        Chosen.from_mapping({key: value})
    (problem,) = caught.value.problems
    assert (problem.key, problem.allowed) == (key, allowed)
    assert nearest is None or problem.nearest == nearest


def test_they_are_described_with_their_choices() -> None:
    described = describe_class(Chosen).fields
    assert (
        "plain, with_hints; default plain" in described["literal"] and "slow, fast; default slow" in described["mode"]
    )
    assert described["style"] == described["literal"] and "default [plain]" in described["several"]
