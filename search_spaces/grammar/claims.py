"""The grammar and strict loader of claims files: claims of a paper as questions to be answered by sweeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, WithJsonSchema

from search_spaces.grammar.domains import is_number
from search_spaces.grammar.load import read_text
from search_spaces.grammar.parse import read_yaml
from search_spaces.grammar.problems import Findings, Location
from search_spaces.grammar.schema import DRAFT
from search_spaces.grammar.sections import ABSENT
from search_spaces.grammar.validate import add_errors
from search_spaces.grammar.values import LENGTHS_SCHEMA, Name, Strict, Text, expand_ranges, make_value_error

Question = Literal["difference", "share", "bound", "equivalence", "ratio", "trend", "fisher"]
Source = Literal["paper", "ours"]
SOURCES: tuple[Source, ...] = get_args(Source)
CLAIM_GROUPS = ("test", "selection", "trained", "unseen", "all")


def _check_lengths(value: Any) -> str | tuple[int, ...]:
    """Return a group of lengths, or distinct lengths; raises a validation error for other values."""
    if isinstance(value, str) and value in CLAIM_GROUPS:
        return value
    value = expand_ranges(value)
    if isinstance(value, list) and value and all(is_number(number, whole=True) and number >= 1 for number in value):
        distinct = tuple(dict.fromkeys(value))
        if len(distinct) == len(value):
            return distinct
    raise make_value_error(
        "are not lengths",
        f"{', '.join(CLAIM_GROUPS)}, or a list of different whole numbers from 1 on, or ranges such as 41-500",
    )


def _check_names(value: Any) -> tuple[str, ...]:
    """Return a name, or a list of names, as a tuple; raises a validation error for other values."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise make_value_error("is not a name", "a name, or a list of names")
    return tuple(names)


_LENGTHS_SCHEMA = {"anyOf": [{"enum": list(CLAIM_GROUPS)}, LENGTHS_SCHEMA]}
_NAMES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}

Lengths = Annotated[str | tuple[int, ...], BeforeValidator(_check_lengths), WithJsonSchema(_LENGTHS_SCHEMA)]
Names = Annotated[tuple[str, ...], BeforeValidator(_check_names), WithJsonSchema(_NAMES_SCHEMA)]

_QUESTION_KEYS: dict[str, tuple[int, set[str], set[str]]] = {
    "difference": (2, {"expect"}, {"negligible", "statistic", "unit"}),
    "share": (1, {"expect", "success"}, {"bound"}),
    "bound": (1, {"expect", "bound"}, set()),
    "equivalence": (2, {"within"}, {"around"}),
    "ratio": (2, {"expect"}, {"bound"}),
    "trend": (1, {"expect", "key"}, {"hold_others", "category"}),
    "fisher": (2, {"expect", "success"}, set()),
}
"""The number of compared arms, the required keys and the optional keys of each question."""


class SeedThreshold(Strict):
    """A bound on a value of each seed, which passes if it is at least `least` or at most `most`."""

    least: float | None = Field(default=None, description="The smallest value that passes.")
    most: float | None = Field(default=None, description="The largest value that passes.")


class Learned(SeedThreshold):
    """The rule for whether a seed has learned the task and counts; the number of other seeds is also shown."""

    metric: Names = Field(description="The metric, or several whose mean is taken.")
    average: Text | None = Field(default=None, description="The weight average; by default the arm's.")
    lengths: Lengths = Field(default="trained", description="The lengths of the metric; by default the trained ones.")
    reduce: Literal["mean", "min", "max"] = Field(default="mean", description="How lengths become one value.")


class Arm(Strict):
    """A side of a comparison: configurations, and a value for each of their seeds."""

    where: dict[str, Any] = Field(
        default_factory=dict, description="Dotted keys and values: the configurations that have all of them."
    )
    configurations: Literal["best", "all"] = Field(
        default="best",
        description="best: of several configurations, the one that the sweep's objective chooses at its selection "
        "lengths. all: every configuration, paired with the other arm's by the other searched values.",
    )
    metric: Names | None = Field(default=None, description="By default the claim's.")
    average: Names | None = Field(
        default=None, description="By default the claim's; of several, the best at the selection lengths."
    )
    lengths: Lengths | None = Field(default=None, description="By default the claim's.")
    reduce: Literal["mean", "min", "max"] | None = Field(default=None, description="By default the claim's.")
    minus: Text | None = Field(default=None, description="Another arm, which is subtracted for each length and seed.")
    over: Text | None = Field(default=None, description="Another arm, by which values are divided for each seed.")


