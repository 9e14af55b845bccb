"""What is trained on both sides: packs as plain dictionaries, so that both revisions build exactly the same.

A case is the members of one pack: two configurations with different member hyperparameters, each with two seeds. Names
read `task: what is particular`; together they have every shipped task, model, position, average and schedule, but for
`vmapped`, which trains modules of the user's own.
"""

from collections.abc import Mapping
from typing import Any

Member = dict[str, Any]

SEEDS = (0, 7)
SIX = {"name": "set_complement", "vocabulary": 6, "train_length": 3}
BOARD = {"name": "othello", "board": 4, "train_moves": 6}
SUM = {"name": "padded_addition", "width": 4, "train_digits": 2}
PRODUCT = {"name": "padded_multiplication", "number_digits": 4, "train_digits": 2}
TEXT = {"text_tokens": 2, "text_ids": 5}
RING = {"name": "ring_regression", "ring": 9, "window": 3}
FLIPS = {"name": "flip_flop", "pairs": 4, "test_pairs": [8]}
CYCLES = {"name": "cycles", "names": 9}
REACHABILITY = {
    "name": "reachability",
    "nodes": 6,
    "edges": 6,
    "farthest": 2,
    "names": 9,
    "probes": [2],
    "other_cycles": [1],
}
BITS = {"name": "parity", "canvas": 4, "train_bits": 2}
STRINGS = {"train_length": 4, "test_lengths": [6, 8], "symbols": 5}
DIGITS = {"canvas": 3, "train_digits": 2, "test_digits": [3]}

ATTENTION = {"name": "attention_only", "width": 8}
DECODER = {"name": "decoder", "layers": 2, "width": 8, "heads": 2, "hidden": 12}
POSITIONED = {**DECODER, "position": "learned"}
ENCODER = {"name": "encoder", "layers": 2, "width": 8, "heads": 2, "hidden": 12}
LINEAR = {"name": "linear_attention", "width": 6}

NUMBERS: tuple[dict[str, Any], ...] = (
    {"learning_rate": 0.01, "weight_decay": 0.1, "clip": 0.5},
    {"learning_rate": 0.003, "weight_decay": 0.0, "clip": 5.0, "betas": [0.8, 0.95], "epsilon": 1e-6},
)
DROPOUT = (0.1, 0.4)
AVERAGES: tuple[dict[str, Any], ...] = (
    {"raw": {}, "ema": {"decay": 0.8}},
    {"raw": {}, "ema": {"decay": 0.5, "burn_in": 2, "update_period": 2}},
)
SUMS: dict[str, Any] = {
    **{"train": "sums.csv", "test": "sums.csv"},
    **{"tokens": "question", "answer": "sum", "tokenizer": "characters"},
}
METRICS: dict[str, Any] = {"cross_entropy": {}, "calibration": {"bins": 4}, "attention_entropy": {}}
NO_DROPOUT: dict[str, Any] = {"dropout": 0.0}


def pack(
    task: Mapping[str, Any],
    model: Mapping[str, Any],
    training: Mapping[str, Any] | None = None,
    *,
    averages: tuple[Mapping[str, Any], Mapping[str, Any]] = (AVERAGES[0], AVERAGES[1]),
    evaluation: Mapping[str, Any] | None = None,
) -> list[Member]:
    """Two configurations of two seeds, six steps, evaluated after the third and the sixth.

    `training` replaces values of both configurations. A model with dropout has two rates, unless `model` names one.
    """
    members = []
    for numbers, dropout, kept in zip(NUMBERS, DROPOUT, averages, strict=True):
        drops = {} if model["name"] == "linear_attention" or "dropout" in model else {"dropout": dropout}
        shared = {"steps": 6, "batch_size": 4, "compile": False}
        members += [
            {
                "task": dict(task),
                "model": {**model, **drops},
                "training": {**shared, **numbers, **(training or {}), "averages": dict(kept)},
                "evaluation": {"every": 3, "samples": 8, **(evaluation or {})},
                "seed": seed,
            }
            for seed in SEEDS
        ]
    return members


