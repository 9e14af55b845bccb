"""How many packs Ray Tune is given at once."""

from types import SimpleNamespace
from typing import Any

from ray.tune.search import Searcher

from orchestrator.running.with_ray.tune import PackSearcher


class Packs:
    """A driver with three packs."""

    def __init__(self) -> None:
        self.left = ["a", "b", "c"]

    def next_pack(self) -> tuple[str, str] | None:
        return (self.left.pop(0), "work") if self.left else None

    def all_handed_out(self) -> bool:
        return not self.left


def test_another_pack_is_handed_out_when_one_has_ended() -> None:
    driver: Any = Packs()
    workers: Any = SimpleNamespace(count=2)
    searcher = PackSearcher(driver, workers)
    assert [searcher.suggest(name) for name in ("t1", "t2")] == [{"pack_id": one, "work": "work"} for one in "ab"]
    assert searcher.suggest("t3") is None
    searcher.on_trial_complete("t1", error=True)
    assert searcher.suggest("t3") == {"pack_id": "c", "work": "work"}
    searcher.on_trial_complete("t2")
    assert searcher.suggest("t4") is None  # "c" may run out of memory: then smaller packs take its place
    searcher.on_trial_complete("t3")
    assert searcher.suggest("t4") == Searcher.FINISHED
