"""Members that are trained on from the states of a shorter training: equal to the longer one, bit for bit."""

from pathlib import Path
from typing import Any

import pytest

from tests.trainers.runs import same, train_recorded
from trainers import Checkpoints, train
from trainers.training.start_checkpoints import explain_step_dependence, join_checkpoints


def folders(path: Path) -> tuple[Checkpoints, ...]:
    return tuple(Checkpoints(folder=path / str(number), every_seconds=1e9) for number in range(4))


@pytest.mark.parametrize("every", [2, 3, 4, None])
@pytest.mark.parametrize("rates", [(0.01, 0.02, 0.03), (1e30, 0.02, 0.03)], ids=["all", "one fails"])
def test_trained_on_equals_trained_long(member, recorder, tmp_path: Path, every: int | None, rates) -> None:
    """Two packs of the shorter training make a pack of the longer one, in another order."""
    averages = {"raw": {}, "ema": {"decay": 0.9}, "bema": {}}
    few, many = (
        [
            member(
                seed,
                evaluation__every=every,
                training__steps=steps,
                training__learning_rate=rate,
                training__averages=averages,
                model__dropout=0.2,
            )
            for seed, rate in enumerate(rates)
        ]
        for steps in (6, 11)
    )
    first, second, *_ = folders(tmp_path)
    train(few[:2], recorder, checkpoints=first)
    train(few[2:], recorder, checkpoints=second)
    order = [2, 0, 1]
    earlier = [((first, second)[index == 2].folder, (few[index].config_id, few[index].seed)) for index in order]
    longer = [many[index] for index in order]
    recorder.evaluations.clear()
    train(longer, recorder, start_checkpoints=earlier)
    assert not recorder.notices
    same(recorder.evaluations, train_recorded(longer)[0])


def test_a_pack_with_damaged_checkpoints_that_starts_from_earlier_ones_is_not_said_to_start_anew(
    member, recorder, tmp_path: Path
) -> None:
    first, second, *_ = folders(tmp_path)
    short, long = member(0, training__steps=4), member(0, training__steps=6)
    train([short], recorder, checkpoints=first)
    second.folder.mkdir()
    damaged = second.folder / "step-000000000005.ckpt"
    damaged.write_bytes(b"nonsense")
    earlier = [(first.folder, (short.config_id, short.seed))]
    train([long], recorder, checkpoints=second, start_checkpoints=earlier)
    assert len(recorder.notices) == 1 and str(damaged) in recorder.notices[0]


def test_states_that_do_not_fit_together_are_not_used(member, recorder, tmp_path: Path) -> None:
    first, second, third, fourth = folders(tmp_path)
    short, long = member(0, training__steps=4), member(1, training__steps=6)
    train([short], recorder, checkpoints=first)
    train([long], recorder, checkpoints=second)
    names = [(config.config_id, config.seed) for config in (short, long)]
    both = [(first.folder, names[0]), (second.folder, names[1])]
    wide = member(2, training__steps=4, model__width=16)
    train([wide], recorder, checkpoints=fourth)
    widths = [both[0], (fourth.folder, (wide.config_id, wide.seed))]
    for earlier, compiled, most, message in (
        (both, False, 9, "different steps"),
        (widths, False, 9, "different parameters"),
        (both[:1], True, 9, "has no usable state"),
        (both[:1], False, 3, "has no usable state"),
        ([(third.folder, names[0])], False, 9, "has no usable state"),
        ([(first.folder, names[1])], False, 9, "has no usable state"),
    ):
        snapshot, notices = join_checkpoints(earlier, (), compiled=compiled, max_step=most)
        assert snapshot is None and message in notices[-1]
    snapshot, notices = join_checkpoints(both[:1], ("before",), compiled=False, max_step=9)
    assert snapshot is not None and snapshot.step == 4 and notices == ["before"]


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"schedule": {"name": "cosine"}}, ["the schedule cosine depends on training.steps: at step 50 its factor is"]),
        ({"schedule": {"name": "linear", "decay_steps": 60}}, []),
        ({"schedule": {"name": "constant", "warmup_share": 0.5}}, ["the schedule constant depends on training.steps"]),
        ({"schedule": {"name": "constant", "warmup": 5}}, []),
        ({"stop": {"metric": "total_variation", "threshold": 0.0}}, ["members may have stopped early"]),
        ({"compile": "auto"}, ["training is compiled for 1000000 steps and not for 50"]),
    ],
)
def test_what_depends_on_the_number_of_steps_is_named(member, changes: dict[str, Any], messages: list[str]) -> None:
    given = {f"training__{key}": value for key, value in changes.items()}
    before, after = (member(evaluation__every=10, training__steps=steps, **given) for steps in (50, 1_000_000))
    explanations = list(explain_step_dependence(before, after, "cpu"))
    assert len(explanations) == len(messages) and all(map(str.startswith, explanations, messages))