def _tasks() -> dict[str, list[Member]]:
    """Every task in its variants, with the model that its sweeps use."""
    additions: dict[str, dict[str, Any]] = {
        "plain": {},
        "zeros appended": {"zero_shift": True},
        "fixed set": {"fixed_set": 20},
        "in text": TEXT,
        "pairs up to 9": {"carries": "sum_le_9"},
        "modulo 10": {"carries": "mod10"},
        "over cascades": {"distribution": "complexity", "longest_cascade": 1},
        "mixed": {"distribution": "mixed"},
        "measured apart": {
            "measured_cascades": [0, 2],
            "measured_runs": [1, 2],
            "measured_samples": 6,
            "measured_digits": 2,
        },
        "fixed set in text with zeros": {"fixed_set": 20, "zero_shift": True, **TEXT},
    }
    products: dict[str, dict[str, Any]] = {
        "plain": {},
        "zeros appended": {"zero_shift": True},
        "fixed set": {"fixed_set": 20},
        "in text": TEXT,
        "by two digits": {"multiplier_digits": 2},
        "a range of multipliers in a wide block": {"multiplier_range": [3, 5], "right_block_width": 7},
        "measured apart": {"measured_rounds": [1, 2], "measured_digits": 2},
    }
    rings: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "absolute": ({}, {"encoding": "ape"}),
        "absolute, augmented": ({"augmented": True, "betas": [0.5, 0.25]}, {"encoding": "ape"}),
        "relative": ({}, {"encoding": "rpe"}),
        "relative, free value": ({}, {"encoding": "rpe", "free_value": True}),
    }
    cases = {
        "set_complement: sampled": pack(SIX, ATTENTION),
        "set_complement: soft": pack({**SIX, "target": "soft"}, ATTENTION),
        "set_complement: chosen lengths": pack(SIX, ATTENTION, evaluation={"lengths": [5, 1, 4]}),
        "set_complement: every input": pack(SIX, ATTENTION, evaluation={"samples": 100}),
        "othello: sampled": pack(BOARD, DECODER),
        "othello: soft": pack({**BOARD, "target": "soft"}, DECODER),
        "othello: attention only": pack(BOARD, ATTENTION),
        "othello: board of six": pack({**BOARD, "board": 6}, DECODER, evaluation={"samples": 4}),
        "othello: board of eight": pack({**BOARD, "board": 8}, DECODER, evaluation={"samples": 4}),
        "flip_flop: fresh rows": pack(FLIPS, DECODER),
        "flip_flop: fixed set, by distance": pack({**FLIPS, "fixed_set": 20, "measured_distances": [1, 3]}, DECODER),
        "dataset": pack({"name": "dataset", **SUMS}, DECODER),
        "copy_string": pack({"name": "copy_string", **STRINGS}, DECODER),
        "induction": pack({"name": "induction", **STRINGS}, DECODER),
        "language": pack({"name": "language", "train_window": 6, "test_windows": [12]}, DECODER),
        "wikitext": pack({"name": "wikitext", "corpus": "paradise_lost", "test_windows": [256]}, DECODER),
        "cycles: inductive": pack({**CYCLES, "size": 2, "test_sizes": [3], "nodes": 5}, DECODER),
        "cycles: one transition a row": pack({**CYCLES, "smallest": 2, "size": 3, "row_form": "transition"}, DECODER),
        "cycles: full": pack({**CYCLES, "smallest": 2, "size": 3, "scratchpad": "full", "fixed_set": 20}, DECODER),
        "cycles: none": pack({**CYCLES, "size": 2, "scratchpad": "none"}, DECODER),
        "reachability": pack(REACHABILITY, DECODER),
        "multi_instruction": pack({"name": "multi_instruction", **STRINGS}, DECODER),
        "parity: rows with copies": pack(BITS, POSITIONED),
        "parity: split rows, in slices": pack({**BITS, "row_form": "split", "slices": 2}, POSITIONED),
        "parity: single transitions of a fixed set": pack(
            {**BITS, "row_form": "transition", "fixed_set": 20, "loss_on_question": False}, POSITIONED
        ),
        "parity: full": pack({**BITS, "scratchpad": "full"}, POSITIONED),
        "parity: full, at random positions": pack({**BITS, "scratchpad": "full", "random_offsets": True}, POSITIONED),
        "parity: none": pack({**BITS, "scratchpad": "none"}, POSITIONED),
        "half_parity": pack({"name": "half_parity", "size": 2}, POSITIONED),
        "random_space_addition": pack({"name": "random_space_addition", **DIGITS, "fixed_set": 20}, POSITIONED),
        "random_space_addition: transitions": pack(
            {"name": "random_space_addition", **DIGITS, "row_form": "transition"}, POSITIONED
        ),
        "shift_addition": pack({"name": "shift_addition", **DIGITS, "temperature": 0.5, "top_k": 9}, POSITIONED),
        "shift_addition: plain": pack({"name": "shift_addition", **DIGITS, "scratchpad": "full"}, POSITIONED),
    }
    cases |= {f"padded_addition: {what}": pack({**SUM, **more}, ENCODER) for what, more in additions.items()}
    cases |= {f"padded_multiplication: {what}": pack({**PRODUCT, **more}, ENCODER) for what, more in products.items()}
    descent = {"optimizer": "gradient_descent", "learning_rate": 0.005}
    for what, (task, model) in rings.items():
        cases[f"ring_regression: {what}"] = pack({**RING, **task}, {**LINEAR, **model})
        cases[f"ring_regression: {what}, gradient descent"] = pack({**RING, **task}, {**LINEAR, **model}, descent)
    doubles = {**descent, "dtype": "float64"}
    cases["ring_regression: float64"] = pack(RING, {**LINEAR, "encoding": "ape"}, doubles)
    return cases


