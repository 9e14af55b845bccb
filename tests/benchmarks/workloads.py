"""The frozen work of each benchmark: the same configurations, seeds, steps and evaluations for every arm."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Workload:
    """Set complement with `configurations` of (learning rate, weight decay, dropout, EMA decay) times `seeds`."""

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

    @property
    def members(self) -> int:
        return len(self.configurations) * self.seeds

    def member(self, configuration: int, form: str, compiled: bool) -> dict[str, Any]:
        """Sections of one member without its seed."""
        rate, decay, dropout, ema = self.configurations[configuration]
        return {
            "task": {"name": "set_complement", "vocabulary": self.vocabulary, "train_length": self.train_length},
            "model": {"name": "attention_only", "width": self.width, "dropout": dropout, "form": form},
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

    def sweep(self, form: str, compiled: bool, pack: int | str) -> dict[str, Any]:
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
            "resources": {"cpus": 1, "gpus": 0, "pack": pack},
            "tracking": {"enabled": False},
        }


# One learning rate, weight decay and dropout; the EMA decay names the configuration, so that a plain grid is the work.
_FOUR = tuple((3e-3, 0.01, 0.1, decay) for decay in (0.9, 0.95, 0.99, 0.995))

W1 = Workload("W1", 20, 32, 5, 64, 500, 100, 300, 8, _FOUR)
W2 = Workload("W2", 32, 64, 8, 64, 300, 100, 200, 8, _FOUR)
W4_SEEDS = (16, 128)  # members of the sweeps whose difference is the overhead of one more member
W4 = Workload("W4", 4, 4, 1, 1, 1, 1, 1, 1, ((3e-3, 0.01, 0.0, 0.9),))
