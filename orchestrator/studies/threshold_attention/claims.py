"""The claims of arXiv:2503.23174 that fit on two cores, and what the ledgers say of them."""

from orchestrator.studies.claims import Claim, Part, Table, plain, span, within
from orchestrator.studies.measures import Sweep, share
from orchestrator.studies.threshold_attention.measures import (
    EXACT,
    LEARNED,
    SETS,
    arms,
    difference,
    errors,
    learned,
    metric_of,
)
from orchestrator.studies.threshold_attention.perplexity import TEXT, perplexity_claim
from orchestrator.studies.threshold_attention.strings import STRINGS, strings_claim

_MEASURED = (
    f"the share of reads that are wrong. A seed whose error at the trained length, in distribution, is above "
    f"{LEARNED:.0%} has not learned the task: it is counted, and left out of comparisons of length"
)


def all_claims(sweeps: dict[str, Sweep]) -> list[Claim]:
    """Every claim, in the order of the page."""
    table1, many, switches, lstm = (
        sweeps[f"{name}_cpu"] for name in ("table1_ffl", "many_seeds_ffl", "ablations_ffl", "lstm_control")
    )
    strings = [strings_claim(letter, task, sweeps[name]) for letter, task, name in STRINGS if name in sweeps]
    text = perplexity_claim(sweeps[TEXT])
    return [better(table1, many), *strings, without_errors(many, table1, lstm), text, parts_of_it(switches)]


def better(sweep: Sweep, many: Sweep) -> Claim:
    """(T1) Smaller read errors than with other attention, beyond the trained length."""
    of, beyond = arms(sweep), sweep.test
    parts = [_against(sweep, of["tra"], other, name) for name, other in of.items() if name in ("rope", "cope", "fox")]
    two, longest = arms(many), many.lengths[-1]
    for one in SETS:
        effect = difference(many, two["tra"], two["fox"], (longest,), (one,))
        both = len(learned(many, two["tra"]) & learned(many, two["fox"]))
        parts.append(
            Part(
                asked=f"{many.name}, {one} rows of {longest} pairs: is the read error lower with tra than with fox?",
                effect=f"{effect}; {both} of {len(_seeds(many, two['tra']))} seeds learned with both",
                answer=effect.verdict("smaller"),
            )
        )
    parts += [_against(sweep, of["tra"], of[name], name) for name in ("alibi", "nope")]
    return Claim(
        letter="T1",
        says="TRA generalizes better than RoPE, the Forgetting Transformer and CoPE.",
        sweep=sweep,
        measured=f"{_MEASURED}. Beyond the trained length means {span(beyond)} pairs, the mean over lengths and over "
        f"{', '.join(SETS)} rows",
        parts=parts,
        tables=[_errors(sweep), _exact(sweep), _errors(many)],
        shown=6,
    )


def without_errors(sweep: Sweep, others: Sweep, lstm: Sweep) -> Claim:
    """(T2) No wrong read in distribution, with sparse writes and with dense ones."""
    parts = []
    for name in ("tra", "fox"):
        for lengths, words in ((sweep.trained, "the trained length"), (sweep.lengths, "every length")):
            perfect, ran = _perfect(sweep, arms(sweep)[name], lengths)
            found = share(perfect, ran)
            parts.append(
                Part(
                    asked=f"do most seeds of {name} read all three sets at {words} ({span(lengths)} pairs) without an "
                    "error?",
                    effect=f"{perfect} of {ran} seeds; share {plain(found)}",
                    answer=within(found, least=0.5),
                )
            )
    rows = []
    for one in (sweep, others, lstm):
        for name, config_id in arms(one).items():
            counts = [_perfect(one, config_id, lengths) for lengths in (one.trained, one.lengths)]
            rows.append((one.name, name, len(learned(one, config_id)), *(f"{hits} of {ran}" for hits, ran in counts)))
    head = ("sweep", "attention", "seeds that learned", "no error at the trained length", "no error at any length")
    return Claim(
        letter="T2",
        says="TRA reads without glitches, in distribution and on both shifted test sets.",
        sweep=sweep,
        measured="seeds without a single wrong read among those that were tested, all seeds counted; the interval is "
        "the exact one of a share of seeds",
        parts=parts,
        tables=[Table(title="seeds without a wrong read", head=head, rows=rows), _errors(lstm)],
        shown=2,
    )


