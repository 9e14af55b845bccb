"""Numbers and sentences with their texts, the same in Python (terminal, tables) and JavaScript (report.html)."""

import math
from collections.abc import Callable

import numpy as np

from orchestrator.text.wording import compact_value, format_number, format_signed

# By the name of the function in orchestrator/report/page/script/numbers.js.
FUNCTIONS: dict[str, Callable[[float], str]] = {
    "formatNumber": format_number,
    "formatSigned": format_signed,
    "compactNumber": compact_value,
}
TEXTS: dict[str, dict[float, str]] = {
    "formatNumber": {
        0.0: "0.00", 0.019: "0.0190", 1.0: "1.00", 123.4: "123", 999.6: "1.00e+03", 1234.0: "1.23e+03",
        0.0001: "0.000100", 0.000234: "0.000234", 0.00009999: "0.000100", 0.0000234: "2.34e-05", 3e-7: "3.00e-07",
        0.5625: "0.562", 0.6875: "0.688", -1.125: "-1.12", -0.0000234: "-2.34e-05", 1e100: "1.00e+100",
        math.inf: "inf", -math.inf: "-inf",
    },
    "formatSigned": {
        0.0: "0.00", 0.019: "+0.0190", -1.0: "-1.00", 123.4: "+123", 0.0000234: "+2.34e-05",
        0.5625: "+0.562", math.inf: "+inf", -math.inf: "-inf",
    },
    "compactNumber": {
        0.00316227: "0.00316", 0.99951: "0.9995", 0.99: "0.99", 0.999999: "0.999999", 0.5: "0.5", 1e-05: "1e-5",
        0.000023456: "2.35e-5", 0.00012: "0.00012", 3e-10: "3e-10", 1234.5: "1.23e3", 12345678912.5: "1.23e10",
        64: "64", 1024: "1024", 131072: "131072", 0: "0", -2.5: "-2.5",
    },
}  # fmt: skip

# Whether a column of a table holds numbers.
COLUMNS: dict[tuple[str, ...], bool] = {
    ("1", "2=", "2="): True,
    ("0.4 [0.398, 0.401]", "-", ""): True,
    ("1,024", "-1e-05", "+2.5"): True,
    ("inf", "-inf", "not reached"): True,
    ("8, 2 failed in both",): True,
    ("1", "failed", "no score", "pruned at step 300", "..."): True,
    ("1", "failed to open"): False,
    ("1", "pre"): False,
    ("test 8-11",): False,
    ("-", ""): False,
    (): False,
}
# The parts of a sentence that a browser must not break.
UNBROKEN_PARTS: dict[str, list[str]] = {
    "#0 minus #1 is -0.02 [-0.0238, -0.0162] (95 % interval)": ["[-0.0238, -0.0162]", "95 %"],
    "at the test lengths 8-11: 3 of 8 seeds": ["8-11"],
    "trained on 1-5, 8": ["1-5"],
    "gpt-2-small and run.2024-05 in /data/1-2": [],
    f"[{'0' * 41}]": [],
    "give it another --name, or add --retry-failed; a--b and 1--2 are no options": ["--name", "--retry-failed"],
}


def draw_numbers(count: int) -> list[float]:
    """Return numbers of all sizes, of both signs, half of them exactly between two texts."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-8, 5, count // 2)
    ties = rng.integers(100, 999, count - count // 2) + 0.5
    scaled = ties / 2.0 ** rng.integers(0, 20, len(ties))
    return [*map(float, np.concatenate([sizes, scaled]) * rng.choice([-1, 1], count))]
