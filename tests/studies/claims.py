"""The claims of arXiv:2510.08341 as questions to the ledgers of this study's sweeps: effect, interval, and an answer.

Whatever is chosen (a learning rate, a dropout rate, a decay) is chosen by the objective's selection lengths; what is
reported are the lengths beyond them. An answer is `held` or `did not hold` where the whole 95 % interval lies on one
side of no effect, else `not decided`. It is about the scale of the sweep and no other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from measures import Effect, Sweep, effect_of_seeds, paired_effect
from scipy import stats

from orchestrator import statistics

TV = "total_variation"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One comparison of a claim: what was asked, the effect in words, and the answer."""

    asked: str
    effect: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows below a heading row, with a title that says what the numbers are."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, the sweep it was put to, and what came out; `parts[0]` is the claim itself, the others explain it."""

    letter: str
    says: str
    sweep: Sweep
    measured: str
    parts: list[Part]
    tables: list[Table] = field(default_factory=list)


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
    )


def two_lengths(sweep: Sweep) -> Claim:
    """(b) The margin at length s is at least (2/s) C, as far as the displacement is balanced."""
    beyond = [s for s in sweep.lengths if s not in sweep.trained]
    shown = [s for s in (3, 5, 10, 15, 19, 30, 59) if s in beyond]
    parts, rows = [], []
    for attention, target in ((a, t) for a in ("constant", "softmax") for t in ("soft", "sampled")):
        (name,) = sweep.where({"model.attention": attention, "task.target": target})
        measured, bound, spread, mean = (
            sweep.curve(metric, "raw", [name])
            for metric in ("margin_min", "margin_bound", "balance", "table_displacement")
        )
        balanced = spread.loc[1] < bound.loc[beyond[-1]]
        ratio = effect_of_seeds((measured / bound).loc[beyond].min().where(bound.loc[2] > 0).to_numpy())
        shortfall = effect_of_seeds(((bound - measured).loc[beyond].max() / spread.loc[1])[balanced].to_numpy())
        positive = int((measured.loc[beyond] > 0).all().sum())
        answer = compared(shortfall, 1.0) if 2 * balanced.sum() > len(balanced) else "does not apply: not balanced"
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
        ratios = (measured / bound).median(axis=1)
        numbers = [bound.loc[2].median(), spread.loc[1].median(), mean.loc[1].median(), *(ratios.loc[s] for s in shown)]
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
    )


def dropout(sweep: Sweep, search: Sweep) -> Claim:
    """(c) Dropout lowers the error at lengths that were not trained."""
    keys = ("model.dropout", "model.dropout_sites")
    (none,) = sweep.where({"model.dropout": 0.0})
    sites = dict.fromkeys(sweep.setting(name, keys[1]) for name in sweep.state.configurations)
    steps = sorted(sweep.curves["step"].unique())
    arms = [name for name in sweep.state.configurations if name != none]
    best = sweep.selected(arms)
    parts, rows = [], []
    for site in sites:
        chosen = sweep.selected([name for name in arms if sweep.setting(name, keys[1]) == site])
        effect = against(sweep, chosen, none, TV, "raw")
        part = Part(
            asked=f"does {site} dropout, at the rate that the selection lengths choose "
            f"({sweep.setting(chosen, keys[0])}), lower the test error after {sweep.steps:,} steps?",
            effect=f"{effect} (total variation)",
            answer=effect.verdict("smaller"),
        )
        parts = [part, *parts] if chosen == best else [*parts, part]
    drawn, scores = search_scores(search, "raw")
    found = statistics.effects({name: {keys[0]: values[keys[0]]} for name, values in drawn.items()}, scores).iloc[0]
    correlation = Effect(
        value=found["correlation"], low=found["low"], high=found["high"], n=found["n"], unit="configurations"
    )
    parts.append(
        Part(
            asked=f"{search.name}: does the test error of raw weights fall with the dropout rate (rank correlation)?",
            effect=str(correlation),
            answer=correlation.verdict("smaller"),
        )
    )
    parts.append(held_fixed(drawn, scores, search.name, keys[0], "", "a higher dropout rate"))
    for name in [none, *arms]:
        differences = [against(sweep, name, none, TV, "raw", step=step).value for step in steps]
        displacement = sweep.members("displacement", "raw", sweep.test).groupby("config_id")["value"].median()[name]
        site = sweep.setting(name, keys[1]) if name != none else "-"
        rows.append((site, sweep.setting(name, keys[0]), *differences, level(sweep, name, TV, "raw"), displacement))
    arms_shown = {
        f"{sweep.setting(name, keys[1])} {sweep.setting(name, keys[0])}": ([name], "raw") for name in (none, *arms)
    }
    head = ("site", "rate", *(f"change at {step:,} steps" for step in steps), "total variation", "displacement")
    title = (
        f"total variation at test lengths {span(sweep.test)}, raw weights: change against no dropout, mean over seeds"
    )
    return Claim(
        letter="c",
        says="Dropout counteracts attention dispersion.",
        sweep=sweep,
        measured=f"total variation at test lengths {span(sweep.test)}, seed by seed against no dropout, raw weights",
        parts=parts,
        tables=[curves_in_numbers(sweep, arms_shown), Table(title=title, head=head, rows=rows)],
    )