def parts_of_it(sweep: Sweep) -> Claim:
    """(A) Which of its parts lowers the error: our own question."""
    of = arms(sweep)
    parts = []
    for name, config_id in of.items():
        if config_id == of["tra"]:
            continue
        effect = difference(sweep, of["tra"], config_id, sweep.test)
        both = len(learned(sweep, of["tra"]) & learned(sweep, config_id))
        parts.append(
            Part(
                asked=f"is the read error beyond the trained length lower with all of tra than with {name}?",
                effect=f"{effect}; {both} seeds learned with both" if both else "no seed learned with both",
                answer=effect.verdict("smaller"),
            )
        )
    return Claim(
        letter="A",
        says="Every part of TRA is needed (a question of ours, no claim of the paper's).",
        sweep=sweep,
        measured=_MEASURED,
        parts=parts,
        tables=[_errors(sweep)],
        shown=len(parts),
    )


def _against(sweep: Sweep, tra: str, other: str, name: str) -> Part:
    effect = difference(sweep, tra, other, sweep.test)
    counts = [len(learned(sweep, one)) for one in (tra, other)]
    both = len(learned(sweep, tra) & learned(sweep, other))
    said = f"seeds that learned: tra {counts[0]}, {name} {counts[1]}, both {both} of {len(_seeds(sweep, tra))}"
    return Part(
        asked=f"is the read error beyond the trained length lower with tra than with {name}?",
        effect=f"{effect}; {said}" if both else said,
        answer=effect.verdict("smaller"),
    )


def _perfect(sweep: Sweep, name: str, lengths: tuple[int, ...]) -> tuple[int, int]:
    """How many seeds have no error in any set at any of these lengths, and how many ran; a failed one has errors."""
    rows = errors(sweep, name, lengths)
    return int((rows["value"] == 0).sum()), len(rows)


def _seeds(sweep: Sweep, name: str) -> list[int]:
    return list(sweep.state.configurations[name].members)


def _errors(sweep: Sweep) -> Table:
    """Read errors of every seed that learned, as median and range, by set and length."""
    rows = []
    for name, config_id in arms(sweep).items():
        good = learned(sweep, config_id)
        cells = []
        for one in SETS:
            for length in sweep.lengths:
                of_seeds = errors(sweep, config_id, (length,), (one,))
                values = 100 * of_seeds.loc[of_seeds["seed"].isin(good), "value"]
                cells.append(
                    "-" if not len(values) else f"{values.median():.3g} ({values.min():.3g} to {values.max():.3g})"
                )
        rows.append((name, f"{len(good)} of {len(_seeds(sweep, config_id))}", *cells))
    head = ("attention", "learned", *(f"{one} {length}" for one in SETS for length in sweep.lengths))
    title = f"read error in % of the seeds that learned, median (least to greatest), by set and pairs, {sweep.name}"
    return Table(title=title, head=head, rows=rows)


def _exact(sweep: Sweep) -> Table:
    """Exact match of whole rows, as the paper has it: mean and median over all seeds."""
    rows = []
    for name, config_id in arms(sweep).items():
        cells = []
        for one in SETS:
            for length in (sweep.trained[0], sweep.lengths[-1]):
                table = sweep.members(metric_of(one, EXACT), "raw", (length,))
                values = 100 * table.loc[table["config_id"] == config_id, "value"]
                cells.append(f"{values.mean():.3g} / {values.median():.3g}")
        rows.append((name, *cells))
    head = ("attention", *(f"{one} {s}" for one in SETS for s in (sweep.trained[0], sweep.lengths[-1])))
    return Table(title="rows that are right as a whole, in %, mean / median over all seeds", head=head, rows=rows)
