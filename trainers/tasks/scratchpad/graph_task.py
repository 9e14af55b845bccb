"""What tasks on graphs share: the tokens, the names of nodes, and the label that an answer ends with.

Shapes: M members, B rows, G tokens of an answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from torch import Tensor

from trainers.errors import Problem
from trainers.settings.fields import setting
from trainers.tasks.scratchpad import walks
from trainers.tasks.scratchpad.graphs import SPECIALS, START, vocabulary
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.scratchpad_task import INDUCTIVE, NONE, ScratchpadTask


class GraphTask(ScratchpadTask):
    """Whether one node of a graph leads to another."""

    tried_with: ClassVar[Mapping[str, Any]] = {"names": 30}

    names: int = setting(1000, low=2, help="names that nodes can have")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens as one reads them; the first one is the pad."""
        return vocabulary(self.names)

    @property
    def start(self) -> str | None:
        """The token between the question and the first state of an inductive scratchpad."""
        return SPECIALS[START] if self.scratchpad == INDUCTIVE else None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts of a state."""
        return walks.FIELDS if self.scratchpad != NONE else ()

    @property
    def judged(self) -> tuple[str, ...]:
        """exact_match: whole answers; label: the first end mark and the label before it."""
        return ("exact_match", "label")

    def right(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Of what a model wrote, whether each row is right by each metric of `judged`, (M, B)."""
        assert batch.answer is not None
        return {**super().right(written_MBG, batch), "label": walks.labelled(written_MBG, batch.answer)}

    def name_problems(self, nodes: int) -> Iterator[Problem]:
        """A problem if the largest graph has more nodes than there are names."""
        if self.names < nodes:
            message = f"{self.names} are too few for a graph of {nodes} nodes"
            yield Problem(key="names", given=self.names, message=message, allowed=f">= {nodes}")