def averaging(sweep: Sweep, search: Sweep) -> Claim:
    """(d) An EMA lowers the error, and more so when the targets are noisy."""
    settings = ("task.target", "training.batch_size", "training.learning_rate")
    emas = [label for label in sweep.averages if label.startswith("ema_0")]
    noisy = sweep.where({"task.target": "sampled"})
    chosen = best_average(sweep, emas, noisy)
    groups = {"trained": sweep.trained, "selection": sweep.selection, "test": sweep.test}
    parts, rows = [], []
    gains = {name: gain(sweep, chosen, "raw", lengths, settings) for name, lengths in groups.items()}
    for name in ("test", "trained"):
        table = gains[name]
        arms = {target: table[table["task.target"] == target] for target in ("sampled", "soft")}
        alone = paired_effect(arms["sampled"], zeros(arms["sampled"]))
        more = paired_effect(arms["sampled"], arms["soft"], on=("seed", *settings[1:]))
        answer = alone.verdict("smaller")
        parts.append(
            Part(
                asked=f"sampled targets, {name} lengths {span(groups[name])}: is {chosen} (chosen by the selection "
                "lengths) better than raw weights?",
                effect=f"{alone} (total variation)",
                answer=answer,
            )
        )
        parts.append(
            Part(
                asked=f"{name} lengths: does it gain more with sampled than with soft targets?",
                effect=f"{more} (difference of the differences)",
                answer=more.verdict("smaller"),
            )
        )
    for first, second in (("bema", "raw"), ("bema", "ema_beta_t"), ("bema", "norm_matched")):
        table = gain(sweep, first, second, sweep.test, settings)
        effect = paired_effect(only := table[table["task.target"] == "sampled"], zeros(only))
        asked = f"sampled targets, test lengths: is {first} better than {second}?"
        parts.append(Part(asked=asked, effect=str(effect), answer=effect.verdict("smaller")))
    for average in [label for label in sweep.averages if label != "raw"]:
        cells: list[str] = []
        for target in ("sampled", "soft"):
            for lengths in groups.values():
                table = gain(sweep, average, "raw", lengths, settings)
                only = table[table["task.target"] == target]
                cells.append(short(paired_effect(only, zeros(only))))
        rows.append((average, *cells))
    head = ("average", *(f"{target}, {name}" for target in ("sampled", "soft") for name in groups))
    title = "total variation minus that of the raw weights of the same member"
    arms_shown = {
        f"{target}, {average}": (sweep.where({"task.target": target}), average)
        for target in ("sampled", "soft")
        for average in ("raw", chosen, "bema", "norm_matched")
    }
    tables = [curves_in_numbers(sweep, arms_shown), Table(title=f"{title}, {sweep.name}", head=head, rows=rows)]
    rows = []
    for average in [label for label in search.averages if label != "raw"]:
        cells = [
            short(paired_effect(table := gain(search, average, "raw", lengths, ()), zeros(table)))
            for lengths in (search.trained, search.selection, search.test)
        ]
        rows.append((average, *cells))
    tables.append(Table(title=f"{title}, {search.name}", head=("average", *groups), rows=rows))
    return Claim(
        letter="d",
        says="EMA counteracts the gradient noise of many legal next tokens.",
        sweep=sweep,
        measured="total variation of an average minus that of the raw weights of the same member; soft targets have no "
        "sampling noise and are the control",
        parts=parts,
        tables=tables,
    )


