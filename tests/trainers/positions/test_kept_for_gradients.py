"""Functions with a gradient of their own, which keep less: the bits of what autograd makes of the plain ones."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainers.models.attention import _masked_softmax, _MaskedSoftmax
from trainers.positions import cope
from trainers.positions.cope import _Interpolate, _interpolate


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def values_and_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    leaves = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in inputs]
    value = function(*leaves)
    value.backward(draw(*value.shape, dtype=value.dtype))
    return [value.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def dropped_keys() -> Tensor:
    dropped = draw(2, 3, 1, 20, 20) > 0.5
    dropped[0, 1, 0, 7] = True  # a query without keys
    return dropped


def test_masked_softmax() -> None:
    logits, dropped = 4 * draw(2, 3, 4, 20, 20), dropped_keys()
    plain = values_and_gradients(_masked_softmax, logits, dropped)
    custom = values_and_gradients(_MaskedSoftmax.apply, logits, dropped)
    assert all(torch.equal(expected, actual) for expected, actual in zip(plain, custom, strict=True))
    assert custom[0][0, 1, 0, 7].abs().max() == custom[1][0, 1, 0, 7].abs().max() == 0
    few, small = dropped[:1, 1:2, :, 5:10, :6], draw(1, 1, 1, 5, 6, dtype=torch.float64)  # with the query without keys
    assert torch.autograd.gradcheck(lambda x: _MaskedSoftmax.apply(x, few), small.requires_grad_(True))


@pytest.mark.parametrize("pairs", [1, 2000, 2**18])
def test_values_between_places(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cope, "MAX_PAIRS", pairs)
    inputs = draw(2, 5, 2, 20, 8), draw(2, 5, 2, 20, 8), draw(2, 5, 2, 20, 20).abs().clamp(0.0, 7.0)
    plain, custom = (values_and_gradients(function, *inputs) for function in (_interpolate, _Interpolate.apply))
    assert all(torch.equal(expected, actual) for expected, actual in zip(plain, custom, strict=True))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (_MaskedSoftmax.apply, (draw(1, 2, 2, 16, 16), draw(1, 2, 2, 16, 16) > 0.5)),
        (_Interpolate.apply, (draw(1, 2, 2, 16, 4), draw(1, 2, 2, 16, 4), draw(1, 2, 2, 16, 16).abs().clamp(0.0, 3.0))),
    ],
)
def test_one_number_is_kept_for_each_pair(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> None:
    kept = list[Tensor]()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        function(*(tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in inputs))
    assert [tensor.dtype for tensor in kept if tensor.shape[-1] == 16] == [torch.float32]


def test_torch_func_can_differentiate_them() -> None:
    """As a model of somebody's own may do around a positional encoding."""
    dropped = dropped_keys()
    places = draw(2, 3, 1, 20, 20).abs().clamp(0.0, 3.0)
    for plain, custom, given in (
        (_masked_softmax, _MaskedSoftmax.apply, (draw(2, 3, 1, 20, 20), dropped)),
        (_interpolate, _Interpolate.apply, (draw(2, 3, 1, 20, 4), draw(2, 3, 1, 20, 4), places)),
    ):
        first, second = (torch.func.grad(lambda *x, f=f: f(*x).square().sum())(*given) for f in (plain, custom))
        assert torch.equal(first, second)