class Claim(Strict):
    """A statement, of a paper or of ours, and the question that decides it."""

    id: Name = Field(description="A short name that other claims and pages refer to.")
    says: Text = Field(description="The claim, in one sentence.")
    source: Source = Field(
        default="paper",
        description="The source of the claim; ours: a control, or a question that the paper does not ask.",
    )
    sweep: Name = Field(description="The name of the sweep that answers the question; its file is beside this one.")
    question: Question = Field(
        description="difference: is one arm smaller than another, seed by seed? share: do enough seeds succeed? bound: "
        "is the median beyond a bound? equivalence: do two arms differ by less than `within`? ratio: the same as "
        "difference, of one over the other; steps that were never reached count as more than were trained. trend: does "
        "the score of configurations move with a hyperparameter? fisher: do more seeds of one arm succeed?"
    )
    arms: dict[str, Arm] = Field(min_length=1, description="The arms by name.")
    compare: list[Text] = Field(min_length=1, max_length=2, description="The names of the compared arms.")
    expect: Literal["smaller", "larger"] | None = Field(
        default=None,
        description="Whether the first arm is expected to be smaller or larger than the second, or than the bound.",
    )
    bound: float | None = Field(
        default=None, description="The bound of a median, of a share (default 0.5) or of a ratio (default 1)."
    )
    negligible: float | None = Field(default=None, gt=0, description="The largest difference that counts as no effect.")
    within: float | None = Field(default=None, gt=0, description="equivalence: the largest difference allowed.")
    around: float | None = Field(default=None, description="equivalence: the expected difference; by default 0.")
    success: SeedThreshold | None = Field(
        default=None, description="share, fisher: the bound that a successful seed meets."
    )
    key: Text | None = Field(default=None, description="trend: the searched key.")
    hold_others: bool | None = Field(default=None, description="trend: whether the other searched keys are held fixed.")
    statistic: Literal["mean"] | None = Field(
        default=None,
        description="difference: mean decides by the mean over seeds and Student's interval, in place of the median.",
    )
    unit: Literal["configurations"] | None = Field(
        default=None,
        description="difference: configurations takes one value for each configuration of a random search, the median "
        "over its seeds, in place of one for each seed.",
    )
    category: Text | None = Field(
        default=None,
        description="trend: for a categorical key, the value that is compared with the first; needs hold_others.",
    )
    metric: Names = Field(description="The metric, or several whose mean is taken.")
    average: Names = Field(default=("raw",), description="The weight average; of several, the best when selecting.")
    lengths: Lengths = Field(
        default="test",
        description="test: neither trained nor selected on. selection: the objective's. unseen: not trained. all, or a "
        "list.",
    )
    reduce: Literal["mean", "min", "max"] = Field(default="mean", description="How lengths become one value.")
    evaluation: Literal["last", "best"] = Field(
        default="last", description="Each seed's last evaluation, or its best one at the selection lengths."
    )
    learned: Learned | None = Field(default=None, description="The rule for seeds that count; by default all count.")
    control: Name | None = Field(default=None, description="A claim that must hold before this one is tested.")
    asked_again: Name | None = Field(
        default=None,
        description="A claim that asks the same question of other seeds or in another way; they share a row.",
    )
    same_as: Name | None = Field(
        default=None,
        description="A claim of the same source that says the same, which this one tests at another size or in another "
        "way; they count as one claim.",
    )
    figure: Literal["curves", "seeds", "none"] = Field(
        default="curves", description="curves: the difference against length. seeds: a dot for each seed."
    )
    note: str = Field(default="", description="Notes for readers on how the question is asked.")

    _page_bound: float | None = PrivateAttr(default=None)

    @property
    def no_effect_bound(self) -> float | None:
        """The largest difference that counts as no effect: the claim's, else the page's for its metric, else None."""
        return self._page_bound if self.negligible is None else self.negligible


class NoEffect(Strict):
    """The largest difference of a metric that counts as no effect, for all claims of a page."""

    metric: Name = Field(description="The metric, also for its other distributions (read_error for read_error.sparse).")
    within: float = Field(gt=0, description="The largest difference that is no effect.")
    because: Text = Field(description="The reason for this bound, which the page shows.")


class Headline(Strict):
    """A headline of the paper: the claim that tests it, or why no claim does."""

    says: Text = Field(description="The statement of the paper, in a few words.")
    claim: Name | None = Field(default=None, description="The claim that tests it.")
    size: Text | None = Field(default=None, description="How far the sweep of that claim is from the paper's size.")
    reason: Text | None = Field(default=None, description="Why it was not tested; only without a claim.")


class Removed(Strict):
    """Claims removed from the page after they were tested; each still counts in Holm's correction."""

    claims: list[Name] = Field(min_length=1, description="Their ids.")
    because: Text = Field(description="The reason for the removal, which the page shows.")