def othello(sweep: Sweep) -> Claim:
    """(e) An EMA lowers the error on later moves."""
    emas = [label for label in sweep.averages if label.startswith("ema_0")]
    chosen = best_average(sweep, emas, list(sweep.state.configurations))
    keys = ("model.position",)
    parts, rows = [], []

    def part(metric: str, average: str, other: str) -> Part:
        table = gain(sweep, average, other, sweep.test, keys, metric)
        effect = paired_effect(table, zeros(table))
        by = "" if average != chosen else " (chosen by the selection lengths)"
        asked = f"all positions, moves {span(sweep.test)}: is the {metric} of {average}{by} below that of {other}?"
        return Part(asked=asked, effect=str(effect), answer=effect.verdict("smaller"))

    parts = [part(TV, chosen, "raw"), part("invalid_mass", chosen, "raw"), part("invalid_top1", chosen, "raw")]
    for name in sweep.state.configurations:
        position = sweep.setting(name, keys[0])
        table = gain(sweep, chosen, "raw", sweep.test, keys)
        only = table[table["config_id"] == name]
        effect = paired_effect(only, zeros(only))
        asked = f"{position}: is {chosen} better than raw weights at moves {span(sweep.test)}?"
        parts.append(Part(asked=asked, effect=f"{effect} (total variation)", answer=effect.verdict("smaller")))
        for average in sweep.averages:
            numbers = [
                level(sweep, name, TV, average, lengths) for lengths in (sweep.trained, sweep.selection, sweep.test)
            ]
            illegal = [level(sweep, name, metric, average) for metric in ("invalid_mass", "invalid_top1")]
            rows.append((position, average, *numbers, *illegal))
    parts += [part(TV, "bema", "raw"), part(TV, "bema", "norm_matched")]
    arms_shown = {
        f"{sweep.setting(name, keys[0])}, {average}": ([name], average)
        for name in sweep.state.configurations
        for average in ("raw", chosen, "bema")
    }
    head = ("positions", "average", "trained", "selection", "test", "illegal mass, test", "illegal top-1, test")
    return Claim(
        letter="e",
        says="EMA improves length generalization of OthelloGPT.",
        sweep=sweep,
        measured=f"total variation to uniform over the legal moves after {span(sweep.test)} moves, trained on "
        f"{span(sweep.trained)}, against the raw weights of the same member. The column `trained` says how far "
        "training got",
        parts=parts,
        tables=[
            curves_in_numbers(sweep, arms_shown),
            Table(title="total variation, median over seeds", head=head, rows=rows),
        ],
    )


