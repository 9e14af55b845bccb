"""The cost of generating the answers of a test: how many tokens pass through a model, each with how long a context.

It counts as `trainers.evaluation.generate` passes tokens, with every token of every state generated: no row ends early.
"""

from collections.abc import Callable, Iterable, Iterator

from trainers.tasks.scratchpad.layout import Widths

Passed = Iterator[tuple[int, int]]  # tokens, and the context that each of them passes with


def count_passes(every: Iterable[Widths], *, by_state: bool, cached: bool, cost: Callable[[int], float]) -> float:
    """Return the cost of tests with these widths, in passes over their rows: one with the true tokens, and generation.

    cached: whether there is a KV cache. cost: of one token in a pass over this many. A prompt that is longer than its
    question is taken for the question alone, so that without a KV cache a few tokens more are counted.
    """
    generated = read = 0.0
    for widths in every:
        row = (widths.masked if by_state else widths.full) - 1
        read += row * cost(row)
        passed = _passed_by_state(widths, cached) if by_state else _passed_in_one_text(widths, cached)
        generated += sum(tokens * cost(context) for tokens, context in passed)
    return 1.0 + generated / read


def _passed_by_state(widths: Widths, cached: bool) -> Passed:
    """With a KV cache each token passes once; before the next state the longest state is read once more.

    Without, each token passes with the shared tokens and two states.
    """
    states, width = len(widths.states), max(widths.states)
    context = widths.shared + min(states, 2) * width - 1
    later_states = (states - 1) * (2 * width - 1)
    calls = widths.start + states * width
    yield (widths.shared + width - 1 + later_states if cached else calls * context), context


def _passed_in_one_text(widths: Widths, cached: bool) -> Passed:
    """With a KV cache each token but the last passes once; without, each one with all tokens before it."""
    if cached:
        yield widths.full - 1, widths.full - 1
    else:
        yield from ((before, before) for before in range(max(widths.question, 1), widths.full))
