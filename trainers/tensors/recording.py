"""Values that a torch module records in a pass, such as the number of loops of a row, for metrics.

Shapes: B rows, T positions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

Values = dict[str, list[Tensor | float]]

_current: ContextVar[Values | None] = ContextVar("recorded values of the current call", default=None)


def record(name: str, value: Tensor | float | Callable[[], Tensor | float]) -> None:
    """Record a value under a name, called in the `forward` of a module; no effect in training steps.

    value: a number, or a tensor: () for the member, (B,) for its rows, (B, T) for its tokens, or (B, ...). A function
    is called for its value, and only if the value is used. Values recorded under the same name form a list.
    """
    values = _current.get()
    if values is not None:
        values.setdefault(name, []).append(value() if callable(value) else value)


@contextmanager
def record_into(values: Values) -> Iterator[None]:
    """Append the values that modules record in this context to `values`."""
    token = _current.set(values)
    try:
        yield
    finally:
        _current.reset(token)