class ClaimsFile(Strict):
    """A page of claims."""

    title: Text = Field(description="The heading of the page.")
    paper: Text = Field(default="", description="The source of the claims.")
    introduction: str = Field(default="", description="An introduction for readers, in Markdown.")
    no_effect: list[NoEffect] = Field(
        default_factory=list, description="Bounds of no effect by metric, for claims that give no `negligible`."
    )
    seen: dict[Name, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        description="By sweep, the number of its seeds, from the first on, that an earlier page had shown: its claims "
        "were known before, not registered.",
    )
    headlines: list[Headline] = Field(
        default_factory=list, description="The headlines of the paper, which the page begins with."
    )
    figures: list[Name] = Field(
        default_factory=list,
        max_length=4,
        description="The claims with a figure; by default up to four, first those of the headlines.",
    )
    removed: list[Removed] = Field(
        default_factory=list, description="Claims that were asked before; they count in the correction."
    )
    claims: list[Claim] = Field(min_length=1, description="The claims, in the order of the page.")
    closing: str = Field(default="", description="What was not tested, with reasons, in Markdown.")

    _path: Path = PrivateAttr(default=Path())

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._path

    @property
    def sweeps(self) -> tuple[str, ...]:
        """The distinct names of the sweeps that the claims need."""
        return tuple(dict.fromkeys(claim.sweep for claim in self.claims))

    @property
    def family(self) -> int:
        """The number of claims in Holm's correction: those on the page and those removed from it."""
        return len(self.claims) + sum(len(group.claims) for group in self.removed)


