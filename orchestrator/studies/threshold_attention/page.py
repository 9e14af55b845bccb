"""The gallery page of threshold relative attention: for every claim its sweep, the numbers, the answer and a figure."""

from pathlib import Path

from PIL import Image

from orchestrator.errors import UserError
from orchestrator.figures.maps import draw_attention
from orchestrator.results.from_weights.attention_maps import attention_of
from orchestrator.studies.gallery import command, overview, section, sizes, write
from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import reduced
from orchestrator.studies.threshold_attention.claims import all_claims
from orchestrator.studies.threshold_attention.measures import arms
from orchestrator.studies.threshold_attention.pictures import draw_all

SHOWN = ("tra", "fox")
INTRODUCTION = """\
# Threshold relative attention: which claims held here

The claims are those of arXiv:2503.23174. The sweeps are small on purpose: they run on two cores. An answer is about
this scale. `held` and `did not hold` mean that the whole 95 % interval lies on one side of no effect, `not decided`
that it does not. Effects are seed by seed, over the seeds that learned the task with both: a seed that has not learned
it says nothing about length. No number here is the paper's.

`not testable at this size` means that nothing was tested: no seed has learned the task, or no row is right beyond the
trained lengths with either attention. The token layouts of copying and induction are not published; those here were
chosen. Seven instructions are our substitute for the paper's third task, which is not described there. Not tested here:
the cost (T4), which tests/benchmarks measures. Which encodings the paper compares on one backbone is not known to us;
here only the attention differs.

`make studies` runs every sweep of this page and writes the page; a sweep that is finished is not run again.
"""


def write_page(sweeps: dict[str, Sweep], folder: Path) -> Path:
    """Write threshold_attention.md and its figures into `folder`; returns the page."""
    claims, pictures = all_claims(sweeps), draw_all(sweeps, folder)
    text = [INTRODUCTION, overview(claims), sizes(sweeps)]
    text += [section(claim, pictures[claim.letter].relative_to(folder)) for claim in claims]
    text.append(one_input(sweeps["table1_induct_cpu"], folder))
    return write(folder, "threshold_attention", text)


def one_input(sweep: Sweep, folder: Path) -> str:
    """What one input of induction attends to with tra and fox, where weights were kept."""
    text = ["## What one input attends to\n", f"Rows are queries, columns keys; {command(sweep)} keeps the weights.\n"]
    length = sweep.test[0]
    for name, config_id in arms(sweep).items():
        if name not in SHOWN:
            continue
        number = sweep.state.configurations[config_id].number
        try:
            found = attention_of(sweep.folder, config_id, length=length)
        except UserError:
            return "\n".join([*text, "The sweep has not kept them, so nothing is drawn.\n"])
        picture = folder / f"threshold_attention_maps_{name}.png"
        with Image.open(draw_attention(found, folder / picture.name)) as drawn:
            small = reduced(drawn, 64)
        small.save(picture, optimize=True)
        text.append(f"`lengthwise attention sweeps/{sweep.name} {number} --length {length}`, {name}:\n")
        text.append(f"![Attention weights of one input, {name}]({picture.name})\n")
    return "\n".join(text)
