"""The first record of a ledger, and the comparison of what is read with what was written."""

FIRST = {"name": "s", "study": "t", "spec": {"b": 1, "a": [1.5, None]}, "spec_hash": "h", "provenance": {}}


def same(left: object, right: object) -> bool:
    """Equality that also tells -0.0 from 0.0 and True from 1, and takes NaN for equal to NaN."""
    return repr(left) == repr(right)
