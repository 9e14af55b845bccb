"""How keys and values are written where room is short."""

import math

from orchestrator.wording import compact_value, short_keys, three_digits


def test_words():
    keys = ["training.learning_rate", "training.averages.ema.decay", "training.averages.bema.decay", "model.dropout"]
    assert list(short_keys(keys).values()) == ["lr", "ema.decay", "bema.decay", "dropout"]
    assert list(short_keys(["task.width", "model.width"]).values()) == ["task.width", "model.width"]
    assert [compact_value(v) for v in (0.00316227, 0.99951, 0.99, True, None, 64, 1e-5, [1, 2])] == [
        "0.00316", "0.9995", "0.99", "true", "null", "64", "1e-5", "[1, 2]"
    ]  # fmt: skip
    numbers = {0.019: "0.0190", 1.0: "1.00", 123.4: "123", None: "-", math.nan: "-", math.inf: "inf"}
    assert [three_digits(number) for number in numbers] == list(numbers.values())
