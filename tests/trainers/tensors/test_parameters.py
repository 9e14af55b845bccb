"""The layout of parameters in the flat buffer of a pack."""

import torch

from trainers.tensors.parameters import Parameter, ParameterLayout

CPU = torch.device("cpu")


def test_methods_of_the_layout_keep_their_names_of_version_2_0_0() -> None:
    layout = ParameterLayout(
        [Parameter(name="a", shape=(2, 2), std=1.0), Parameter(name="b", shape=(3,), std=1.0, decay=False, least=0.5)]
    )
    theta = torch.arange(14.0).reshape(2, 7)
    views = layout.views(theta)
    assert {name: tuple(view.shape) for name, view in views.items()} == {"a": (2, 2, 2), "b": (2, 3)}
    assert torch.equal(layout.flat(views), theta)
    decay, bounds = layout.decay_mask(CPU), layout.lower_bounds(CPU, torch.float64)
    assert decay is not None and decay.tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert bounds is not None and bounds[4:].tolist() == [0.5, 0.5, 0.5]