def make_claims_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a claims file; `load_claims` checks more."""
    about = "Claims of a paper, as questions that sweeps of lengthwise answer."
    return {**DRAFT, **ClaimsFile.model_json_schema(), "title": "lengthwise claims", "description": about}


def load_claims(path: str | Path) -> ClaimsFile:
    """Return a claims file, read and checked. Raises SweepFileError with all problems."""
    # The two kinds of files are easily confused, because a sweep file names its claims file.
    path = Path(path)
    findings = Findings(str(path))
    text = read_text(path, findings, "claims file")
    findings.raise_any()
    data = read_yaml(text, findings)
    if data is not ABSENT and not isinstance(data, dict):
        findings.add("", "must be a mapping with title and claims", given=data)
    if isinstance(data, dict) and "task" in data and not isinstance(claims_file := data.get("claims"), list):
        hint = (
            f"its claims file is {path.with_name(claims_file)}"
            if isinstance(claims_file, str)
            else "it names no claims file"
        )
        findings.add("", f"is a sweep file, not a claims file; {hint}", location=Location(findings.source))
    findings.raise_any()

    # References between claims can only be followed once every claim has valid keys.
    try:
        file = ClaimsFile.model_validate(data)
    except ValidationError as error:
        add_errors(error.errors(include_url=False), data, findings, ClaimsFile)
        findings.raise_any()
        raise AssertionError from error
    _check_page(file, findings)
    for index, claim in enumerate(file.claims):
        _check_claim(claim, index, file, findings)
        _set_page_bound(claim, index, file, findings)
    findings.raise_any()
    file._path = path
    return file


def _check_page(file: ClaimsFile, findings: Findings) -> None:
    """Record unknown sweeps in `seen`, unknown claims in headlines and figures, and claims of the page in `removed`."""
    for name in file.seen:
        if name not in file.sweeps:
            findings.add(f"seen.{name}", "is not the sweep of a claim", given=name, names=file.sweeps)

    # A misspelt reference would leave a headline or a figure out of the page.
    ids = [claim.id for claim in file.claims]
    references = [(f"figures[{index}]", name) for index, name in enumerate(file.figures)]
    for index, headline in enumerate(file.headlines):
        if (headline.claim is None) == (headline.reason is None):
            findings.add(f"headlines[{index}]", "must have either claim or reason")
        references += [(f"headlines[{index}].claim", headline.claim)] if headline.claim is not None else []
    for key_path, name in references:
        if name not in ids:
            findings.add(key_path, "is not a claim", given=name, names=ids)

    # A claim must not count twice in Holm's correction.
    for index, group in enumerate(file.removed):
        for name in group.claims:
            if name in ids:
                findings.add(f"removed[{index}].claims", "is the id of a claim of the page", given=name)


def _check_claim(claim: Claim, index: int, file: ClaimsFile, findings: Findings) -> None:
    """Record keys that the question of a claim lacks or does not read, and references to unknown arms and claims."""
    # A key that the question does not read would be ignored in silence.
    key_path = f"claims[{index}]"
    count, required, optional = _QUESTION_KEYS[claim.question]
    present = {
        key for _, needed, read in _QUESTION_KEYS.values() for key in needed | read if getattr(claim, key) is not None
    }
    for key in sorted(required - present):
        findings.add(f"{key_path}.{key}", f"is needed by a {claim.question} question")
    for key in sorted(present - required - optional):
        findings.add(f"{key_path}.{key}", f"is not read by a {claim.question} question")

    # An equivalence question may test a single arm against `around`.
    least_count = 1 if claim.question == "equivalence" else count
    if not least_count <= len(claim.compare) <= count:
        message = f"must name {count} of the arms" if count > 1 else "must name one of the arms"
        findings.add(f"{key_path}.compare", message, given=claim.compare)
    for name, key in _list_arm_references(claim):
        if name not in claim.arms:
            findings.add(f"{key_path}.{key}", "is not an arm", given=name, names=claim.arms)
    for name in claim.arms:
        if name in _find_source_arms(claim, name):
            findings.add(f"{key_path}.arms.{name}", "depends on itself through minus and over")
    if claim.question == "trend" and any(arm.configurations != "all" for arm in claim.arms.values()):
        findings.add(f"{key_path}.arms", "must have configurations: all for a trend question")

    # Keys that contradict another key of the claim.
    if claim.question == "share" and not 0 <= (claim.bound or 0) <= 1:
        findings.add(f"{key_path}.bound", "is not a share", given=claim.bound, allowed="0 to 1")
    if claim.statistic is not None and claim.negligible is not None:
        findings.add(f"{key_path}.negligible", "is not read with statistic: mean")
    if claim.unit is not None and any(
        claim.arms[name].configurations != "all" for name in claim.compare if name in claim.arms
    ):
        findings.add(f"{key_path}.arms", "must have configurations: all with unit: configurations")
    if claim.category is not None and not claim.hold_others:
        findings.add(f"{key_path}.category", "needs hold_others: true")
    for key in ("success", "learned"):
        threshold = getattr(claim, key)
        if threshold is not None and (threshold.least is None) == (threshold.most is None):
            findings.add(f"{key_path}.{key}", "must have either least or most")

    # Claims are judged in order, so a control must come first, and a repeated question second.
    ids = [other.id for other in file.claims]
    if ids.count(claim.id) > 1 and ids.index(claim.id) != index:
        findings.add(f"{key_path}.id", "is the id of another claim", given=claim.id)
    other_ids = [name for name in ids if name != claim.id]
    references = {"control": claim.control, "asked_again": claim.asked_again, "same_as": claim.same_as}
    for key, reference in references.items():
        if reference is not None and reference not in other_ids:
            findings.add(f"{key_path}.{key}", "is not another claim", given=reference, names=other_ids)
    if claim.control in other_ids and ids.index(claim.control) > ids.index(claim.id):
        findings.add(f"{key_path}.control", "must come before the claims that depend on it", given=claim.control)
    if claim.asked_again in other_ids and ids.index(claim.asked_again) < ids.index(claim.id):
        findings.add(f"{key_path}.asked_again", "must come after the claim that it asks again", given=claim.asked_again)
    repeats = {other.asked_again for other in file.claims}
    firsts = [o.id for o in file.claims if o.source == claim.source and o.same_as is None and o.id not in repeats]
    if claim.same_as in other_ids and claim.same_as not in firsts:
        findings.add(
            f"{key_path}.same_as",
            "must be a claim of the same source that neither repeats another nor has `same_as`",
            given=claim.same_as,
        )


def _set_page_bound(claim: Claim, index: int, file: ClaimsFile, findings: Findings) -> None:
    """Set the page's bound of no effect for the metric of a claim; record a claim with a different bound.

    Only differences of medians have a bound: a quotient of arms is not in units of the metric, and a mean over seeds
    has no test of equivalence.
    """
    metrics = {metric.partition(".")[0] for metric in claim.metric}
    bounds = {bound.within for bound in file.no_effect if bound.metric in metrics}
    is_quotient = any(claim.arms[name].over for name in claim.compare if name in claim.arms)
    if len(bounds) != 1 or claim.question != "difference" or is_quotient or claim.statistic is not None:
        return

    # A claim may repeat the bound, but a different one could be chosen after its result was seen.
    (claim._page_bound,) = bounds
    if claim.negligible not in (None, claim._page_bound):
        message = "is not the bound of its metric in `no_effect`"
        findings.add(
            f"claims[{index}].negligible", message, given=claim.negligible, allowed=f"{claim._page_bound:g}, or no key"
        )


def _list_arm_references(claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield the names of arms that a claim refers to, with the key of each reference."""
    yield from ((name, f"compare[{index}]") for index, name in enumerate(claim.compare))
    for name, arm in claim.arms.items():
        yield from ((other, f"arms.{name}.{key}") for key in ("minus", "over") if (other := getattr(arm, key)))


def _find_source_arms(claim: Claim, name: str) -> set[str]:
    """Return the names of the arms that an arm is computed from, through minus and over."""
    sources = [name]
    for source in sources:  # grows during the loop by the sources of sources
        if arm := claim.arms.get(source):
            sources += [other for other in (arm.minus, arm.over) if other and other not in sources[1:]]
    return set(sources[1:])
