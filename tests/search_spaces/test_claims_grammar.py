"""Claims files: what is wrong in one is said with its line and key, and claims-schema.json says the same shape."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from search_spaces import FileProblem, SweepFileError, format_schema, load_claims, load_sweep, make_claims_schema

FOLDER = Path(__file__).parents[2] / "search_spaces"
SHIPPED = sorted(FOLDER.rglob("claims.yaml"))
VALIDATOR = Draft202012Validator(make_claims_schema())
VALID = """\
title: Tiny
claims:
  - id: control
    says: It is learned.
    sweep: tiny
    question: share
    arms:
      RPE: {where: {model.position: rpe}}
    compare: [RPE]
    success: {least: 0.9}
    expect: larger
    metric: accuracy
  - id: better
    says: One is better than the other.
    sweep: tiny
    control: control
    question: difference
    arms:
      RPE: {where: {model.position: rpe}, minus: first}
      APE: {where: {model.position: learned}}
      first: {where: {model.position: rpe}, lengths: [1]}
    compare: [RPE, APE]
    expect: larger
    metric: [accuracy, label]
    learned: {metric: accuracy, least: 0.9}
    lengths: unseen
"""

# (what is replaced, by what, line, key, what may be meant); exactly one problem each
CASES = {
    "unknown key": (
        "expect: larger\n    metric: acc",
        "expects: larger\n    metric: acc",
        11,
        "claims[0].expects",
        "expect",
    ),
    "misspelt key": ("    compare: [RPE]", "    compares: [RPE]", 9, "claims[0].compares", "compare"),
    "misspelt arm key": ("minus: first", "minu: first", 19, "claims[1].arms.RPE.minu", "minus"),
    "misspelt threshold": ("success: {least", "success: {leest", 10, "claims[0].success.leest", "least"),
    "no such question": ("question: share", "question: shares", 6, "claims[0].question", "share"),
    "no such expectation": (
        "expect: larger\n    metric: acc",
        "expect: bigger\n    metric: acc",
        11,
        "claims[0].expect",
    ),
    "needed key": ("    success: {least: 0.9}\n", "", 3, "claims[0].success"),
    "idle key": (
        "expect: larger\n    metric: [",
        "expect: larger\n    within: 0.1\n    metric: [",
        24,
        "claims[1].within",
    ),
    "no such arm": ("[RPE, APE]", "[RPE, APEE]", 22, "claims[1].compare[1]", "APE"),
    "no such arm to subtract": ("minus: first", "minus: frist", 19, "claims[1].arms.RPE.minus", "first"),
    "one arm too few": ("[RPE, APE]", "[RPE]", 22, "claims[1].compare"),
    "one arm too many": ("    compare: [RPE]", "    compare: [RPE, RPE]", 9, "claims[0].compare"),
    "a circle of arms": ("lengths: [1]}", "lengths: [1], over: first}", 21, "claims[1].arms.first"),
    "both thresholds": ("{least: 0.9}\n    expect", "{least: 0.9, most: 1.0}\n    expect", 10, "claims[0].success"),
    "no threshold": ("accuracy, least: 0.9}", "accuracy}", 25, "claims[1].learned"),
    "the id of another": (
        "id: better\n    says: One is better than the other.\n    sweep: tiny\n    control: control\n",
        "id: control\n    says: One is better than the other.\n    sweep: tiny\n",
        13,
        "claims[1].id",
    ),
    "no such control": ("control: control", "control: contrl", 16, "claims[1].control", "control"),
    "no such claim": (
        "success: {least: 0.9}",
        "success: {least: 0.9}\n    asked_again: bettr",
        11,
        "claims[0].asked_again",
        "better",
    ),
    "the same as none": (
        "success: {least: 0.9}",
        "success: {least: 0.9}\n    same_as: bettr",
        11,
        "claims[0].same_as",
        "better",
    ),
    "the same as one of another source": (
        "control: control",
        "source: ours\n    same_as: control",
        17,
        "claims[1].same_as",
    ),
    "again beforehand": ("control: control", "asked_again: control", 16, "claims[1].asked_again"),
    "a share beyond all": (
        "expect: larger\n    metric: acc",
        "expect: larger\n    bound: 1.5\n    metric: acc",
        12,
        "claims[0].bound",
    ),
    "itself again": ("control: control", "asked_again: better", 16, "claims[1].asked_again"),
    "a group that is none": ("lengths: unseen", "lengths: unsen", 26, "claims[1].lengths"),
    "no lengths": ("lengths: [1]}", "lengths: []}", 21, "claims[1].arms.first.lengths"),
    "a length twice": ("lengths: [1]}", "lengths: [1, 1]}", 21, "claims[1].arms.first.lengths"),
    "half a length": ("lengths: [1]}", "lengths: [1.5]}", 21, "claims[1].arms.first.lengths"),
    "no metric": ("    metric: accuracy\n", "", 3, "claims[0].metric"),
    "empty metrics": ("[accuracy, label]", "[]", 24, "claims[1].metric"),
    "where is no mapping": ("{model.position: learned}", "learned", 20, "claims[1].arms.APE.where"),
    "a negative within": ("question: difference", "question: equivalence\n    within: -0.1", 18, "claims[1].within"),
    "not a number": ("success: {least: 0.9}", "success: {least: .nan}", 10, "claims[0].success.least"),
    "claims are a mapping": ("claims:\n  -", "claims:\n  first:\n  -", 2, "claims"),
    "written twice": ("title: Tiny", "title: Tiny\ntitle: Tiny", 2, "title"),
    "fewer seeds than none": ("title: Tiny", "title: Tiny\nseen: {tiny: -1}", 2, "seen.tiny"),
    "no arms": ("    compare: [RPE]", "    compare: []", 9, "claims[0].compare"),
    "an arm named like a key": (
        "{where: {model.position: learned}}\n      first",
        "{wher: {model.position: learned}}\n      first",
        20,
        "claims[1].arms.APE.wher",
        "where",
    ),
}


def problems(tmp_path: Path, text: str) -> tuple[FileProblem, ...]:
    path = tmp_path / "claims.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load_claims(path)
    except SweepFileError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_fault_is_one_problem_at_its_line(tmp_path: Path, case: tuple[Any, ...]) -> None:
    old, new, line, key, *meant = case
    assert VALID.count(old) == 1, "the case damages one place"
    (problem,) = problems(tmp_path, VALID.replace(old, new))
    where = f"{tmp_path / 'claims.yaml'}:{line}"
    assert (problem.where, problem.key, problem.nearest) == (where, key, *(meant or [None]))


def test_the_valid_file_is_read(tmp_path: Path) -> None:
    assert problems(tmp_path, VALID) == ()
    claims_file = load_claims(tmp_path / "claims.yaml")
    assert claims_file.sweeps == ("tiny",) and [claim.id for claim in claims_file.claims] == ["control", "better"]
    assert claims_file.claims[1].metric == ("accuracy", "label") and claims_file.claims[1].arms["first"].lengths == (1,)


def test_a_claim_that_is_repeated_word_for_word_is_refused(tmp_path: Path) -> None:
    first = VALID.index("  - id: better")
    (problem,) = problems(tmp_path, VALID.rstrip("\n") + "\n" + VALID[first:])
    assert problem.key == "claims[2].id" and "is the id of another claim" in str(problem)


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"arms": {"RPE": {}}}, "claims[0].arms", "must have configurations: all for a trend question"),
        ({"category": "post"}, "claims[0].category", "needs hold_others: true"),
        ({"hold_others": True, "success": {"least": 1}}, "claims[0].success", "is not read by a trend question"),
    ],
)
def test_a_trend_is_over_configurations(tmp_path: Path, changes: dict[str, Any], key: str, message: str) -> None:
    trend = {"id": "t", "says": "More is better.", "sweep": "tiny", "question": "trend", "key": "model.width"}
    trend |= {"arms": {"RPE": {"configurations": "all"}}, "compare": ["RPE"], "expect": "larger", "metric": "accuracy"}
    assert problems(tmp_path, yaml.safe_dump({"title": "T", "claims": [trend]})) == ()
    (problem,) = problems(tmp_path, yaml.safe_dump({"title": "T", "claims": [{**trend, **changes}]}))
    assert problem.key == key and message in str(problem)


MEAN = {"statistic": "mean"}


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"negligible": 0.2}, "claims[1].negligible", "given 0.2; allowed: 0.1, or no key"),
        ({**MEAN, "negligible": 0.1}, "claims[1].negligible", "is not read with statistic: mean"),
        ({"unit": "configurations"}, "claims[1].arms", "must have configurations: all with unit: configurations"),
    ],
)
def test_a_page_has_one_bound_of_no_effect_for_a_metric(
    tmp_path: Path, changes: dict[str, Any], key: str, message: str
) -> None:
    data = yaml.safe_load(VALID)
    data["no_effect"] = [{"metric": "accuracy", "within": 0.1, "because": "It is small."}]
    data["claims"][1] |= {"metric": ["accuracy", "accuracy.sparse"], **changes}
    (problem,) = problems(tmp_path, yaml.safe_dump(data, sort_keys=False))
    assert problem.key == key and message in str(problem)


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, 0.1),
        ({"metric": ["accuracy", "accuracy.sparse"]}, 0.1),
        ({"negligible": 0.1}, 0.1),
        ({"metric": "label"}, None),
        ({"metric": "label", "negligible": 0.3}, 0.3),
        (MEAN, None),  # which has no test of equivalence
        ({"arms": {"RPE": {"over": "first"}, "APE": {}, "first": {}}}, None),  # not in units of the metric
    ],
)
def test_the_bound_of_a_page_is_that_of_its_differences(
    tmp_path: Path, changes: dict[str, Any], bound: float | None
) -> None:
    data = yaml.safe_load(VALID)
    data["no_effect"] = [{"metric": "accuracy", "within": 0.1, "because": "It is small."}]
    data["claims"][1] |= {"metric": "accuracy", **changes}
    assert problems(tmp_path, yaml.safe_dump(data, sort_keys=False)) == ()
    control, better = load_claims(tmp_path / "claims.yaml").claims
    assert (control.no_effect_bound, better.no_effect_bound) == (None, bound)


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"figures": ["beter"]}, "figures[0]"),
        ({"figures": ["control"] * 5}, "figures"),
        ({"headlines": [{"says": "It is better.", "claim": "beter"}]}, "headlines[0].claim"),
        ({"headlines": [{"says": "It is better."}]}, "headlines[0]"),
        ({"removed": [{"claims": ["better"], "because": "Nobody asked."}]}, "removed[0].claims"),
    ],
)
def test_what_a_page_names_must_be_there(tmp_path: Path, keys: dict[str, Any], where: str) -> None:
    (problem,) = problems(tmp_path, yaml.safe_dump({**yaml.safe_load(VALID), **keys}, sort_keys=False))
    assert problem.key == where


def test_removed_claims_are_in_the_family(tmp_path: Path) -> None:
    removed = [{"claims": ["old", "older"], "because": "Nobody asked."}]
    assert problems(tmp_path, yaml.safe_dump({**yaml.safe_load(VALID), "removed": removed}, sort_keys=False)) == ()
    assert load_claims(tmp_path / "claims.yaml").family == 4


def test_a_control_stands_before_what_rests_on_it(tmp_path: Path) -> None:
    data = yaml.safe_load(VALID)
    data["claims"].reverse()
    (problem,) = problems(tmp_path, yaml.safe_dump(data, sort_keys=False))
    assert problem.key == "claims[0].control" and "must come before the claims that depend on it" in str(problem)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("quickstart.yaml", "is a sweep file, not a claims file; it names no claims file"),
        ("arithmetic/fig2_lengths.yaml", f"its claims file is {FOLDER / 'arithmetic' / 'claims.yaml'}"),
    ],
)
def test_a_sweep_file_in_place_of_a_claims_file_is_one_problem_and_the_other_way_round(file: str, message: str) -> None:
    with pytest.raises(SweepFileError, match=re.escape(message)) as refused:
        load_claims(FOLDER / file)
    assert len(refused.value.problems) == 1
    with pytest.raises(SweepFileError, match="is a claims file, not a sweep file") as refused:
        load_sweep(SHIPPED[0])
    assert len(refused.value.problems) == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SweepFileError, match=r"claims\.yaml: there is no such file"):
        load_claims(tmp_path / "claims.yaml")


def paths_of(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


DATA = yaml.safe_load(VALID)
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=8), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)  # fmt: skip


@given(path=st.sampled_from(list(paths_of(DATA))), junk=JUNK)
def test_any_value_at_any_key_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, path, junk) -> None:
    """No traceback but SweepFileError, and each problem has an address."""
    data = copy.deepcopy(DATA)
    node = data
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = junk
    reported = problems(tmp_path_factory.getbasetemp(), yaml.safe_dump(data, sort_keys=False))
    assert all(str(problem) for problem in reported)


def test_committed_schema_is_current() -> None:
    Draft202012Validator.check_schema(make_claims_schema())
    assert (FOLDER / "claims-schema.json").read_text(encoding="utf-8") == format_schema(make_claims_schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_shipped_claims_satisfy_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    VALIDATOR.validate(yaml.safe_load(text))
    schema = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == (FOLDER / "claims-schema.json").resolve()
    load_claims(path)
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    "name", [name for name in CASES if name.startswith(("misspelt", "no such q", "a group", "empty", "a length"))]
)
def test_the_schema_refuses_what_the_loader_refuses(name: str) -> None:
    old, new, *_ = CASES[name]
    assert not VALIDATOR.is_valid(yaml.safe_load(VALID.replace(old, new)))


def test_editors_find_a_description_for_every_key() -> None:
    schema = make_claims_schema()
    described = [
        (name, key, bool(value.get("description")))
        for name, node in [("file", schema), *schema["$defs"].items()]
        for key, value in node["properties"].items()
    ]
    assert len(described) > 35
    assert [entry for entry in described if not entry[-1]] == [], json.dumps(described)
