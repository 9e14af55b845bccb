"""The cost of generating the answers of a test: the number of tokens that pass through a model, and their contexts.

Tokens are counted as in `trainers.evaluation.generate` if no row ends early: every token of every state is generated.
"""

from collections.abc import Callable, Iterable

from trainers.tasks.scratchpad.layout import Widths


def count_passes(tests: Iterable[Widths], *, by_state: bool, cached: bool, cost: Callable[[int], float]) -> float:
    """Return the cost of tests with these widths, in passes over their rows: a pass over true tokens, and generation.

    by_state: whether states are generated one by one. cached: whether the model has a KV cache. cost: number of tokens
    in a pass -> cost of each. A prompt longer than its question counts as the question alone, so without a KV cache the
    result is slightly too high.
    """
    generated = read = 0.0
    for widths in tests:
        row = (widths.masked if by_state else widths.full) - 1
        read += row * cost(row)
        if by_state:
            # With a KV cache each token passes once; before the next state the longest state is read once more.
            # Without, each token passes with the shared tokens and two states.
            states, width = len(widths.states), max(widths.states)
            context = widths.shared + min(states, 2) * width - 1
            cached_tokens = widths.shared + width - 1 + (states - 1) * (2 * width - 1)
            generated += (cached_tokens if cached else (widths.start + states * width) * context) * cost(context)
        elif cached:  # each token but the last passes once
            generated += row * cost(row)
        else:  # each token passes together with all tokens before it
            generated += sum(context * cost(context) for context in range(max(widths.question, 1), widths.full))
    return 1.0 + generated / read