def norms(sweep: Sweep, search: Sweep) -> Claim:
    """(f) Post-norm lowers the error at long lengths and sharpens attention there."""
    longest = (max(sweep.lengths),)
    parts, rows = [], []
    chosen: dict[tuple[str, float], str] = {}
    rates = sorted({sweep.setting(name, "model.dropout") for name in sweep.state.configurations})
    for rate in rates:
        for norm in ("none", "pre", "post"):
            arm = sweep.where({"model.norm": norm, "model.dropout": rate})
            name = chosen[norm, rate] = sweep.selected(arm)
            numbers = [level(sweep, name, TV, "raw", s) for s in (sweep.trained, sweep.selection, sweep.test)]
            sharp = [level(sweep, name, m, "raw", longest) for m in ("attention_uniformity", "displacement")]
            rows.append((norm, rate, sweep.setting(name, "training.learning_rate"), *numbers, *sharp))
    for other in ("none", "pre"):
        effect = against(sweep, chosen["post", 0.0], chosen[other, 0.0], TV, "raw")
        asked = f"is post-norm better than {other} at test lengths {span(sweep.test)}, without dropout?"
        parts.append(Part(asked=asked, effect=f"{effect} (total variation)", answer=effect.verdict("smaller")))
    for metric, words in (("displacement", "logit displacement"), ("attention_uniformity", "attention")):
        effect = against(sweep, chosen["post", 0.0], chosen["none", 0.0], metric, "raw", lengths=longest)
        asked = f"is the {words} at length {longest[0]} larger (sharper) with post-norm than without norm?"
        parts.append(Part(asked=asked, effect=f"{effect} ({metric})", answer=effect.verdict("larger")))
    drawn, scores = search_scores(search, "raw")
    by_norm = {norm: [name for name in drawn if drawn[name]["model.norm"] == norm] for norm in ("none", "pre", "post")}
    values = {norm: np.array([scores[name] for name in names], dtype=np.float64) for norm, names in by_norm.items()}
    p = stats.mannwhitneyu(values["post"], values["none"]).pvalue
    medians = ", ".join(f"{norm} {np.median(v):.3f} ({len(v)})" for norm, v in values.items())
    lower = np.median(values["post"]) < np.median(values["none"])
    parts.append(
        Part(
            asked=f"{search.name}: is the test error lower with post-norm than without norm, whatever else differs?",
            effect=f"medians (configurations): {medians}; Mann-Whitney p = {p:.2g}",
            answer="not decided" if not p < 0.05 else "held" if lower else "did not hold",
        )
    )
    parts.append(held_fixed(drawn, scores, search.name, "model.norm", "post", "post-norm instead of no norm"))
    head = ("norm", "dropout", "learning rate", "trained", "selection", "test", "s x largest attention", "displacement")
    title = f"total variation; attention and displacement at length {longest[0]}; median over seeds, raw weights, the "
    return Claim(
        letter="f",
        says="Post-norm resharpens attention.",
        sweep=sweep,
        measured="total variation at the test lengths, seed by seed, each arm at the learning rate that its selection "
        "lengths choose; raw weights",
        parts=parts,
        tables=[
            curves_in_numbers(sweep, {f"{norm}, dropout {rate}": ([n], "raw") for (norm, rate), n in chosen.items()}),
            Table(title=title + "learning rate chosen by the selection lengths", head=head, rows=rows),
        ],
    )


def hyperparameters(search: Sweep) -> list[Table]:
    """Every searched hyperparameter: rank correlation with the test error, and its effect with the others held."""
    tables = []
    for average in ("raw", "ema"):
        drawn, scores = search_scores(search, average)
        if average == "raw":  # the searched decay changes nothing there
            drawn = {name: {k: v for k, v in values.items() if ".ema." not in k} for name, values in drawn.items()}
        alone = statistics.effects(drawn, scores)
        partial = statistics.partial_effects(drawn, scores)
        rows: list[tuple[Any, ...]] = []
        for row in alone.to_dict("records"):
            name = row["hyperparameter"]
            if row["kind"] == "numeric":
                said = f"{row['correlation']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            else:
                said = f"p = {row['p']:.2g}"
            medians = "; ".join(f"{value}: {median:.3f}" for value, median in (row["medians"] or {}).items())
            held = partial[partial["hyperparameter"] == name]
            others = "; ".join(
                f"{p['value'] + ' ' if p['value'] else ''}{p['coefficient']:+.2f} [{p['low']:+.2f}, {p['high']:+.2f}]"
                for p in held.to_dict("records")
            )
            rows.append((name, said, others, medians, row["n"]))
        head = ("hyperparameter", "rank correlation, or Kruskal-Wallis", "partial effect", "median by value", "n")
        tables.append(
            Table(title=f"total variation at test lengths {span(search.test)}, {average} weights", head=head, rows=rows)
        )
    return tables


# What the claims share ------------------------------------------------------------------------------------------------


def curves_in_numbers(sweep: Sweep, arms: Mapping[str, tuple[list[str], str]]) -> Table:
    """The median curves of some arms, each configurations and an average, at a dozen lengths."""
    shown = [s for s in sweep.lengths if s in sweep.selection or s % 2 or s == sweep.lengths[-1]]
    shown = [s for s in shown if s <= 5 or s in sweep.selection or s == sweep.lengths[-1] or s % 4 == 3]
    rows = [
        (label, *sweep.curve(TV, average, names).median(axis=1).loc[shown]) for label, (names, average) in arms.items()
    ]
    title = "total variation by length, median over members"
    return Table(title=title, head=("arm", *map(str, shown)), rows=rows)


