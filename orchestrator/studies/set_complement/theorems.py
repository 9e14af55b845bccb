"""Claims (a) and (b) of arXiv:2510.08341: which widths are needed, and what two lengths say of all."""

import pandas as pd

from orchestrator.studies.claims import Claim, Part, Table, plain, within
from orchestrator.studies.measures import Sweep, effect_of_seeds, paired_effect
from orchestrator.studies.set_complement.measures import TV


def dimensions(sweep: Sweep) -> Claim:
    """(a) No width below v - 1 gives a positive margin on every input, or the distribution itself."""
    bound = sweep.setting(sweep.where({})[0], "task.vocabulary") - 1
    keys = {"model.width": "embedding width d", "model.value_width": "value width d_v"}
    worst = sweep.members("margin_min", "raw", sweep.lengths, settings=keys, reduce="min")
    distance = sweep.members(TV, "raw", sweep.lengths, settings=keys)
    parts, tables = [], []
    for key, other in zip(keys, reversed(keys), strict=True):
        widest = worst[other].max()
        margins, distances = (
            {int(width): rows for width, rows in table[table[other] == widest].groupby(key)}
            for table in (worst, distance)
        )
        below = pd.concat([rows["value"] for width, rows in margins.items() if width < bound])
        positive, reached = int((below > 0).sum()), int((margins[bound]["value"] > 0).sum())
        seeds = len(margins[bound])
        step = paired_effect(margins[bound], margins[bound - 1], on=("seed",))
        parts.append(
            Part(
                asked=f"is {keys[key]} of at least v - 1 = {bound} needed for a positive margin on every input?",
                effect=f"below it {positive} of {len(below)} members are positive, at it {reached} of {seeds}; worst "
                f"margin at {bound} minus at {bound - 1}: {step}",
                answer="did not hold" if positive else "held" if 2 * reached > seeds else "not decided",
            )
        )
        step = paired_effect(distances[bound], distances[bound - 1], on=("seed",))
        parts.append(
            Part(
                asked=f"does {keys[key]} of v - 1 bring the predictions nearer to the distribution than v - 2?",
                effect=f"total variation at {bound} minus at {bound - 1}: {step}",
                answer=step.verdict("smaller"),
            )
        )
        rows = [
            (width, f"{(m > 0).sum()} of {len(m)}", m.median(), m.min(), m.max(), distances[width]["value"].median())
            for width, m in ((width, rows["value"]) for width, rows in margins.items())
        ]
        head = ("width", "seeds with every margin positive", "median worst margin", "least", "greatest", TV)
        tables.append(Table(title=f"{keys[key]} (the other one is {widest})", head=head, rows=rows))
    return Claim(
        letter="a",
        says="Precision needs embedding and value dimension of at least v - 1.",
        sweep=sweep,
        measured="the smallest margin (least allowed logit minus largest forbidden one) over every input of every "
        "length, and the mean total variation over all lengths",
        parts=parts,
        tables=tables,
        shown=4,
    )


def two_lengths(sweep: Sweep) -> Claim:
    """(b) The margin at length s is at least (2/s) C, as far as the displacement is balanced."""
    beyond = [s for s in sweep.lengths if s not in sweep.trained]
    shown = [s for s in (3, 5, 10, 15, 19, 30, 59) if s in beyond]
    parts, rows = [], []
    for attention, target in ((a, t) for a in ("constant", "softmax") for t in ("soft", "sampled")):
        (name,) = sweep.where({"model.attention": attention, "task.target": target})
        measured, bound, spread, mean = (
            sweep.curve(metric, "raw", [name]).T
            for metric in ("margin_min", "margin_bound", "balance", "table_displacement")
        )
        balanced = spread[1] < bound[beyond[-1]]
        ratio = effect_of_seeds((measured / bound)[beyond].min(axis=1).where(bound[2] > 0))
        shortfall = effect_of_seeds(((bound - measured)[beyond].max(axis=1) / spread[1])[balanced])
        positive = int((measured[beyond] > 0).all(axis=1).sum())
        answer = within(shortfall, most=1.0) if 2 * balanced.sum() > len(balanced) else "does not apply: not balanced"
        short_of = f"largest shortfall {plain(shortfall)}, in units of the imbalance; " if balanced.any() else ""
        parts.append(
            Part(
                asked=f"{attention} attention, {target} targets: are margins beyond length 2 at least (2/s) C, or "
                "short of it by no more than the imbalance?",
                effect=f"balanced: {int(balanced.sum())} of {len(balanced)} members; {short_of}smallest ratio of "
                f"margin to (2/s) C {plain(ratio)}; every margin positive in {positive} of {len(balanced)}",
                answer=answer,
            )
        )
        ratios = (measured / bound).median()
        numbers = [bound[2].median(), spread[1].median(), mean[1].median(), *(ratios[s] for s in shown)]
        rows.append((attention, target, *numbers))
    head = ("attention", "target", "C", "imbalance", "displacement", *(f"ratio at {s}" for s in shown))
    return Claim(
        letter="b",
        says="Balanced at lengths 1 and 2 with margin C, a model has margin (2/s) C or more at length s.",
        sweep=sweep,
        measured="the worst margin of the evaluated inputs at each length against (2/s) C, with C from every input of "
        "lengths 1 and 2. No trained model is exactly balanced. Its imbalance, the standard deviation of the "
        "off-diagonal displacements in a row, is in logits like the margin; entries off by e can lower a margin by 2e, "
        "so a shortfall of one imbalance is less than the theorem leaves room for. A member counts as balanced if its "
        f"imbalance is below (2/s) C even at s = {beyond[-1]}",
        parts=parts,
        tables=[Table(title="medians over seeds, raw weights", head=head, rows=rows)],
        shown=4,
    )
