"""The gallery page of arithmetic: for every claim its sweep, the numbers, the answer and a figure."""

import io
from pathlib import Path

from PIL import Image

from orchestrator import wording
from orchestrator.studies.arithmetic.claims import all_claims
from orchestrator.studies.arithmetic.measures import arms, by_length, fluctuation
from orchestrator.studies.arithmetic.pictures import draw_all
from orchestrator.studies.gallery import command, markdown, overview, section, sizes, write
from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import reduced

INTRODUCTION = """\
# Arithmetic: which claims held here

The claims are those of arXiv:2406.01895: transformers add and multiply longer numbers than they were trained on if
their positions have the structure of the task (F1), appended zeros help less than that (F2), and carries are what makes
long sums hard (F3). The sweeps are small on purpose: they run on two cores, with small models, few training steps and
short numbers; only the ring (R1, R5) has the paper's size. An answer is about this scale. `held` and `did not hold`
mean that the whole 95 % interval lies on one side of no effect, or of the bound in the question, `not decided` that it
does not. Effects are medians of differences or ratios seed by seed; an interval is between two of them, and there is
none below six seeds: so few are often all or nothing, and nothing covers then as often as it says.

Accuracy on long numbers rises and falls from one evaluation to the next. So most answers are given twice: at the
evaluation of each seed that is best at the selection lengths, as in the paper, and at the last one. The selection
lengths, just beyond the trained ones, also choose the weight decay where several were searched; the test lengths, all
those beyond, are only reported. No number here is the paper's.

APE: learned absolute positions. RPE: a learned vector for each difference of positions. UPE: RPE, with a vector of its
own for each digit of the multiplier. `+ zeros`: training numbers have zeros appended. `+ shifts`: trained on every
shift of the window.

`make studies` runs every sweep of this page and writes the page; a sweep that is finished is not run again.
"""

NOT_REPRODUCED = """\
## Not reproduced

- The paper's size: 6 and 9 layers of width 768, numbers up to 50 digits (here up to 11), multipliers of 3 digits (here
  2), text gaps of 20 tokens (here 5), hundreds of thousands of samples for many epochs. The files without `_cpu` in
  [search_spaces/arithmetic/](../arithmetic/) have these sizes; nothing on this page comes from them, rings apart.
- The paper's search over four weight decays: most sweeps here have one value.
- Any accuracy of the paper. Its number of seeds and epochs, and its validation set of longer sequences, are not stated.
- Where several values could have been meant, one was chosen; the sweep files say which.
- Figs. 13 and 14 are counts of training data, which `lengthwise data` shows without training; Fig. 16 is drawn by
  `lengthwise report` from the weights of the rings.
"""
PICTURE_BYTES = 100_000


def write_page(sweeps: dict[str, Sweep], folder: Path) -> Path:
    """Write arithmetic.md and its figures into `folder`; returns the page."""
    claims = all_claims(sweeps)
    pictures = draw_all(sweeps, folder)
    text = [INTRODUCTION, overview(claims), sizes(sweeps)]
    text += [section(claim, pictures[claim.letter].relative_to(folder)) for claim in claims]
    text += [
        "## Best and last evaluation\n",
        "How much depends on which evaluation is taken. The best one is chosen at the selection lengths.\n",
        markdown(fluctuation([sweep for sweep in sweeps.values() if "ring" not in sweep.name])),
        encodings(sweeps["other_encodings_cpu"]),
        maps(sweeps["fig11_12_maps_cpu"], folder),
        NOT_REPRODUCED,
    ]
    return write(folder, "arithmetic", text)


def encodings(sweep: Sweep) -> str:
    """Encodings that the paper does not try; there is no claim about them."""
    return "\n".join(
        [
            "## Other positional encodings",
            "",
            f"{command(sweep)}: {sweep.size}. Addition with encodings that the paper does not try, beside relative "
            "positions. There is no claim to test. A bidirectional model without positions (nope) cannot tell the "
            "order of digits: a control.",
            "",
            markdown(by_length(sweep, arms(sweep))),
        ]
    )


def maps(sweep: Sweep, folder: Path) -> str:
    """The vectors of each encoding at the fewest multiplier digits, from the sweep's own figures where they are."""
    text = [f"## Maps of positional vectors\n\n{command(sweep)}: {sweep.size}. After Figs. 11 and 12 of the paper.\n"]
    fewest = min(int(sweep.resolved(name, "task.multiplier_digits")) for name in sweep.state.configurations)
    for arm, name in arms(sweep).items():
        drawn = sweep.folder / "figures" / f"maps-{name}.png"
        if sweep.resolved(name, "task.multiplier_digits") == fewest and drawn.exists():
            picture = folder / f"arithmetic_maps_{sweep.setting(name, 'model.position')}.png"
            picture.write_bytes(small(drawn))
            text.append(f"![Vectors by difference of positions, {arm}]({picture.name})\n")
    if len(text) == 1:
        text.append(
            f"The sweep has no maps: `{wording.command('report', sweep.folder)}` draws them where weights were kept.\n"
        )
    return "\n".join([*text, markdown(by_length(sweep, arms(sweep)))])


def small(picture: Path) -> bytes:
    """A picture as PNG of less than PICTURE_BYTES: in few colours, and narrower until it fits."""
    with Image.open(picture) as image:
        for width in range(min(image.width, 1400), 200, -100):
            written = io.BytesIO()
            size = (width, round(image.height * width / image.width))
            reduced(image.convert("RGB").resize(size, Image.Resampling.LANCZOS), 64).save(written, "png", optimize=True)
            if written.tell() < PICTURE_BYTES:
                break
    return written.getvalue()
