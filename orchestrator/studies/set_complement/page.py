"""The gallery page of set complement: for every claim its sweep, the numbers, the answer and a figure."""

from pathlib import Path

from orchestrator.studies.claims import span
from orchestrator.studies.gallery import command, markdown, overview, section, sizes, write
from orchestrator.studies.measures import Sweep
from orchestrator.studies.set_complement.claims import all_claims
from orchestrator.studies.set_complement.pictures import draw_all
from orchestrator.studies.set_complement.search import hyperparameters

INTRODUCTION = """\
# Set complement and Othello: which claims held here

The claims are those of arXiv:2510.08341, the last one of its second version. The sweeps are small on purpose: they
run on two cores. An answer is about this scale. `held` and `did not hold` mean that the whole 95 % interval lies on one
side of no effect, `not decided` that it does not. Effects are medians over seeds, those of the random search over its
configurations; an interval is between two of their values, and there is none below six. Whatever was chosen was chosen
at the selection lengths, just beyond the trained ones; the test lengths, all those beyond, are
only reported. No number here is the paper's.

`make studies` runs every sweep of this page and writes the page; a sweep that is finished is not run again.
"""


def write_page(sweeps: dict[str, Sweep], folder: Path) -> Path:
    """Write set_complement.md and its figures into `folder`; returns the page."""
    claims = all_claims(sweeps)
    pictures = draw_all(sweeps, folder)
    text = [INTRODUCTION, overview(claims), sizes(sweeps)]
    text += [section(claim, pictures[claim.letter].relative_to(folder)) for claim in claims]
    search = sweeps["random_search_cpu"]
    text.append(
        f"## Random search\n\n{command(search)}: {search.size}. Score "
        f"of a configuration: median over seeds of the total variation at test lengths {span(search.test)}; smaller is "
        "better, so a negative number says that more of the hyperparameter helps. Partial effects: least squares on "
        "standardised ranks with the other hyperparameters held; for categories, against the first value.\n"
    )
    text += [markdown(table) for table in hyperparameters(search)]
    return write(folder, "set_complement", text)
