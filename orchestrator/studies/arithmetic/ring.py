"""The claims about ring regression (arXiv:2406.01895, section 5): losses at positions that training has not seen.

A "length" is a position here. Losses are exact expectations at the last step, and every weight decay is shown, so
nothing is selected.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import pandas as pd

from orchestrator.results.scoring.evaluation_choice import LAST
from orchestrator.studies.arithmetic.measures import Values, by_seed, change
from orchestrator.studies.claims import Claim, Part, Table, plain, within
from orchestrator.studies.measures import Sweep, effect_of_seeds
from orchestrator.wording import spans

SETTINGS = {"APE": ("ape", False), "APE + shifts": ("ape", True), "RPE": ("rpe", False)}
TENTH, CLOSE = 0.1, 0.1  # what counts as near zero, and as near a closed form; chosen here


@dataclass(frozen=True)
class Ring:
    """The ring of a sweep: its settings, which positions are seen, and what theory says of those that are not."""

    sweep: Sweep

    @cached_property
    def first(self) -> str:
        """Some configuration: the ring is the same in all."""
        return next(iter(self.sweep.state.configurations))

    def of(self, key: str) -> float:
        """A number that all configurations share."""
        return float(self.sweep.resolved(self.first, key))

    @cached_property
    def betas(self) -> tuple[float, ...]:
        """Coefficients of the neighbours."""
        return tuple(self.sweep.resolved(self.first, "task.betas"))

    @cached_property
    def decays(self) -> tuple[float, ...]:
        """Every weight decay, largest first."""
        names = self.sweep.state.configurations
        return tuple(sorted({self.sweep.setting(name, "training.weight_decay") for name in names}, reverse=True))

    @cached_property
    def unseen(self) -> tuple[int, ...]:
        """Positions outside the training window."""
        return tuple(s for s in self.sweep.lengths if s not in self.sweep.trained)

    @cached_property
    def far(self) -> tuple[int, ...]:
        """Those of them whose neighbours are outside as well."""
        n, near = int(self.of("task.ring")), range(-len(self.betas), len(self.betas) + 1)
        return tuple(s for s in self.unseen if all((s + k - 1) % n + 1 in self.unseen for k in near))

    @property
    def limit(self) -> float:
        """The loss where a position's products are all zero: alpha^2 + 2 sum beta^2."""
        return self.of("task.alpha") ** 2 + 2 * sum(beta**2 for beta in self.betas)

    def configuration(self, setting: str, decay: float) -> str:
        """The configuration of a setting at a weight decay."""
        encoding, augmented = SETTINGS[setting]
        settings = {"model.encoding": encoding, "task.augmented": augmented, "training.weight_decay": decay}
        (name,) = self.sweep.where(settings)
        return name

    def loss(self, setting: str, decay: float, positions: tuple[int, ...]) -> Values:
        """Mean test loss over positions, by seed."""
        return by_seed(self.sweep, self.configuration(setting, decay), "test_loss", LAST, positions)

    def untrained(self, decay: float) -> float:
        """The expected loss of absolute positions where neither a position nor its neighbours have been seen.

        Their vectors start as N(0, I/d) and only shrink, to a squared norm of q; those of the window have learned a
        squared norm of alpha. So alpha - q is missing on the diagonal, with variance 2 q^2 / d, all of every beta, and
        products with the other vectors are noise of variance q^2 / d outside the window and q alpha / d inside.
        """
        alpha, n, window = (self.of(f"task.{key}") for key in ("alpha", "ring", "window"))
        q = (1 - self.of("training.learning_rate") * decay) ** (2 * self.sweep.steps)
        noise = (2 * q**2 + (n - 1 - window) * q**2 + window * q * alpha) / self.of("model.width")
        return (alpha - q) ** 2 + 2 * sum(beta**2 for beta in self.betas) + noise

    def in_words(self, decay: float) -> str:
        """A weight decay with how much it had time to do."""
        done = self.of("training.learning_rate") * decay * self.sweep.steps
        return f"weight decay {decay:g} (rate x decay x steps = {done:.2g})"


def ring(letter: str, neighbours: str, sweep: Sweep) -> Claim:
    """Relative positions fit everywhere; absolute ones do not, and augmentation fails in its own way."""
    here = Ring(sweep)
    measured = (
        f"expected squared error at each of {here.of('task.ring'):g} positions, of which training sees "
        f"{spans(sweep.trained)}: unseen are the others, far those of them whose neighbours are unseen as well. "
        "Nothing is sampled and nothing selected; the last step"
    )
    return Claim(
        letter=letter,
        says=f"Ring with {neighbours} on each side: only relative positions fit what training has not seen.",
        sweep=sweep,
        measured=measured,
        parts=[*relative(here), *absolute(here), *augmented(here)],
        tables=[losses(here)],
        shown=2 * len(here.decays) + 1,
    )


