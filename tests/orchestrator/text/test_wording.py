"""How keys and values are written where room is short."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import orchestrator
from orchestrator.text.wording import (
    SHORT_NAMES,
    compact_pair,
    compact_value,
    describe_wrong_numbers,
    format_duration,
    format_number,
    format_ranges,
    format_steps,
    group_errors,
    join_with_and,
    read_numbers,
    shorten_keys,
)
from tests.orchestrator.number_cases import FUNCTIONS, TEXTS


def test_words():
    keys = ["training.learning_rate", "training.averages.ema.decay", "training.averages.bema.decay", "model.dropout"]
    assert list(shorten_keys(keys).values()) == ["lr", "ema.decay", "bema.decay", "dropout"]
    assert list(shorten_keys(["model.position.name"]).values()) == ["position"]
    assert compact_value({"name": "rope", "base": 500.0}) == "rope (base 500)"
    assert list(shorten_keys(["task.width", "model.width"]).values()) == ["task.width", "model.width"]
    assert [compact_value(v) for v in (0.00316227, 0.99951, 0.99, True, None, 64, 1e-5, [None, "a"])] == [
        "0.00316", "0.9995", "0.99", "true", "null", "64", "1e-5", "[null, a]"
    ]  # fmt: skip
    assert [format_ranges(x) for x in ((), (4,), (1, 2, 3, 7), (2, 1))] == ["none", "4", "1-3, 7", "1-2"]
    assert [join_with_and(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


PARTS = st.sampled_from(["training", "task", "averages", "ema", "name", "lr", "train", *SHORT_NAMES])


@given(st.sets(st.lists(PARTS, min_size=1, max_size=4).map(".".join), max_size=8))
@example({"config.learning_rate", "config.lr"})
@example({"task.train", "task.train_length"})
@example({"learning_rate", "lr"})
@example({"model", "model.name", "model.name.name"})
def test_short_names_differ(keys: set[str]) -> None:
    names = shorten_keys(sorted(keys))
    assert names.keys() == keys and len(set(names.values())) == len(keys)


@pytest.mark.parametrize("name", TEXTS)
def test_numbers(name: str) -> None:
    assert {number: FUNCTIONS[name](number) for number in TEXTS[name]} == TEXTS[name]


def test_numbers_without_a_value() -> None:
    assert [format_number(number) for number in (None, math.nan, -0.0)] == ["-", "-", "0.00"]
    assert [compact_value(number) for number in (1e9, 1e10, 1e-10)] == ["1e9", "1e10", "1e-10"]


def test_steps_are_written_in_full() -> None:
    assert [format_steps(steps) for steps in (24, 24.5, 1234567, 1234567.5)] == [
        "24", "24.5", "1,234,567", "1,234,567.5"
    ]  # fmt: skip


def test_compact_pairs_differ() -> None:
    assert compact_pair(0.0551, 0.055) == ("0.0551", "0.055")
    assert compact_pair(0.0551, 0.0550576) == ("0.0551", "0.0550576")


def test_errors_that_differ_in_numbers_are_grouped() -> None:
    groups = group_errors(
        [
            ("KeyError: 'x'", 0),
            ("out of memory at step 1,120: 38.50 MiB at 0x7f01ab, pid 41 of d2b839d8669a", 1),
            ("out of memory at step 240: 7 MiB at 0x80, pid 5 of 929e3839c8f4", 2),
            ("out of memory at line 240", 3),
            ("KeyError: 'y'", 4),
        ]
    )
    assert [*groups.values()] == [[1, 2], [0], [3], [4]]
    assert next(iter(groups)).startswith("out of memory at step 1,120: 38.50 MiB")


def test_every_command_in_a_message_is_quoted_for_a_shell() -> None:
    """`wording.format_command` does it: nothing else puts a path behind a verb."""
    verbs = "attention|compare|confirm|data|plan|publish|repair|report|resume|run|status|ui|validate"
    unquoted = [
        line.strip()
        for path in Path(orchestrator.__file__).parent.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(rf"lengthwise ({verbs}) [^\"`]*\{{(?!shlex)", line)
    ]
    assert not unquoted


def test_numbers_are_read_as_they_are_shown():
    numbers = (1, 2, 3, 7)
    assert read_numbers(format_ranges(numbers)) == numbers and read_numbers("7,1-2") == (7, 1, 2)
    assert [read_numbers(text) for text in ("", "a", "3-1", "1,1-2", "-1", "0-9999999999", "²")] == [()] * 7
    for text, named in (("7, 3-1", "3-1 is rev"), ("1,1-2", "1 is rep"), ("0-9999999999", "0-9999999999"), ("a", "")):
        assert named in describe_wrong_numbers(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (3600, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text