def _models() -> dict[str, list[Member]]:
    """Forms, norms and dropout sites of the models."""
    cases = {}
    for norm in ("none", "pre", "post"):
        forms = ("plain",) if norm == "post" else ("plain", "table")
        for form in forms:
            cases[f"attention_only: norm {norm}, {form}"] = pack(SIX, {**ATTENTION, "norm": norm, "form": form})
        cases[f"decoder: norm {norm}"] = pack(SIX, {**DECODER, "norm": norm})
        cases[f"encoder: norm {norm}"] = pack(SUM, {**ENCODER, "norm": norm})
    for form in ("plain", "table"):
        constant = {**ATTENTION, "attention": "constant", "form": form}
        cases[f"attention_only: equal weights, {form}"] = pack(SIX, constant)
        cases[f"attention_only: no dropout, {form}"] = pack(SIX, {**ATTENTION, **NO_DROPOUT, "form": form})
        cases[f"attention_only: narrow values, {form}"] = pack(SIX, {**ATTENTION, "value_width": 3, "form": form})
    for site in ("embedding", "attention", "residual"):
        sites = {"dropout_sites": [site]}
        cases[f"attention_only: dropout at {site}"] = pack(SIX, {**ATTENTION, **sites})
        cases[f"decoder: dropout at {site}"] = pack(SIX, {**DECODER, **sites})
        cases[f"encoder: dropout at {site}"] = pack(SUM, {**ENCODER, **sites})
    wide = {**DECODER, "heads": 3, "head_width": 5, "hidden": None, "init_std": 0.1}
    cases["decoder: heads of their own width"] = pack(SIX, wide)
    notebook = {"norm": "residual", "norm_type": "rms", "mlp": "gated", "biases": ["output", "mlp"], "init": "torch"}
    cases["decoder: normalized stream, gated"] = pack(SIX, {**DECODER, **notebook, "embedding_range": 0.01})
    gpt2 = {"norm_type": "layer_unbiased", "biases": [], "init": "depth", "tied": True, "decay_embeddings": True}
    cases["decoder: as GPT-2's"] = pack(SIX, {**DECODER, **gpt2, "position": "learned"})
    cases["lstm"] = pack(FLIPS, {"name": "lstm", "width": 6, "hidden": 5})
    cases["decoder: no dropout"] = pack(SIX, {**DECODER, **NO_DROPOUT})
    cases["encoder: no dropout"] = pack(SUM, {**ENCODER, **NO_DROPOUT})
    return cases


