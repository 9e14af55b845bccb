"""The parts of the check of a device: each yields cases, which are run one after the other as long as there is time."""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from baseline import Trainer
from cases import COMPILED, EAGER, Member
from torch import Tensor
from workloads import W1, W2, Workload

from trainers import Checkpoints, MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.packs.batches import StepBatches
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, collect_weights
from trainers.random import STREAMS, Stream, fused, reference
from trainers.training.cuda_graph import MAX_GRAPHS, CudaGraphStep
from trainers.training.step import make_train_step, train_step

Row = dict[str, Any]
Case = tuple[Row, Callable[[], Row]]  # what it is, and what finds the rest of its row
WIDE_TOLERANCE = 1e-8  # of float64 weights after so many steps, against the CPU
# Of float32 weights against the CPU's float64 ones: this, and ten times as far as the CPU's float32 ones are. Some
# are far: a bias on all keys has no gradient but rounding errors, which AdamW scales up to whole steps.
TOLERANCE, TIMES_CPU = 1e-5, 10.0
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


def packed(members: list[Member], device: str, steps: int, compiled: bool, **training: Any) -> Pack:
    """A pack of these members, trained for so many steps; `training` replaces other values."""
    training = {"steps": steps, "compile": compiled, **training}
    plain = [{**member, "training": {**member["training"], **training}} for member in members]
    # as recorded ones: cases that stop early may have no evaluation in so few steps
    return Pack([MemberConfig.from_dict(member, recorded=True) for member in plain], torch.device(device))


def stepped(pack: Pack, state: TrainingState, steps: int, plain: bool = False) -> TrainingState:
    """The state after so many more steps, drawn and taken as in training; `plain`: none recorded as a CUDA graph."""

    def refused(text: str) -> None:
        raise AssertionError(text)

    step_batches, first = StepBatches(pack), int(state.step)
    learning = partial(train_step, pack) if plain else make_train_step(pack, notice=refused)
    for done in range(first, first + steps):
        learning(state, step_batches.get_batches(done, first + steps, state.stage))
    if isinstance(learning, CudaGraphStep) and steps > 2 * MAX_GRAPHS:
        assert learning.graphs, "no step was recorded"
    assert plain or isinstance(learning, CudaGraphStep) == (pack.device.type == "cuda")
    return state


Trained = tuple[Pack, TrainingState]


def trained(*arguments: Any, plain: bool = False, **training: Any) -> Trained:
    """What `packed` gives, after its steps."""
    pack = packed(*arguments, **training)
    return pack, stepped(pack, TrainingState.make_initial(pack), pack.training.steps, plain)


def furthest(first: Trained, second: Trained) -> float:
    """How far two trained packs are from each other, in any weight of any average, relative where it is above 1."""
    pairs = zip(*(collect_weights(*side).values() for side in (first, second)), strict=True)
    both = ((a.cpu().double(), b.cpu().double()) for a, b in pairs)
    return max(float(((a - b).abs() / b.abs().clamp(min=1.0)).max()) for a, b in both)


def curves_apart(first: Trained, second: Trained) -> float:
    """How far their curves are from each other; infinite where one has a number and the other none."""
    curves = [torch.from_numpy(evaluate(*side)[1]) for side in (first, second)]
    if not torch.equal(torch.isfinite(curves[0]), torch.isfinite(curves[1])):
        return math.inf
    return float((curves[0] - curves[1]).nan_to_num(0.0).abs().max())


