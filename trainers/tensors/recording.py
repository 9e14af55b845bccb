"""Values that a torch module records in a pass, such as the loops of a row, for metrics of the model and of one's own.

Shapes: B rows, T positions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

Values = dict[str, list[Tensor | float]]

_current: ContextVar[Values | None] = ContextVar("recorded values of the call at hand", default=None)


def record(name: str, value: Tensor | float | Callable[[], Tensor | float]) -> None:
    """Record a value of the called module under a name; no effect where nothing reads it, as in training steps.

    value: a number, or a tensor () of the member, (B,) of its rows, (B, T) of its tokens, or (B, ...). A function is
    called for its value, and only if something reads it. Values that are recorded under one name are a list.
    """
    values = _current.get()
    if values is not None:
        values.setdefault(name, []).append(value() if callable(value) else value)


@contextmanager
def recording_to(values: Values) -> Iterator[None]:
    """Collect the values that modules record in the context into `values`."""
    token = _current.set(values)
    try:
        yield
    finally:
        _current.reset(token)
