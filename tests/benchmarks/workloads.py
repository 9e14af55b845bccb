"""The frozen work of each benchmark: the same configurations, seeds, steps and evaluations for every arm."""

import os
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Workload:
    """Set complement with `configurations` of (learning rate, weight decay, dropout, EMA decay) times `seeds`.

    layers: 0 for the attention-only model; else those of a decoder with as many blocks and four heads.
    """

    name: str
    vocabulary: int
    width: int
    train_length: int
    batch_size: int
    steps: int
    every: int
    samples: int
    seeds: int
    configurations: tuple[tuple[float, float, float, float], ...]
    layers: int = 0

    @property
    def members(self) -> int:
        return len(self.configurations) * self.seeds

    def part(self, text: str) -> list[tuple[int, int]]:
        """Members (configuration, seed): for "1/2" every second one, from the second."""
        first, every = map(int, text.split("/"))
        return [(c, seed) for c in range(len(self.configurations)) for seed in range(self.seeds)][first::every]

    def member(self, configuration: int, form: str, compiled: bool | str) -> dict[str, Any]:
        """Sections of one member without its seed."""
        rate, decay, dropout, ema = self.configurations[configuration]
        return {
            "task": {"name": "set_complement", "vocabulary": self.vocabulary, "train_length": self.train_length},
            "model": self._model(dropout, form),
            "training": {
                "steps": self.steps,
                "batch_size": self.batch_size,
                "learning_rate": rate,
                "weight_decay": decay,
                "compile": compiled,
                "averages": {"raw": {}, "ema": {"decay": ema}},
            },
            "evaluation": {"every": self.every, "samples": self.samples},
        }

    def _model(self, dropout: float, form: str) -> dict[str, Any]:
        if self.layers:
            sizes = {"layers": self.layers, "width": self.width, "heads": 4, "position": "nope"}
            return {"name": "decoder", **sizes, "dropout": dropout, "dropout_sites": ["attention"], "init_std": 0.1}
        return {"name": "attention_only", "width": self.width, "dropout": dropout, "form": form}

    def sweep(self, form: str, compiled: bool | str, scheduler: str, pack: int | str) -> dict[str, Any]:
        """A sweep file whose grid is exactly the frozen configurations."""
        sections = self.member(0, form, compiled)
        return {
            "name": "bench",
            "study": "benchmark",
            **sections,
            "space": {"training.averages.ema.decay": {"grid": [c[3] for c in self.configurations]}},
            "search": {"sampler": "grid", "seed": 0},
            "seeds": self.seeds,
            "objective": {
                "metric": "total_variation",
                "average": "ema",
                "lengths": [self.train_length + 1],
                "direction": "minimize",
            },
            "resources": {"cpus": 1, "gpus": 0, "pack": pack, "scheduler": scheduler},
        }


# One learning rate, weight decay and dropout; the EMA decay names the configuration, so that a plain grid is the work.
_FOUR = tuple((3e-3, 0.01, 0.1, decay) for decay in (0.9, 0.95, 0.99, 0.995))

W1 = Workload("W1", 20, 32, 5, 64, 500, 100, 300, 8, _FOUR)
W1_ONE = Workload("W1_ONE", 20, 32, 5, 64, 500, 100, 300, 8, _FOUR[:1])
W1_LONG = Workload("W1_LONG", 20, 32, 5, 64, 5000, 1000, 300, 8, _FOUR)
W2 = Workload("W2", 32, 64, 8, 64, 300, 100, 200, 8, _FOUR)
W3 = Workload("W3", 72, 64, 64, 8, 100, 50, 16, 4, _FOUR[:2], layers=2)
W4_SEEDS = (16, 128)  # members of the sweeps whose difference is the overhead of one more member
W4 = Workload("W4", 4, 4, 1, 1, 1, 1, 1, 1, ((3e-3, 0.01, 0.0, 0.9),))

WORKLOADS = {work.name: work for work in (W1, W1_ONE, W1_LONG, W2, W3, W4)}


def workload(name: str) -> Workload:
    """The work of that name, with as many seeds as BENCH_SEEDS says."""
    return with_seeds(name, int(os.environ.get("BENCH_SEEDS", "0")))


def with_seeds(name: str, seeds: int | None) -> Workload:
    """The work of that name with so many seeds, with its own where none are given."""
    return replace(WORKLOADS[name], seeds=seeds) if seeds else WORKLOADS[name]
