"""What a member costs, where its task and its model cannot take a step together."""

from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from orchestrator.engine.engine import count_equivalent_steps, estimate_cost_or_refuse
from orchestrator.errors import UserError
from trainers.config.member import MemberConfig
from trainers.models.model import Model
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch
from trainers.training.cost import estimate_member_cost

PLAIN: dict[str, Any] = {
    "task": {"name": "set_complement", "vocabulary": 8, "train_length": 3},
    "model": {"name": "attention_only", "width": 8},
    "training": {"steps": 5, "batch_size": 4, "learning_rate": 0.01},
}


class Meant(SetComplement):
    """Gives a mean loss."""

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> Any:
        return super().loss(logits_MBTV, batch)[0]


def test_a_failing_step_is_reported_with_its_classes_and_module() -> None:
    member = MemberConfig.from_dict(PLAIN)
    assert estimate_cost_or_refuse(member) == estimate_member_cost(member)
    with pytest.raises(UserError) as caught:
        estimate_cost_or_refuse(replace(member, task=Meant(vocabulary=8, train_length=3)))
    message = str(caught.value)
    assert message.startswith("task set_complement and model attention_only cannot take a step: ValueError: ")
    assert message.endswith(f"; for the cause run python -m trainers.check {__name__}")


def test_texts_that_are_written_count_as_the_passes_that_their_task_says() -> None:
    """Four lengths of 50 rows each, a tenth of a trained row each where nothing is written; batches have 4 rows."""

    class Written(SetComplement):
        passes = 3.0

        def passes_with(self, model: Model) -> float:
            return self.passes if model.width == 8 else 30.0

    member = MemberConfig.from_dict({**PLAIN, "evaluation": {"samples": 50, "lengths": [1, 2, 3, 4]}})
    written = replace(member, task=Written(vocabulary=8, train_length=3))
    assert count_equivalent_steps(member) == pytest.approx(5 + 0.1 * 4 * 50 / 4)
    assert count_equivalent_steps(written) == pytest.approx(5 + 3 * 0.1 * 4 * 50 / 4)
    forgetful = replace(written, model=replace(written.model, width=9))
    assert count_equivalent_steps(forgetful) == pytest.approx(5 + 30 * 0.1 * 4 * 50 / 4)