def _positions() -> dict[str, list[Member]]:
    """Every position in the models that can have it."""
    anywhere: tuple[dict[str, Any], ...] = (
        {"name": "alibi"},
        {"name": "cope", "npos_max": 4},
        {"name": "fire", "threshold": 4.0, "hidden": 3},
        {"name": "fox"},
        {"name": "kerple"},
        {"name": "learned"},
        {"name": "learned", "max_offset": 3, "init_std": 0.1},
        {"name": "learned", "init_std": 0.0},
        {"name": "nope"},
        {"name": "randomized", "base": {"name": "rope", "base": 100.0}, "longest": 32},
        {"name": "rope", "base": 100.0},
        {"name": "rpe"},
        {"name": "shaw", "clip": 3, "values": True},
        {"name": "sinusoidal", "base": 100.0},
        {"name": "t5", "buckets": 8, "max_distance": 6},
        {"name": "tra"},
        {"name": "tra", "distance": "absolute", "gate": "head"},
        {"name": "tra", "threshold": False, "qk_norm": False, "dropout_on": "weights"},
    )
    of_numbers: tuple[dict[str, Any], ...] = (
        {"name": "abacus", "max_offset": 3},
        {"name": "abacus", "max_offset": 0, "pads": True},
        {"name": "significance"},
        {"name": "significance", "ordinary": 0},
    )
    cases = {}
    for position in anywhere:
        cases[f"decoder: {describe_settings(position)}"] = pack(SIX, {**DECODER, "position": position})
    for position in (*anywhere, *of_numbers):
        cases[f"encoder: {describe_settings(position)}"] = pack(SUM, {**ENCODER, "position": position})
    for position in of_numbers:
        cases[f"encoder: {describe_settings(position)}, in text"] = pack(
            {**SUM, **TEXT}, {**ENCODER, "position": position}
        )
    for digits in (1, 2):
        task = {**PRODUCT, "multiplier_digits": digits}
        cases[f"encoder: upe, {digits} digits"] = pack(
            task, {**ENCODER, "position": {"name": "upe", "uniform": digits}}
        )
        uniform = {"name": "significance", "ordinary": 1, "uniform": digits}
        cases[f"encoder: significance and uniform, {digits} digits"] = pack(
            {**task, **TEXT}, {**ENCODER, "position": uniform}
        )
    return cases


def describe_settings(settings: Mapping[str, Any]) -> str:
    """A registered name with its settings."""
    return " ".join([settings["name"], *(f"{key} {value}" for key, value in settings.items() if key != "name")])


