"""The contents of one MLflow run as plain data, within MLflow's limits."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_PARAM, MAX_TAG, MAX_KEY = 6000, 8000, 250


@dataclass(frozen=True, order=True)
class Point:
    """One value of one metric; `step` is a length, or a training step under `progress/`, or 0 for a summary."""

    key: str
    step: int
    value: float
    time_ms: int


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """Everything in one MLflow run except its artifacts."""

    config_id: str | None
    name: str
    status: str
    start_ms: int
    end_ms: int | None
    params: dict[str, str]
    tags: dict[str, str]
    points: tuple[Point, ...]

    def digest(self, *more: str) -> str:
        """Return a digest of everything that is published."""
        facts = [
            self.status,
            self.end_ms,
            self.params,
            self.tags,
            [(p.key, p.step, p.value) for p in self.points],
            more,
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]

    @classmethod
    def within_limits(
        cls,
        config_id: str | None,
        name: str,
        status: str,
        start_ms: int,
        end_ms: int | None,
        params: Mapping[str, str],
        tags: Mapping[str, str],
        points: Iterable[tuple[str, int, float, int]],
    ) -> "RunContents":
        """Return contents within MLflow's limits: without infinity (it would become 1.8e308), with texts cut."""
        every = list(points)
        finite = sorted(Point(key, step, value, ms) for key, step, value, ms in every if math.isfinite(value))
        left_out = len(every) - len(finite)
        tags = {**tags, "lengthwise.values_left_out": f"{left_out} not finite" if left_out else "0"}
        return cls(
            config_id=config_id,
            name=name[:MAX_KEY],
            status=status,
            start_ms=start_ms,
            end_ms=end_ms,
            params={key[:MAX_KEY]: text[:MAX_PARAM] for key, text in params.items()},
            tags={key[:MAX_KEY]: text[:MAX_TAG] for key, text in tags.items()},
            points=tuple(finite),
        )
