"""Claims (d) and (e) of arXiv:2510.08341: what an average of the weights gains over the trained ones."""

from orchestrator.studies.claims import Claim, Part, Table, short, span
from orchestrator.studies.measures import Sweep, paired_effect
from orchestrator.studies.set_complement.measures import TV, best_average, curves_in_numbers, gain, level, zeros


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
            short(paired_effect(table := gain(search, average, "raw", lengths, ()), zeros(table), unit="config_id"))
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
        shown=4,
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
