"""Causal transformer decoder in the style of GPT-1 and minGPT."""

from typing import ClassVar

from trainers.models.transformer import Transformer
from trainers.settings.fields import setting
from trainers.settings.registry import register


@register("model", "decoder")
class Decoder(Transformer):
    """Causal transformer; defaults as in the Othello study (Li et al., arXiv:2210.13382), but without dropout."""

    causal: ClassVar[bool] = True

    layers: int = setting(8, low=1, help="number of blocks")
    width: int = setting(512, low=1, help="embedding width")
