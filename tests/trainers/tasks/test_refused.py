"""Settings of tasks that are refused, each with one problem that names the setting and says what is wrong."""

from typing import Any

import pytest

from trainers.errors import ConfigError
from trainers.settings.registry import build

SUM, PRODUCT = "padded_addition", "padded_multiplication"
DIGITS: dict[str, Any] = {"canvas": 4, "train_digits": 2, "test_digits": (3, 4)}
GRAPHS: dict[str, Any] = {"nodes": 8, "edges": 8, "farthest": 2, "probes": [2], "other_cycles": [2], "names": 12}


@pytest.mark.parametrize(
    ("name", "settings", "key", "message"),
    [
        (SUM, {"width": 4, "train_digits": 5}, "train_digits", "5 is more than the block holds; allowed: <= 4"),
        (SUM, {"width": 4, "train_digits": 4, "text_tokens": 1}, "train_digits", "<= 3 (in text, sums need one more)"),
        (SUM, {"width": 9, "train_digits": 3, "longest_cascade": 4}, "longest_cascade", "<= train_digits (3)"),
        (SUM, {"width": 9, "measured_digits": 11}, "measured_digits", "allowed: <= 10"),
        (SUM, {"width": 9, "measured_cascades": (10,)}, "measured_cascades", "10 cannot occur in numbers of 9 digits"),
        (SUM, {"width": 9, "measured_runs": (1, 1)}, "measured_runs", "has a length twice; allowed: distinct"),
        (SUM, {"carries": "mod10", "distribution": "mixed"}, "distribution", "allowed: uniform"),
        (SUM, {"distribution": "complexity", "uniform_lengths": True}, "uniform_lengths", "allowed: false"),
        (SUM, {"carries": "sum_le_9", "measured_cascades": (1,)}, "measured_cascades", "allowed: an empty list"),
        (PRODUCT, {"right_block_width": 20}, "right_block_width", "allowed: >= 21"),
        (PRODUCT, {"number_digits": 4}, "train_digits", "allowed: <= number_digits (4)"),
        (PRODUCT, {"measured_digits": 22}, "measured_digits", "allowed: <= 21"),
        (PRODUCT, {"measured_rounds": (1, 1)}, "measured_rounds", "has a number twice; allowed: distinct integers"),
        (PRODUCT, {"multiplier_range": (5, 3)}, "multiplier_range", "allowed: ascending, within 0 to 9"),
        (PRODUCT, {"multiplier_digits": 2, "multiplier_range": (5, 30)}, "multiplier_range", "within 10 to 99"),
        ("ring_regression", {"window": 30}, "window", "30 is more than half the ring; allowed: <= 26"),
        ("ring_regression", {"alpha": 0.5}, "alpha", "allowed: >= 1"),
        ("ring_regression", {"ring": 5, "window": 1, "betas": [0.1] * 3}, "betas", "allowed: <= 2 entries"),
        ("flip_flop", {"pairs": 1}, "pairs", "1 is out of bounds"),
        ("flip_flop", {"ignore": 1.1}, "ignore", "1.1 is out of bounds"),
        ("flip_flop", {"measured_distances": [4, 2]}, "measured_distances", "must ascend"),
        ("copy_string", {"train_length": 100}, "test_lengths", "must ascend"),
        ("copy_string", {"shortest": 51}, "shortest", "51 is more than train_length"),
        ("induction", {"shortest": 1}, "shortest", "1 is out of bounds"),
        ("multi_instruction", {"marked": 0}, "marked", "0 is out of bounds"),
        ("language", {"corpus": "../secret"}, "corpus", "is not a name"),
        ("language", {"corpus": ""}, "corpus", "is not a name"),
        ("language", {"sha256": "abc"}, "sha256", "is not a SHA-256"),
        ("parity", {"random_offsets": True}, "random_offsets", "the scratchpad is inductive"),
        ("parity", {"fixed_set": 10, "row_form": "split"}, "fixed_set", "a batch of split rows"),
        ("parity", {"canvas": 5, "train_bits": 6}, "train_bits", "more than the 5 cells"),
        ("parity", {"canvas": 100}, "canvas", "100 is out of bounds"),
        ("parity", {"row_form": "masked"}, "row_form", "did you mean 'mask'"),
        (
            "shift_addition",
            {**DIGITS, "train_digits": 5},
            "train_digits",
            "5 digits do not fit on the canvas",
        ),
        ("shift_addition", {**DIGITS, "test_digits": (4, 3)}, "test_digits", "[4, 3] must ascend, beyond"),
        ("shift_addition", {**DIGITS, "test_digits": (2, 3)}, "test_digits", "[2, 3] must ascend"),
        (
            "shift_addition",
            {**DIGITS, "test_digits": (3, 5)},
            "test_digits",
            "from 3 to canvas (4), the smallest first",
        ),
        (
            "random_space_addition",
            {**DIGITS, "canvas": 50},
            "canvas",
            "its 101 cells need numbers of more than two digits",
        ),
        (
            "random_space_addition",
            {**DIGITS, "greedy_states": True},
            "greedy_states",
            "has no effect with temperature 0",
        ),
        ("cycles", {"size": 3, "smallest": 4}, "smallest", "4 is more than the largest length; allowed: <= size (3)"),
        ("cycles", {"size": 3, "test_sizes": [6], "nodes": 7}, "nodes", "fewer than two nodes if the first has 6"),
        (
            "cycles",
            {"smallest": 3, "size": 8, "names": 15},
            "names",
            "15 is less than the 16 nodes",
        ),
        ("reachability", {**GRAPHS, "scratchpad": "full"}, "scratchpad", "'full'"),
        ("reachability", {**GRAPHS, "names": 7}, "names", "7 is less than the 8 nodes of the largest graph"),
        (
            "reachability",
            {**GRAPHS, "edges": 1, "probes": [], "other_cycles": []},
            "edges",
            "no graph has 1 edges of 8 nodes",
        ),
        (
            "reachability",
            {**GRAPHS, "edges": 9},
            "edges",
            "9 edges do not make cycles of all 8 nodes; allowed: 8, or probes",
        ),
        ("reachability", {**GRAPHS, "probes": [2, 3]}, "other_cycles", "does not match the probes [2, 3]"),
        (
            "reachability",
            {**GRAPHS, "other_cycles": [3]},
            "other_cycles",
            "cannot have the 4 other nodes at distance 2",
        ),
        (
            "reachability",
            {**GRAPHS, "probes": [4], "other_cycles": [1]},
            "other_cycles",
            "1 equal cycles cannot have the 0 other nodes",
        ),
    ],
)
def test_what_is_refused(name: str, settings: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build("task", {"name": name, **settings})
    (problem,) = refused.value.problems
    assert problem.key == key and message in str(problem) and problem.allowed
