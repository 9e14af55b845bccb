"""Stored weights are evaluated as in training, and weights of another shape are refused."""

import numpy as np
import pytest
import torch

from trainers.errors import ConfigError
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.stored import evaluate_stored
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, collect_weights

AVERAGES = {"raw": {}, "ema": {"decay": 0.9}}


def stored(pack: Pack, state: TrainingState) -> list[dict[str, dict[str, np.ndarray]]]:
    weights = {label: pack.layout.split(theta) for label, theta in collect_weights(pack, state).items()}
    return [
        {label: {name: value[m].numpy() for name, value in views.items()} for label, views in weights.items()}
        for m in range(len(pack))
    ]


def test_the_curves_are_those_of_the_pack_to_the_bit(member) -> None:
    members = [member(seed, training__averages=AVERAGES) for seed in (3, 0)]
    pack = Pack(members, torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    for buffers in state.averages:
        for buffer in buffers:
            if buffer.shape == state.theta.shape:
                buffer += 0.1  # so that the averages differ
    names, values = evaluate(pack, state)
    curves = evaluate_stored(members, stored(pack, state))
    assert (curves.averages, curves.lengths) == (("raw", "ema"), pack.lengths)
    derived = pack.task.derived_metrics
    assert curves.metrics == tuple(name for name in names if pack.metrics[name].base not in derived)
    places = [names.index(name) for name in curves.metrics]
    assert curves.values_MAKL.tobytes() == np.ascontiguousarray(values[:, :, places]).tobytes()
    alone = evaluate_stored(members[1:], stored(pack, state)[1:])
    assert alone.values_MAKL.tobytes() == curves.values_MAKL[1:].tobytes()


def test_weights_of_another_shape_or_of_other_parameters_are_refused(member) -> None:
    config = member(0)
    pack = Pack([config], torch.device("cpu"))
    weights = stored(pack, TrainingState.make_initial(pack))
    larger = member(0, task__vocabulary=config.task.vocabulary + 1)
    with pytest.raises(ConfigError, match=r"parameter embedding: the weights were trained with shape"):
        evaluate_stored([larger], weights)
    del weights[0]["raw"]["embedding"]
    with pytest.raises(ConfigError, match="different parameters for this task: embedding"):
        evaluate_stored([config], weights)
