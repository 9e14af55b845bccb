"""The gallery page of the inductive scratchpad: for every claim its sweep, the numbers, the answer and a figure."""

from pathlib import Path

from orchestrator.studies.gallery import overview, section, sizes, write
from orchestrator.studies.inductive_scratchpad.claims import all_claims
from orchestrator.studies.inductive_scratchpad.pictures import draw_all
from orchestrator.studies.measures import Sweep

INTRODUCTION = """\
# Inductive scratchpad: which claims held here

The claims are those of arXiv:2406.06467. The sweeps are small on purpose: they run on two cores. An answer is about
this scale. `held` and `did not hold` mean that the whole 95 % interval lies on one side of no effect, `not decided`
that it does not. Differences of shares are seed by seed, over the seeds that learned the trained lengths in both
arms; ratios of steps are over all seeds. `not testable at this size` means that nothing was tested. No number
here is the paper's.

Not tested here: how the steps without a scratchpad grow with cycles (I1), curricula (I6), and addition at random
places, whose small sweeps are in search_spaces/inductive_scratchpad/ and were not run to their end; nor, at this
size, whether parity needs a scratchpad.

`make studies` runs every sweep of this page and writes the page; a sweep that is finished is not run again.
"""


def write_page(sweeps: dict[str, Sweep], folder: Path) -> Path:
    """Write inductive_scratchpad.md and its figures into `folder`; returns the page."""
    claims, pictures = all_claims(sweeps), draw_all(sweeps, folder)
    text = [INTRODUCTION, overview(claims), sizes(sweeps)]
    text += [section(claim, pictures[claim.letter].relative_to(folder)) for claim in claims]
    return write(folder, "inductive_scratchpad", text)
