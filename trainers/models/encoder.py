"""Bidirectional transformer encoder in the style of BERT (Devlin et al., arXiv:1810.04805)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from trainers.models.dropout import dropout_rate
from trainers.models.transformer import NORM_HELP, NORMS, Transformer
from trainers.settings.fields import setting
from trainers.settings.registry import register


@register("model", "encoder")
class Encoder(Transformer):
    """Bidirectional transformer; defaults as in the arithmetic study (Sabbaghi et al., arXiv:2406.01895).

    Post-norm, a layer norm after the embedding, epsilon 1e-12 and dropout 0.1 as in BERT; no token types and no mask.
    """

    trial_task: ClassVar[Mapping[str, Any]] = {"name": "padded_addition", "width": 4, "train_digits": 2}

    causal: ClassVar[bool] = False
    embedding_norm: ClassVar[bool] = True
    epsilon: ClassVar[float] = 1e-12

    layers: int = setting(6, low=1, help="number of blocks")
    width: int = setting(768, low=1, help="embedding width")
    norm: str = setting("post", choices=NORMS, help=NORM_HELP)
    dropout: float = dropout_rate(0.1)
