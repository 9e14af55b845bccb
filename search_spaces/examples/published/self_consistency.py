"""Metrics of several independently sampled answers to each question.

pass@k is the probability that any of k answers is right, after "Evaluating Large Language Models Trained on Code" (Chen
et al., arXiv:2107.03374, eq. 1). Self-consistency is whether the most frequent answer is right, whatever its steps,
after "Self-Consistency Improves Chain of Thought Reasoning" (Wang et al., arXiv:2203.11171).

Shapes: M members, B rows, D draws, A tokens of an answer.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from trainers import Metric, register, setting
from trainers.errors import Problem


class SampledAnswers(Metric):
    """Base of metrics of sampled answers; metrics with equal draws and temperature score the same answers."""

    direction = "maximize"
    trial_task: ClassVar[Mapping[str, Any]] = {"name": "half_parity", "size": 2}

    draws: int = setting(16, low=1, high=4096, help="sampled answers to each question")
    temperature: float = setting(0.7, above=0.0, help="softmax temperature of sampling")

    def sample_answers(self, evaluated):
        """Return the sampled answers (M, B, D, A), and the right answer of each row (M, B, 1, A)."""
        answers = evaluated.sample_answers(draws=self.draws, temperature=self.temperature)
        return answers, evaluated.true_answers[:, :, None]


@register("metric", "pass_at_k")
class PassAtK(SampledAnswers):
    """Probability that any of k answers is right: 1 - C(wrong, k) / C(draws, k), an unbiased estimate."""

    k: int = setting(1, low=1, help="number of answers of which any must be right; at most draws")

    def find_combination_problems(self):
        """Yield a problem if there are fewer draws than k."""
        if self.k > self.draws:
            message = f"needs at least {self.k} answers, but draws is {self.draws}"
            yield Problem(key="k", given=self.k, message=message, allowed=f"1 to {self.draws}")

    def score_rows(self, evaluated):
        """Return the estimate for each row, (M, B, 1)."""
        answers, right_answers = self.sample_answers(evaluated)
        wrong_count = self.draws - (answers == right_answers).all(dim=-1).sum(dim=-1)

        # A product of probabilities, because the binomial coefficients of many draws would overflow.
        all_wrong = torch.ones_like(wrong_count, dtype=torch.float64)
        for chosen in range(self.k):
            all_wrong = all_wrong * (wrong_count - chosen).clamp(min=0) / (self.draws - chosen)
        return (1 - all_wrong)[..., None]


@register("metric", "majority")
class Majority(SampledAnswers):
    """Whether the most frequent answer is right; of equally frequent answers, the first drawn counts."""

    def score_rows(self, evaluated):
        """Return 1 or 0 for each row, (M, B, 1)."""
        answers, right_answers = self.sample_answers(evaluated)
        votes = (answers[:, :, :, None] == answers[:, :, None]).all(dim=-1).sum(dim=-1)  # for each draw, (M, B, D)
        is_right = (answers == right_answers).all(dim=-1)
        return is_right.gather(-1, votes.argmax(dim=-1, keepdim=True)).float()
