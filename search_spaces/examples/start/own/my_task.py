"""A task of your own: the tokens that a model reads, and the right answers."""

from trainers import Batch, Task, register, setting


@register("task", "running_maximum")
class RunningMaximum(Task):
    """Input: random tokens. Output: at every position, the largest token so far.

    >>> import torch
    >>> RunningMaximum().make_batch(torch.tensor([[[1, 3, 2]]])).targets.tolist()
    [[[1, 3, 3]]]
    >>> RunningMaximum(train_length=3).trained_lengths
    (1, 2, 3)
    """

    # Settings are keys below `task` in sweep.yaml, and can be searched as task.vocabulary.
    vocabulary: int = setting(10, low=2, help="number of tokens")
    train_length: int = setting(5, low=1, help="trained on lengths 1..train_length")

    inputs = property(lambda self: self.vocabulary)  # number of input tokens, and of output tokens
    trained_lengths = property(lambda self: tuple(range(1, self.train_length + 1)))
    lengths = property(lambda self: tuple(range(1, 4 * self.train_length + 1)))  # evaluated, with the trained ones

    def draw_rows(self, stream, rows, length):
        """Return random rows, for training and for tests; random numbers come from `stream` alone."""
        return self.make_batch(stream.integers(0, (rows, length), self.vocabulary))

    def make_batch(self, tokens):
        """Return tokens (seeds, rows, length) with their targets, of the same shape."""
        return Batch(tokens, targets=tokens.cummax(dim=-1).values)
