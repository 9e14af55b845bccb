"""A throw-away encoding that fills every hook of a layer at once."""

from dataclasses import replace

from trainers.positions.context import Context, Scores
from trainers.positions.fox import Fox
from trainers.positions.position import Sizes
from trainers.positions.shaw import Shaw
from trainers.positions.tra import ThresholdRelative
from trainers.settings.fields import setting
from trainers.tensors.parameters import Parameter


class Everything(ThresholdRelative, Fox, Shaw):
    """Threshold relative attention that forgets, with vectors of clipped differences on keys and values."""

    clip: int = setting(2)
    values: bool = setting(True)

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        return (*Fox.layer_parameters(self, name, sizes), *Shaw.layer_parameters(self, name, sizes))  # of one gate

    def score(self, context: Context) -> Scores:
        scores = ThresholdRelative.score(self, context)
        logits = scores.logits
        for other in (Fox, Shaw):
            bias = other.score(self, context).bias
            assert logits is not None and bias is not None
            logits = logits + bias
        return replace(scores, logits=logits)
