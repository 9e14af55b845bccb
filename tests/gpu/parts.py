"""The parts of the check of a device: each yields rows of results, one after the other, as long as there is time."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from baseline import Trainer
from cases import COMPILED, EAGER, Member
from torch import Tensor
from workloads import W1, W2, Workload

from trainers import Checkpoints, MemberConfig
from trainers.evaluate import evaluate
from trainers.pack import Pack, State, weights_of
from trainers.random import STREAMS, Stream
from trainers.step import stepper

Row = dict[str, Any]
TOLERANCE = 1e-5  # of weights after so many float32 steps, against the CPU
NARROW_TOLERANCE = 0.02  # of mean losses in bfloat16, which has 8 bits, relative


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much each part does: all of it, or a little to see that it works."""

    steps: int = 50
    cases: int | None = None  # of each list, None: all
    members: tuple[int, ...] = (1, 8, 64, 256, 1024)
    seconds: float = 1.0  # for each measured speed


TOY = Size(steps=3, cases=3, members=(1, 2), seconds=0.05)


def some(cases: Mapping[str, list[Member]], size: Size) -> list[tuple[str, list[Member]]]:
    """The cases, or a few of them spread over the list."""
    every = list(cases.items())
    return every if size.cases is None else every[:: max(1, len(every) // size.cases)][: size.cases]


def packed(members: list[Member], device: str, steps: int, compiled: bool) -> Pack:
    """A pack of these members, trained for so many steps."""
    training = {"steps": steps, "compile": compiled}
    return Pack(
        [MemberConfig.from_dict({**one, "training": {**one["training"], **training}}) for one in members],
        torch.device(device),
    )


def stepped(pack: Pack, state: State, steps: int) -> State:
    """The state after so many more steps."""
    step = stepper(pack)
    for _ in range(steps):
        step(state)
    return state


def apart(one: tuple[Pack, State], other: tuple[Pack, State]) -> Row:
    """How far two trained packs are from each other: weights of every average, and curves."""
    weights = [{label: theta.cpu() for label, theta in weights_of(*side).items()} for side in (one, other)]
    furthest = max(float((weights[0][label] - weights[1][label]).abs().max()) for label in weights[0])
    curves = [torch.from_numpy(evaluate(*side)[1]) for side in (one, other)]
    both = torch.isfinite(curves[0]) & torch.isfinite(curves[1])
    return {
        "weights apart": furthest,
        "curves apart": float((curves[0] - curves[1])[both].abs().max()) if both.any() else 0.0,
        "good": furthest <= TOLERANCE and torch.equal(torch.isfinite(curves[0]), torch.isfinite(curves[1])),
    }


def random_numbers(device: str, size: Size) -> Iterator[Row]:
    """Philox and what is made of it: integers bit for bit, normals to rounding."""
    seeds = torch.tensor([0, 7, 2**40 + 3, 2**63 - 1])
    for name in STREAMS:
        streams = [Stream(seeds.to(where), name, torch.tensor(12345, device=where)) for where in ("cpu", device)]
        bits = [stream.bits(3, (257, 31)).cpu() for stream in streams]
        rows = [stream.bits(3, (257, 31), rows=(5, 99)).cpu() for stream in streams]
        orders = [stream.permutations(1, 64, 40, 20).cpu() for stream in streams]
        normals = [stream.normal(2, (4096,)).cpu() for stream in streams]
        furthest = float((normals[0] - normals[1]).abs().max())
        equal = all(torch.equal(*pair) for pair in (bits, rows, orders))
        yield {"case": f"stream {name}", "normals apart": furthest, "good": equal and furthest < 1e-5}


def against_cpu(device: str, size: Size) -> Iterator[Row]:
    """Every shipped task, model, position, average and schedule: trained here and on the CPU."""
    for name, members in some(EAGER, size):
        sides = []
        for where in ("cpu", device):
            pack = packed(members, where, size.steps, False)
            sides.append((pack, stepped(pack, State.initial(pack), size.steps)))
        yield {"case": name, **apart(sides[0], sides[1])}


def compiled(device: str, size: Size) -> Iterator[Row]:
    """Compiled steps against eager ones, on the device."""
    for name, members in some(COMPILED, size):
        sides = []
        for wanted in (False, True):
            pack = packed(members, device, size.steps, wanted)
            sides.append((pack, stepped(pack, State.initial(pack), size.steps)))
        yield {"case": name, **apart(sides[0], sides[1])}


def resumed(device: str, size: Size) -> Iterator[Row]:
    """A checkpoint written on one device and gone on with on the other, against the whole on the latter."""
    for name, members in some(COMPILED, size):
        for begin, end in (("cpu", device), (device, "cpu")):
            half = size.steps // 2
            first, second = (packed(members, where, size.steps, False) for where in (begin, end))
            names = [(one.config_id, one.seed) for one in first.members]
            with tempfile.TemporaryDirectory() as folder:
                checkpoints = Checkpoints(folder=Path(folder), every_steps=1)
                checkpoints.save(stepped(first, State.initial(first), half).snapshot(first, []), names)
                snapshot, _ = checkpoints.load(names)
            assert snapshot is not None
            state = State.initial(second).restored(snapshot, second)
            whole = packed(members, end, size.steps, False)
            sides = (
                (second, stepped(second, state, size.steps - half)),
                (whole, stepped(whole, State.initial(whole), size.steps)),
            )
            yield {"case": f"{name}: {begin} to {end}", **apart(*sides)}


NARROW = ("lstm", "decoder: tra", "decoder: rope base 100.0", "encoder: rpe")


def narrow(device: str, size: Size) -> Iterator[Row]:
    """Passes in bfloat16 on the device, eager and compiled: mean losses against those of float32, and curves."""
    for name, members in some({name: EAGER[name] for name in NARROW}, size):
        found = []
        for numbers, wanted in (("float32", False), ("bfloat16", False), ("bfloat16", True)):
            typed = [{**one, "training": {**one["training"], "compute_dtype": numbers}} for one in members]
            pack = packed(typed, device, size.steps, wanted)
            state = stepped(pack, State.initial(pack), size.steps)
            found.append((state.loss_sum.cpu() / size.steps, evaluate(pack, state)[1], int(state.failed_at.max())))
        (loss, curves, _), others = found[0], found[1:]
        apart = max(float(((of / loss) - 1).abs().max()) for of, _, _ in others)
        finite = np.isfinite(curves)
        whole = all(np.array_equal(np.isfinite(of), finite) and failed < 0 for _, of, failed in others)
        yield {"case": name, "losses apart, relative": apart, "good": whole and apart < NARROW_TOLERANCE}


def _workload(work: Workload, form: str) -> Callable[[int], Member]:
    return lambda i: {**work.member(i % len(work.configurations), form, False), "seed": i // len(work.configurations)}


def _transformer(
    model: str, task: Mapping[str, Any], position: str, numbers: str = "float32"
) -> Callable[[int], Member]:
    sizes = {"name": model, "layers": 4, "width": 128, "heads": 4, "position": position, "dropout": 0.1}
    training = {"steps": 1000, "batch_size": 64, "learning_rate": 1e-3, "compute_dtype": numbers}
    return lambda i: {"task": task, "model": sizes, "training": training, "evaluation": {"samples": 64}, "seed": i}


BOARD = {"name": "othello", "board": 6, "train_moves": 24}
SPEEDS: dict[str, Callable[[int], Member]] = {
    "W1, table": _workload(W1, "auto"),
    "W1, plain": _workload(W1, "plain"),
    "W2, table": _workload(W2, "auto"),
    "decoder 4L/128": _transformer("decoder", BOARD, "rope"),
    "decoder 4L/128, bfloat16": _transformer("decoder", BOARD, "rope", "bfloat16"),
    "encoder 4L/128": _transformer("encoder", {"name": "padded_addition", "width": 12, "train_digits": 5}, "rpe"),
}


def speed(device: str, size: Size) -> Iterator[Row]:
    """The sequential script, then packs: member-steps a second, seconds of an evaluation, kernels a step, memory."""
    for work in (W1, W2):
        yield {"case": f"{work.name}, sequential script", "members": 1, **_sequential(work, device, size)}
    for wanted in (False, True):
        for count in size.members:
            for name, member in SPEEDS.items():
                form = "compiled" if wanted else "eager"
                try:
                    found = _speed([member(i) for i in range(count)], device, wanted, size)
                except torch.OutOfMemoryError:
                    found = {"good": False, "note": "out of memory"}
                yield {"case": f"{name}, {form}", "members": count, **found}


def _speed(members: list[Member], device: str, wanted: bool, size: Size) -> Row:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    pack = packed(members, device, 1000, wanted)
    state = State.initial(pack)
    step, done = stepper(pack), 0
    for _ in range(3):
        step(state)
    _finished(device)
    began = time.perf_counter()
    while done == 0 or time.perf_counter() - began < size.seconds:
        step(state)
        done += 1
        if done % 10 == 0:
            _finished(device)
    _finished(device)
    rate = len(members) * done / (time.perf_counter() - began)
    evaluate(pack, state)
    began = time.perf_counter()
    evaluate(pack, state)
    _finished(device)
    return {
        "member-steps a second": rate,
        "evaluation, seconds": time.perf_counter() - began,
        "kernels a step": _kernels(lambda: step(state), device),
        "peak MiB": torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None,
        "good": bool((state.failed_at < 0).all()),
    }


def _kernels(run: Callable[[], None], device: str) -> int:
    """Kernels that one call starts; on the CPU operators, which are about as many."""
    from torch.profiler import ProfilerActivity, profile

    activity = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiled:
        run()
        _finished(device)
    return sum(event.count for event in profiled.key_averages())


def _sequential(work: Workload, device: str, size: Size) -> Row:
    """One seed of the sequential script, evaluations included."""
    trainer = Trainer(work, False, device)
    short = size.steps < Size.steps
    trainer.work = Workload(**{**vars(work), "steps": 5, "every": 5}) if short else work
    trainer.train(0, 0)
    began = time.perf_counter()
    trainer.train(0, 1)
    _finished(device)
    return {"member-steps a second": trainer.work.steps / (time.perf_counter() - began), "good": True}


def _finished(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


PARTS: dict[str, tuple[float, Callable[[str, Size], Iterator[Row]]]] = {  # share of the time, what is run
    "random numbers": (0.03, random_numbers),
    "against the CPU": (0.32, against_cpu),
    "compiled against eager": (0.15, compiled),
    "checkpoints across devices": (0.1, resumed),
    "bfloat16": (0.1, narrow),
    "speed": (0.3, speed),
}


def shown(value: Any) -> str:
    """A cell of a table."""
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
