"""The contents of one MLflow run as plain data, within MLflow's limits."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

MAX_PARAM, MAX_TAG, MAX_KEY = 6000, 8000, 250


class Point(NamedTuple):
    """One value of one metric; `step` is a length, or a training step under `progress/`, or 0 for a summary."""

    key: str
    step: int
    value: float
    time_ms: int


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """Everything in one MLflow run except its artifacts."""

    name: str
    status: str
    start_ms: int
    end_ms: int | None
    params: dict[str, str]
    tags: dict[str, str]
    points: Sequence[Point]

    def digest(self, *more: str) -> str:
        """Return a digest of everything that is published."""
        points = [(point.key, point.step, point.value) for point in self.points]
        facts = [self.status, self.end_ms, self.params, self.tags, points, more]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]

    def within_limits(self) -> Self:
        """Return these contents within MLflow's limits: without infinity (it would become 1.8e308), with texts cut."""
        finite = sorted(point for point in self.points if math.isfinite(point.value))
        left_out = len(self.points) - len(finite)
        tags = {**self.tags, "lengthwise.values_left_out": f"{left_out} not finite" if left_out else "0"}
        return replace(
            self,
            name=self.name[:MAX_KEY],
            params={key[:MAX_KEY]: text[:MAX_PARAM] for key, text in self.params.items()},
            tags={key[:MAX_KEY]: text[:MAX_TAG] for key, text in tags.items()},
            points=finite,
        )
