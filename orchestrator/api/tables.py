"""Lines of the CSV tables as pandas tables."""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def table(lines: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return lines of equal columns as a table; empty cells are None, or NaN in columns of numbers."""
    return pd.DataFrame([{name: None if value == "" else value for name, value in line.items()} for line in lines])
