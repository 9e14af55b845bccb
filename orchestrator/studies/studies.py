"""The studies that have a page in the gallery: their sweep files, and what writes the page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.studies.arithmetic import page as arithmetic
from orchestrator.studies.measures import Sweep
from orchestrator.studies.set_complement import page as set_complement

SEARCH_SPACES = Path(__file__).parents[2] / "search_spaces"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: `write` makes its page in a folder from its sweeps, which are those of `files`, by name."""

    name: str
    write: Callable[[dict[str, Sweep], Path], Path]
    full_size: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Every sweep file that fits on two cores: `*_cpu.yaml`, and those that do at their full size."""
        folder = SEARCH_SPACES / self.name
        return tuple(sorted([*folder.glob("*_cpu.yaml"), *(folder / f"{name}.yaml" for name in self.full_size)]))


STUDIES = {
    study.name: study
    for study in (
        Study(name="set_complement", write=set_complement.write_page),
        Study(name="arithmetic", write=arithmetic.write_page, full_size=("fig9_ring", "fig15_ring_m5")),
    )
}
