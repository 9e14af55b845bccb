"""The studies that have a page in the gallery: their sweep files, and what writes the page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.studies.arithmetic import page as arithmetic
from orchestrator.studies.inductive_scratchpad import page as inductive_scratchpad
from orchestrator.studies.measures import Sweep
from orchestrator.studies.set_complement import page as set_complement
from orchestrator.studies.threshold_attention import page as threshold_attention

SEARCH_SPACES = Path(__file__).parents[2] / "search_spaces"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: `write` makes its page in a folder from its sweeps, which are those of `files`, by name.

    `full_size` are on the page at their full size; `apart` are small sweeps that the page does not use.
    """

    name: str
    write: Callable[[dict[str, Sweep], Path], Path]
    full_size: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Every sweep file of the page: `*_cpu.yaml`, which fit on two cores, and those that do at their full size."""
        folder = SEARCH_SPACES / self.name
        small = (file for file in folder.glob("*_cpu.yaml") if file.stem not in self.apart)
        return tuple(sorted([*small, *(folder / f"{name}.yaml" for name in self.full_size)]))


STUDIES = {
    study.name: study
    for study in (
        Study(name="set_complement", write=set_complement.write_page),
        Study(name="arithmetic", write=arithmetic.write_page, full_size=("fig9_ring", "fig15_ring_m5")),
        Study(name="threshold_attention", write=threshold_attention.write_page),
        Study(
            name="inductive_scratchpad",
            write=inductive_scratchpad.write_page,
            apart=(
                "fig1b_cycles_no_scratchpad_cpu",
                "fig5b_addition_random_space_cpu",
                "fig8_9_curriculum_cpu",
            ),
        ),
    )
}
