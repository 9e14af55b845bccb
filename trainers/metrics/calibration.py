"""Expected calibration error (Naeini et al., AAAI 2015; Guo et al., arXiv:1706.04599, eq. 3).

Shapes: M members, B rows, T positions, L lengths, K bins.
"""

from typing import ClassVar

import torch
from torch import Tensor

from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.settings.fields import setting
from trainers.settings.registry import register


@register("metric", "calibration")
class Calibration(Metric):
    """Expected calibration error: the gap between confidence in the likeliest token and its accuracy, over bins.

    sum over bins k of |right_k - confidence_k| / N, with the number of right predictions and the sum of confidences in
    the bin; N is the number of counted targets of all rows. Bins have equal width.
    """

    direction: ClassVar[str] = "minimize"

    bins: int = setting(15, low=1, help="bins of the confidence, from 0 to 1")

    def score_rows(self, evaluated: EvaluatedBatch) -> Tensor:
        """Return the sum of right minus confidence in each bin, then the number of targets, (M, B, K + 1, L)."""
        # A confidence of exactly 1 belongs to the last bin.
        confidence_MBT = torch.softmax(evaluated.logits, dim=-1).amax(dim=-1)
        gap_MBT = (~evaluated.mistake_mask).to(confidence_MBT.dtype) - confidence_MBT
        bin_MBT = (confidence_MBT * self.bins).long().clamp(max=self.bins - 1)

        # The bins of all rows together are known only in `reduce`, so here each row has the sums of its bins.
        bins_K = torch.arange(self.bins, device=gap_MBT.device)
        gap_MBTK = torch.where(bin_MBT[..., None] == bins_K, gap_MBT[..., None], 0.0)
        values_MBKT = torch.cat([gap_MBTK, torch.ones_like(gap_MBT)[..., None]], dim=-1).transpose(2, 3)
        sums_MBKL = values_MBKT @ evaluated.target_mask.to(values_MBKT.dtype)

        # A confidence that is NaN lies in no bin, and must not count as a gap of 0.
        is_undefined_MBL = (confidence_MBT.isnan()[..., None] & evaluated.target_mask).any(dim=2)
        return sums_MBKL.masked_fill(is_undefined_MBL[:, :, None], torch.nan)

    def reduce(self, rows: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Return the error over all rows, (M, L); NaN without counted targets."""
        sums_MKL = rows.double().sum(dim=1)
        return sums_MKL[:, :-1].abs().sum(dim=1) / sums_MKL[:, -1]
