"""The gallery page of threshold relative attention: for every claim its sweep, the numbers, the answer and a figure."""

from pathlib import Path

from orchestrator.studies.gallery import overview, section, sizes, write
from orchestrator.studies.measures import Sweep
from orchestrator.studies.threshold_attention.claims import all_claims
from orchestrator.studies.threshold_attention.pictures import draw_all

INTRODUCTION = """\
# Threshold relative attention: which claims held here

The claims are those of arXiv:2503.23174. The sweeps are small on purpose: they run on two cores. An answer is about
this scale. `held` and `did not hold` mean that the whole 95 % interval lies on one side of no effect, `not decided`
that it does not. Effects are seed by seed, over the seeds that learned the task with both: a seed that has not learned
it says nothing about length. No number here is the paper's.

Not tested here: copying and induction, whose token layouts the paper does not give; perplexity by window (T3); and the
cost (T4), which tests/benchmarks measures. Which encodings the paper compares on one backbone is not known to us; here
only the attention differs.

`make studies` runs every sweep of this page and writes the page; a sweep that is finished is not run again.
"""


def write_page(sweeps: dict[str, Sweep], folder: Path) -> Path:
    """Write threshold_attention.md and its figures into `folder`; returns the page."""
    claims, pictures = all_claims(sweeps), draw_all(sweeps, folder)
    text = [INTRODUCTION, overview(claims), sizes(sweeps)]
    text += [section(claim, pictures[claim.letter].relative_to(folder)) for claim in claims]
    return write(folder, "threshold_attention", text)