def relative(here: Ring) -> list[Part]:
    """Their loss is near zero at unseen positions."""
    parts = []
    for decay in here.decays:
        effect = effect_of_seeds(here.loss("RPE", decay, here.unseen) / here.loss("APE", decay, here.unseen))
        asked = f"{here.in_words(decay)}: is RPE's loss at unseen positions at most a tenth of APE's?"
        parts.append(Part(asked=asked, effect=f"ratio {plain(effect)}", answer=within(effect, most=TENTH)))
    return parts


def absolute(here: Ring) -> list[Part]:
    """Their loss tends to alpha^2 + 2 sum beta^2 at unseen positions, as fast as decay lets it."""
    most, least = here.decays[0], here.decays[-1]
    distances = (abs(here.loss("APE", decay, here.far) - here.limit) for decay in (most, least))
    effect = change(*distances)
    asked = f"is APE's loss at far positions nearer to {here.limit:.3g} with decay {most:g} than with {least:g}?"
    parts = [Part(asked=asked, effect=f"{effect} (distance)", answer=effect.verdict("smaller"))]
    for decay in here.decays:
        expected = here.untrained(decay)
        effect = effect_of_seeds(here.loss("APE", decay, here.far) / expected)
        asked = f"{here.in_words(decay)}: is APE's loss at far positions within {CLOSE:.0%} of {expected:.3g}, which "
        asked += "vectors that only shrink would have?"
        answer = within(effect, 1 - CLOSE, 1 + CLOSE)
        parts.append(Part(asked=asked, effect=f"ratio {plain(effect)}", answer=answer))
    return parts


def augmented(here: Ring) -> list[Part]:
    """Augmentation fits pairs nearer than the window and leaves the others: a loss of at least n / d."""
    n, d, window = (here.of(key) for key in ("task.ring", "model.width", "task.window"))
    larger, far = [], []
    for decay in here.decays:
        everywhere = here.loss("APE + shifts", decay, here.sweep.lengths)
        effect = effect_of_seeds(everywhere)
        asked = f"{here.in_words(decay)}: is the loss of APE with augmentation at least n/d = {n / d:.3g}?"
        larger.append(Part(asked=asked, effect=plain(effect), answer=within(effect, least=n / d)))
        # Training weighs pairs nearer than the window by 1/n at least: their errors sum to n training losses at most.
        name = here.configuration("APE + shifts", decay)
        trained = by_seed(here.sweep, name, "train_loss", LAST, here.sweep.lengths)
        effect = effect_of_seeds(1 - n * trained / everywhere)
        asked = (
            f"{here.in_words(decay)}: is at least 90 % of it from pairs {window:g} positions and more apart, which no "
            "shift of the window joins (bounded by the training loss)?"
        )
        answer = "held" if within(effect, least=0.9) == "held" else "not decided"  # a lower bound refutes nothing
        far.append(Part(asked=asked, effect=f"at least {plain(effect)}", answer=answer))
    return [*larger, *far]


def losses(here: Ring) -> Table:
    """Every setting at every decay."""
    rows = []
    for setting, decay in product(SETTINGS, here.decays):
        name = here.configuration(setting, decay)
        trained = by_seed(here.sweep, name, "train_loss", LAST, here.sweep.lengths) * len(here.sweep.lengths)
        groups = (here.sweep.lengths, here.sweep.trained, here.unseen, here.far)
        means = [here.loss(setting, decay, positions).median() for positions in groups]
        expected = here.untrained(decay) if setting == "APE" else float("nan")
        rows.append((setting, f"{decay:g}", trained.median(), *means, expected))
    head = ("setting", "weight decay", "training loss", "all", "seen", "unseen", "far", "far, if vectors only shrink")
    title = f"mean test loss over positions, median over seeds; the limit at far positions is {here.limit:.4g}"
    return Table(title=title, head=head, rows=rows)


def at_positions(here: Ring, setting: str, decay: float) -> pd.DataFrame:
    """Test loss, positions by seeds."""
    return here.sweep.curve("test_loss", here.sweep.objective.average, [here.configuration(setting, decay)])