def held_fixed(
    drawn: dict[str, dict[str, Any]], scores: dict[str, float], name: str, key: str, value: str, words: str
) -> Part:
    """What one hyperparameter does to the test error of the search when the other ones are held."""
    drawn = {config: {k: v for k, v in values.items() if ".averages." not in k} for config, values in drawn.items()}
    rows = statistics.partial_effects(drawn, scores)
    row = rows[(rows["hyperparameter"] == key) & (rows["value"] == value)].iloc[0]
    n = int(row["n"])
    effect = Effect(value=row["coefficient"], low=row["low"], high=row["high"], n=n, unit="configurations")
    return Part(
        asked=f"{name}: with the other hyperparameters held, does {words} lower the test error of raw weights?",
        effect=f"{effect} (standard deviations of the error's rank)",
        answer=effect.verdict("smaller"),
    )


def search_scores(sweep: Sweep, average: str) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Drawn values and median test error by config_id; a configuration with a failed seed has no score."""
    rows = sweep.members(TV, average, sweep.test)
    scores = rows.groupby("config_id")["value"].agg(lambda values: np.median(values.to_numpy()))
    return (
        {name: dict(found.values) for name, found in sweep.state.configurations.items()},
        {str(name): float(score) for name, score in scores.items()},
    )


def gain(
    sweep: Sweep, first: str, second: str, lengths: tuple[int, ...], settings: tuple[str, ...], metric: str = TV
) -> pd.DataFrame:
    """The metric of one average minus that of another for the same members."""
    table = sweep.members(metric, first, lengths, settings=settings)
    other = sweep.members(metric, second, lengths)
    return table.assign(value=table["value"] - other["value"])


def zeros(table: pd.DataFrame) -> pd.DataFrame:
    """The same members with no effect."""
    return table[["config_id", "seed"]].assign(value=0.0)


def against(
    sweep: Sweep,
    one: str,
    other: str,
    metric: str,
    average: str,
    *,
    lengths: tuple[int, ...] | None = None,
    step: int | None = None,
) -> Effect:
    """One configuration minus another, seed by seed, at the test lengths unless others are given."""
    rows = sweep.members(metric, average, lengths or sweep.test, step=step)
    return paired_effect(rows[rows["config_id"] == one], rows[rows["config_id"] == other], on=("seed",))


def level(sweep: Sweep, name: str, metric: str, average: str, lengths: tuple[int, ...] | None = None) -> float:
    """The median over seeds of a metric at the test lengths, or others."""
    rows = sweep.members(metric, average, lengths or sweep.test)
    return float(rows[rows["config_id"] == name]["value"].median())


def best_average(sweep: Sweep, labels: list[str], names: list[str]) -> str:
    """The average with the least median error over members at the selection lengths."""

    def error(label: str) -> float:
        rows = sweep.members(TV, label, sweep.selection)
        return float(rows[rows["config_id"].isin(names)]["value"].median())

    return min(labels, key=error)


def compared(effect: Effect, most: float) -> str:
    """Held where the whole interval is at most `most`, did not hold where it is above."""
    if math.isnan(effect.low):
        return "not decided"
    return "held" if effect.high <= most else "did not hold" if effect.low > most else "not decided"


def plain(effect: Effect) -> str:
    """An effect without signs, for ratios."""
    return str(effect).replace("+", "")


def short(effect: Effect) -> str:
    """Number and interval alone."""
    return str(effect).partition(",")[0] if math.isnan(effect.low) else str(effect).partition("]")[0] + "]"


def span(lengths: tuple[int, ...]) -> str:
    """(3, 4, 5) is `3 to 5`."""
    return str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"


def all_claims(sweeps: Mapping[str, Sweep]) -> list[Claim]:
    """Every claim, put to the sweeps by name."""
    search = sweeps["random_search_cpu"]
    return [
        dimensions(sweeps["dims_cliff_cpu"]),
        two_lengths(sweeps["two_lengths_cpu"]),
        dropout(sweeps["dropout_sites_cpu"], search),
        averaging(sweeps["averaging_cpu"], search),
        othello(sweeps["othello_cpu"]),
        norms(sweeps["norm_placement_cpu"], search),
    ]