def _training() -> dict[str, list[Member]]:
    """Schedules, averages, optimizers, number types, and a member that diverges."""
    schedules: tuple[dict[str, Any], ...] = (
        {"name": "constant"},
        {"name": "constant", "warmup": 3},
        {"name": "cosine", "warmup": 2, "final": 0.1},
        {"name": "cosine", "final": 0.1, "decay_steps": 9},
        {"name": "linear", "warmup": 2, "final": 0.1},
    )
    optimizers: tuple[dict[str, Any], ...] = (
        {"name": "sgd", "nesterov": True},
        {"name": "lion"},
        {"name": "muon"},
        {"name": "adafactor"},
    )
    cases = {
        f"optimizer: {describe_settings(optimizer)}": pack(SIX, DECODER, {"optimizer": optimizer})
        for optimizer in optimizers
    }
    cases["loss: r_drop"] = pack(SIX, DECODER, {"loss": "r_drop"})
    cases |= {
        f"schedule: {describe_settings(schedule)}": pack(SIX, ATTENTION, {"schedule": schedule})
        for schedule in schedules
    }
    bemas = (
        {"raw": {}, "bema": {"rho": 2.0}, "slow": {"kind": "bema", "kappa": 1.0, "eta": 0.4}},
        {
            "raw": {},
            "bema": {"kappa": -1.0, "eta": 0.3},
            "slow": {"kind": "bema", "eta": -1.0, "burn_in": 2, "update_period": 2, "gamma": 0.5},
        },
    )
    matched = (
        {"all": {"kind": "norm_matched", "rho": 2.0}, "norm_matched": {"parameters": ["query", "embedding"]}},
        {"all": {"kind": "norm_matched", "burn_in": 2}, "norm_matched": {"parameters": ["query", "embedding"]}},
    )
    diverging = pack(SIX, ATTENTION, {"learning_rate": 0.01})
    for member in diverging[2:]:
        member["training"]["learning_rate"] = 1e12
    reached = {"metric": "token_accuracy", "threshold": 0.0, "samples": 8}  # at the first evaluation
    easy, rising = {"stop": reached}, {"curriculum": {"name": "threshold", **reached}}
    harder = {"stop": {**reached, "threshold": 0.03}}  # two of the four members
    mixed = {**CYCLES, "smallest": 2, "size": 3}
    cases |= {
        "training: all stop": pack(mixed, DECODER, easy),
        "training: a curriculum": pack(mixed, DECODER, rising),
        "training: a curriculum, then all stop": pack(mixed, DECODER, {**rising, **easy}, evaluation={"every": 2}),
        "training: some stop": pack(mixed, DECODER, harder),
        "average: bema": pack(SIX, ATTENTION, averages=bemas),
        "average: norm_matched": pack(SIX, ATTENTION, averages=matched),
        "average: only raw": pack(SIX, ATTENTION, averages=({"raw": {}}, {"raw": {}})),
        "training: regularized": pack(SIX, ATTENTION, {"label_smoothing": 0.1, "z_loss": 0.01}),
        "training: no clip": pack(SIX, ATTENTION, {"clip": None}),
        "training: gradient descent": pack(SIX, ATTENTION, {"optimizer": "gradient_descent", "learning_rate": 0.1}),
        "training: float64": pack(SIX, ATTENTION, {"dtype": "float64"}),
        "training: bfloat16": pack(SIX, {**DECODER, "position": "tra"}, {"compute_dtype": "bfloat16"}),
        "training: float64 encoder": pack(SUM, {**ENCODER, "position": "rpe"}, {"dtype": "float64"}),
        "training: a configuration that diverges": diverging,
        "training: no evaluation but the last": pack(SIX, ATTENTION, evaluation={"every": None}),
        "evaluation: metrics apart from the task": pack(SIX, ATTENTION, evaluation={"metrics": METRICS}),
        "training: one member": pack(SIX, ATTENTION)[:1],
    }
    return cases


def _compiled() -> dict[str, list[Member]]:
    """A few packs whose step is compiled; a lone member among them."""
    compiled = {"compile": True}
    return {
        "compiled: attention_only": pack(SIX, ATTENTION, compiled),
        "compiled: one member": pack(SIX, ATTENTION, compiled)[:1],
        "compiled: encoder with rpe": pack(SUM, {**ENCODER, "layers": 1, "position": "rpe"}, compiled),
    }


EAGER: dict[str, list[Member]] = {**_tasks(), **_models(), **_positions(), **_training()}
COMPILED: dict[str, list[Member]] = _compiled()
