"""The cost of generating the answers of a test: how many tokens pass through a model, each with how long a context.

It counts as `trainers.evaluation.generate` passes tokens, with every token of every state generated: no row ends early.
"""

from collections.abc import Callable, Iterable

from trainers.tasks.scratchpad.layout import Widths


def count_passes(every: Iterable[Widths], *, by_state: bool, cached: bool, cost: Callable[[int], float]) -> float:
    """Return the cost of tests with these widths, in passes over their rows: one with the true tokens, and generation.

    cached: whether there is a KV cache. cost: of one token in a pass over this many. A prompt that is longer than its
    question is taken for the question alone, so that without a KV cache a few tokens more are counted.
    """
    generated = read = 0.0
    for widths in every:
        row = (widths.masked if by_state else widths.full) - 1
        read += row * cost(row)
        if by_state:
            # With a KV cache each token passes once; before the next state the longest state is read once more.
            # Without, each token passes with the shared tokens and two states.
            states, width = len(widths.states), max(widths.states)
            context = widths.shared + min(states, 2) * width - 1
            once = widths.shared + width - 1 + (states - 1) * (2 * width - 1)
            generated += (once if cached else (widths.start + states * width) * context) * cost(context)
        elif cached:  # each token but the last passes once
            generated += row * cost(row)
        else:  # each one passes with all tokens before it
            generated += sum(before * cost(before) for before in range(max(widths.question, 1), widths.full))
    return 1.0 + generated / read
