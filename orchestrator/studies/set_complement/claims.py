"""The claims of arXiv:2510.08341 as questions to the ledgers of this study's sweeps: effect, interval, and an answer.

Whatever is chosen (a learning rate, a dropout rate, a decay) is chosen by the objective's selection lengths; what is
reported are the lengths beyond them.
"""

from collections.abc import Mapping

import numpy as np
from scipy import stats

from orchestrator.statistics.effects import effects
from orchestrator.studies.claims import Claim, Part, Table, span
from orchestrator.studies.measures import Effect, Sweep, against
from orchestrator.studies.set_complement.averages import averaging, othello
from orchestrator.studies.set_complement.measures import TV, curves_in_numbers, level
from orchestrator.studies.set_complement.search import held_fixed, search_scores
from orchestrator.studies.set_complement.theorems import dimensions, two_lengths


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


def dropout(sweep: Sweep, search: Sweep) -> Claim:
    """(c) Dropout lowers the error at lengths that were not trained."""
    keys = ("model.dropout", "model.dropout_sites")
    (none,) = sweep.where({"model.dropout": 0.0})
    sites = dict.fromkeys(sweep.setting(name, keys[1]) for name in sweep.state.configurations)
    steps = sorted(sweep.curves["step"].unique())
    arms = [name for name in sweep.state.configurations if name != none]
    best = sweep.selected(arms)
    parts: list[Part] = []
    rows = []
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
    (rate,) = effects({name: {keys[0]: values[keys[0]]} for name, values in drawn.items()}, scores)
    correlation = Effect(value=rate.correlation, low=rate.low, high=rate.high, n=rate.n, unit="configurations")
    parts.append(
        Part(
            asked=f"{search.name}: does the test error of raw weights fall with the dropout rate (rank correlation)?",
            effect=str(correlation),
            answer=correlation.verdict("smaller"),
        )
    )
    parts.append(held_fixed(drawn, scores, search.name, keys[0], "", "a higher dropout rate"))
    for name in [none, *arms]:
        differences = [against(sweep, name, none, TV, "raw", at=step).value for step in steps]
        displacement = sweep.members("displacement", "raw", sweep.test).groupby("config_id")["value"].median()[name]
        site = sweep.setting(name, keys[1]) if name != none else "-"
        rows.append((site, sweep.setting(name, keys[0]), *differences, level(sweep, name, TV, "raw"), displacement))
    arms_shown = {
        f"{sweep.setting(name, keys[1])} {sweep.setting(name, keys[0])}": ([name], "raw") for name in (none, *arms)
    }
    head = ("site", "rate", *(f"change at {step:,} steps" for step in steps), "total variation", "displacement")
    title = (
        f"total variation at test lengths {span(sweep.test)}, raw weights: change against no dropout, median over seeds"
    )
    return Claim(
        letter="c",
        says="Dropout counteracts attention dispersion.",
        sweep=sweep,
        measured=f"total variation at test lengths {span(sweep.test)}, seed by seed against no dropout, raw weights",
        parts=parts,
        tables=[curves_in_numbers(sweep, arms_shown), Table(title=title, head=head, rows=rows)],
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