def random_numbers(device: str, size: Size) -> Iterator[Case]:
    """Philox and what is made of it: integers bit for bit, normals to rounding; then with fused draws."""
    seeds = torch.tensor([0, 7, 2**40 + 3, 2**63 - 1])

    def compared(name: str) -> Row:
        streams = [Stream(seeds.to(where), name, torch.tensor(12345, device=where)) for where in ("cpu", device)]
        bits = [stream.bits(3, (257, 31)).cpu() for stream in streams]
        rows = [stream.bits(3, (257, 31), rows=(5, 99)).cpu() for stream in streams]
        orders = [stream.permutations(1, 64, 40, 20).cpu() for stream in streams]
        normals = [stream.normal(2, (4096,)).cpu() for stream in streams]
        furthest = float((normals[0] - normals[1]).abs().max())
        equal = all(torch.equal(*pair) for pair in (bits, rows, orders))
        return {"normals apart": furthest, "good": equal and furthest < 1e-5}

    for name in STREAMS:
        yield {"case": f"stream {name}"}, partial(compared, name)

    def drawn(count: int, of: int, steps: int) -> Row:
        """Whole draws and parts of them, of several sites and seeds, at one step or at a step each."""
        few = seeds[:of].to(device)
        step = torch.arange(12345, 12345 + of, device=device) if steps > 1 else torch.tensor(12345, device=device)
        part = (count // 3, count // 2)
        pairs = [
            (fused.call_fused(draw, *arguments), draw(*arguments))
            for draw, arguments in (
                *((reference.draw_words, (few, step, 2, site, count)) for site in (0, 1, 7)),
                (reference.draw_word_range, (few, step, 2, 3, count, part)),
            )
        ]
        return {
            "note": fused.fused_state.failure,
            "good": all(torch.equal(*pair) for pair in pairs) and fused.fused_state.failure is None,
        }

    draws = ((1001, 4, 1), (2**26, 4, 1), (4000, 1, 1), (1002, 4, 4))
    for count, of, steps in draws if size.cases is None else draws[:1]:
        yield {"case": f"fused: {count:,} of {of} seeds, {steps} steps"}, partial(drawn, count, of, steps)


def against_cpu(device: str, size: Size) -> Iterator[Case]:
    """Every shipped task, model, position, average and schedule: trained here and on the CPU."""
    for name, members in some(EAGER, size):
        if not any("compute_dtype" in member["training"] for member in members):
            yield {"case": name}, partial(_against_cpu, members, device, size.steps)


def _against_cpu(members: list[Member], device: str, steps: int) -> Row:
    """In float64, where only rounding is between them, and in float32."""
    exact, wide = (trained(members, where, steps, False, dtype="float64") for where in ("cpu", device))
    usual, narrow = (trained(members, where, steps, False, dtype="float32") for where in ("cpu", device))
    row = {
        "float64": furthest(wide, exact),
        "curves, float64": curves_apart(wide, exact),
        "float32": furthest(narrow, exact),
        "the CPU's float32": furthest(usual, exact),
    }
    within = row["float32"] <= TIMES_CPU * row["the CPU's float32"] + TOLERANCE
    return {**row, "good": row["float64"] <= WIDE_TOLERANCE and row["curves, float64"] < 1e-5 and within}


def forms(device: str, size: Size) -> Iterator[Case]:
    """Steps as they are, recorded as a CUDA graph, compiled, and both, on the device."""
    for name, members in some(COMPILED, size):
        yield {"case": name}, partial(_forms, members, device, size.steps)


def _forms(members: list[Member], device: str, steps: int) -> Row:
    plain = {dtype: trained(members, device, steps, False, plain=True, dtype=dtype) for dtype in ("float32", "float64")}
    graph = furthest(trained(members, device, steps, False, dtype="float64"), plain["float64"])
    compiled = furthest(trained(members, device, steps, True, dtype="float64"), plain["float64"])
    narrow = trained(members, device, steps, True, dtype="float32")
    row = {"recorded": graph, "compiled": compiled, "curves, float32": curves_apart(narrow, plain["float32"])}
    return {**row, "good": graph == 0.0 and compiled <= WIDE_TOLERANCE and row["curves, float32"] < 1e-4}


def resumed(device: str, size: Size) -> Iterator[Case]:
    """A checkpoint written on one device and resumed on the other, against training on the latter alone."""
    for name, members in some(COMPILED, size):
        for begin, end in (("cpu", device), (device, "cpu")):
            yield {"case": f"{name}: {begin} to {end}"}, partial(_moved, members, size.steps, begin, end)


def _moved(members: list[Member], steps: int, begin: str, end: str) -> Row:
    first, second = (packed(members, where, steps, False, dtype="float64") for where in (begin, end))
    names = [(member.config_id, member.seed) for member in first.members]
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder=Path(folder), every_steps=1)
        checkpoints.save(
            stepped(first, TrainingState.make_initial(first), steps // 2).make_snapshot(first, [], False), names
        )
        snapshot, _ = checkpoints.load(names)
    assert snapshot is not None
    state = TrainingState.make_initial(second).restore(snapshot, second)
    whole = trained(members, end, steps, False, dtype="float64")
    distance = furthest((second, stepped(second, state, steps - steps // 2)), whole)
    return {"float64": distance, "good": distance <= WIDE_TOLERANCE}


NARROW = ("lstm", "decoder: tra", "decoder: rope base 100.0", "encoder: rpe")


def narrow(device: str, size: Size) -> Iterator[Case]:
    """Passes in bfloat16 on the device, eager and compiled: mean losses against those of float32, and curves."""
    for name, members in some({name: EAGER[name] for name in NARROW}, size):
        yield {"case": name}, partial(_narrow, members, device, size.steps)


def _narrow(members: list[Member], device: str, steps: int) -> Row:
    runs = []
    for numbers, wanted in (("float32", False), ("bfloat16", False), ("bfloat16", True)):
        pack, state = trained(members, device, steps, wanted, compute_dtype=numbers)
        runs.append((state.loss_sum.cpu() / steps, evaluate(pack, state)[1], int(state.failed_at.max())))
    (loss, curves, _), others = runs[0], runs[1:]
    apart = max(float(((of / loss) - 1).abs().max()) for of, _, _ in others)
    finite = np.isfinite(curves)
    whole = all(np.array_equal(np.isfinite(of), finite) and failed < 0 for _, of, failed in others)
    return {"losses apart, relative": apart, "good": whole and apart < NARROW_TOLERANCE}


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


def speed(device: str, size: Size) -> Iterator[Case]:
    """The sequential script, then packs: member-steps a second, seconds of an evaluation, kernels a step, memory."""
    for work in (W1, W2):
        for wanted in (False, True):
            row = {
                "case": f"{work.name}, one sequential script",
                "form": "compiled" if wanted else "plain",
                "members": 1,
            }
            yield row, partial(_sequential, work, wanted, device, size)
    for form in ("fused", "recorded", "plain"):
        for count in size.members:
            for name, member in SPEEDS.items():
                yield _speed_of(name, member, form, count, device, size)
    for name, member in SPEEDS.items():
        for count in size.members:
            yield _speed_of(name, member, "compiled", count, device, size)


def _speed_of(name: str, member: Callable[[int], Member], form: str, count: int, device: str, size: Size) -> Case:
    row = {"case": name, "form": form, "members": count}
    return row, lambda: _speed([member(i) for i in range(count)], device, form, size)


def _speed(members: list[Member], device: str, form: str, size: Size) -> Row:
    """As it is (plain), recorded as a CUDA graph, recorded with fused draws, or compiled and recorded."""
    fused.enable_fused_draws(form == "fused")
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    pack = packed(members, device, 10**6, form == "compiled")
    state, step_batches, done = TrainingState.make_initial(pack), StepBatches(pack), 0
    learning = partial(train_step, pack) if form == "plain" else make_train_step(pack)

    def step() -> None:
        nonlocal done
        learning(state, step_batches.get_batches(done, 10**6))
        done += 1

    for _ in range(3):
        step()
    _finished(device)
    began, before = time.perf_counter(), done
    while done == before or time.perf_counter() - began < size.seconds:
        step()
        if done % 10 == 0:
            _finished(device)
    _finished(device)
    rate = len(members) * (done - before) / (time.perf_counter() - began)
    evaluate(pack, state)
    began = time.perf_counter()
    evaluate(pack, state)
    _finished(device)
    seconds = time.perf_counter() - began
    batches = step_batches.get_batches(done, 10**6)
    return {
        "member-steps a second": rate,
        "evaluation, seconds": seconds,
        "kernels a step": _kernels(lambda: learning(state, batches), device),
        "peak MiB": torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None,
        "good": bool((state.failed_at < 0).all()),
    }


def _kernels(run: Callable[[], None], device: str) -> int:
    """Kernels that one call starts; on the CPU operators, which are about as many."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    activity = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiled:
        run()
        _finished(device)
    wanted = DeviceType.CUDA if device == "cuda" else DeviceType.CPU
    return sum(event.count for event in profiled.key_averages() if event.device_type == wanted)


def _sequential(work: Workload, wanted: bool, device: str, size: Size) -> Row:
    """One seed of the sequential script, evaluations included."""
    trainer = Trainer(work, wanted, device)
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


PARTS: dict[str, tuple[float, Callable[[str, Size], Iterator[Case]]]] = {  # share of the time, what is run
    "random numbers": (0.03, random_numbers),
    "against the CPU": (0.32, against_cpu),
    "forms of a step": (0.15, forms),
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
