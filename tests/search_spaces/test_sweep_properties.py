"""Properties: valid sweeps survive a round trip; damaged and random text raises SweepFileError and nothing else."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import search_spaces
from search_spaces import SweepFileError, dump_yaml, list_grid_points, load_sweep, select_active_values
from search_spaces.grammar.domains import make_value_key

QUICKSTART = (Path(search_spaces.__file__).parent / "quickstart.yaml").read_text(encoding="utf-8")


def examples(number: int) -> settings:
    """The same examples every time, so that a red test stays red; every example overwrites the files of the last."""
    return settings(
        max_examples=number,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


keys = st.text("abcdefghij_-0123456789é", min_size=1, max_size=6)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | numbers | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)
sections = st.dictionaries(keys, values, max_size=4)
listed = st.lists(values, min_size=1, max_size=4, unique_by=make_value_key)


def intervals(low: float, high: float) -> st.SearchStrategy[list[float]]:
    inside = st.floats(low, high, exclude_min=True, exclude_max=True)
    return st.lists(inside, min_size=2, max_size=2, unique=True).map(sorted)


@st.composite
def int_uniforms(draw: st.DrawFn) -> dict[str, Any]:
    low, steps, step = draw(st.integers(-100, 100)), draw(st.integers(1, 50)), draw(st.integers(1, 20))
    return {"int_uniform": [low, low + steps * step], "step": step}


@st.composite
def normals(draw: st.DrawFn) -> dict[str, Any]:
    mean, std = draw(st.floats(-1e3, 1e3)), draw(st.floats(1e-3, 1e3))
    clips = {"low": mean - draw(st.floats(0.5, 9)), "high": mean + draw(st.floats(0.5, 9))}
    kept = draw(st.sets(st.sampled_from(["low", "high"])))
    return {"normal": [mean, std]} | {name: clips[name] for name in clips if name in kept}


domains = st.one_of(
    listed.map(lambda items: {"choice": items}),
    st.lists(scalars, min_size=1, max_size=3, unique_by=make_value_key).map(lambda items: {"grid": items}),
    intervals(-1e6, 1e6).map(lambda pair: {"uniform": pair}),
    intervals(0, 1e6).map(lambda pair: {"log_uniform": pair}),
    intervals(0, 1).map(lambda pair: {"one_minus_log_uniform": pair}),
    int_uniforms(),
    normals(),
)


@st.composite
def sweeps(draw: st.DrawFn) -> dict[str, Any]:
    """A valid sweep as plain data. Space keys have a prefix the fixed sections never use."""
    names = draw(st.lists(keys, max_size=4, unique=True))
    space: dict[str, Any] = {}
    for name in names:
        section = draw(st.sampled_from(["task", "model", "training", "evaluation"]))
        domain = draw(domains)
        listings = [key for key in space if space[key].keys() & {"choice", "grid"}]
        if listings and draw(st.booleans()):
            other = draw(st.sampled_from(listings))
            possible = [*space[other].get("choice", []), *space[other].get("grid", [])]
            domain["when"] = {other: draw(st.lists(st.sampled_from(possible), min_size=1, unique_by=make_value_key))}
        space[f"{section}.drawn {name}".replace(" ", "_")] = domain
    random = any("grid" not in domain for domain in space.values())
    seeds = st.integers(1, 50) | st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True)
    return {
        "name": draw(st.text("abcé長 _-", min_size=1, max_size=20).map(lambda name: f"n{name}n")),
        "study": "study",
        "description": draw(text),
        "task": draw(sections),
        "model": draw(sections),
        "training": {key: value for key, value in draw(sections).items() if key != "averages"},
        "space": space,
        "search": {"sampler": "random", "seed": draw(st.integers(0, 9))}
        | ({"configurations": draw(st.integers(1, 99))} if random else {}),
        "seeds": draw(seeds),
        "evaluation": {key: value for key, value in draw(sections).items() if key != "lengths"},
        "objective": {
            "metric": "m",
            "average": "a",
            "lengths": draw(st.lists(st.integers(1, 999), min_size=1, max_size=4, unique=True)),
            "direction": draw(st.sampled_from(["minimize", "maximize"])),
            "threshold": draw(st.none() | numbers),
        },
        "resources": {
            "gpus": draw(st.sampled_from([0, 0.25, 1, 3.0])),
            "pack": draw(st.just("auto") | st.integers(1, 9)),
        },
    }


@pytest.mark.slow
@examples(50)
@given(sweeps())
def test_valid_sweeps_survive_the_round_trip(tmp_path: Path, data: dict[str, Any]) -> None:
    path, again = tmp_path / "a.yaml", tmp_path / "b.yaml"
    path.write_text(dump_yaml(data), encoding="utf-8", newline="")
    spec = load_sweep(path)
    for section in ("task", "model", "training", "evaluation", "description"):
        assert make_value_key(getattr(spec, section)) == make_value_key(data[section])
    again.write_text(dump_yaml(spec.resolved()), encoding="utf-8", newline="")
    copy = load_sweep(again)
    assert copy == spec and copy.spec_hash == spec.spec_hash
    assert list(copy.space) == list(spec.space) == list(data["space"])
    points = list_grid_points(spec)
    assert len(points) == math.prod(len(domain["grid"]) for domain in data["space"].values() if "grid" in domain)
    for point in points:
        assert select_active_values(spec, point).items() <= point.items()


def load_or_refuse(path: Path, *overrides: str) -> None:
    """The property itself: a spec, or a SweepFileError that says something, one line for each problem."""
    try:
        load_sweep(path, overrides)
    except SweepFileError as error:
        assert error.problems
        assert len(str(error).splitlines()) == len(error.problems)


TOKENS = [
    *(
        "*",
        "&a ",
        "!!",
        "<<: ",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "#",
        "'",
        '"',
        "\t",
        "\n",
        "---\n",
        "|",
        ">",
        "? ",
        "%",
    ),
    *(".nan", "1e999", "null", "true", "{}", "[]", "0", "-1", "9" * 30, "\u2028", "\x85", "é", "🙂", "when", "space"),
]


@pytest.mark.slow
@examples(150)
@given(
    st.lists(
        st.tuples(st.integers(0, len(QUICKSTART)), st.integers(0, 30), st.sampled_from(TOKENS) | st.text(max_size=4)),
        min_size=1,
        max_size=6,
    )
)
def test_mutations_of_a_valid_file_raise_nothing_else(tmp_path: Path, edits: list[tuple[int, int, str]]) -> None:
    damaged = QUICKSTART
    for start, length, new in edits:
        damaged = damaged[:start] + new + damaged[start + length :]
    (tmp_path / "sweep.yaml").write_bytes(damaged.encode("utf-8", "surrogatepass"))
    load_or_refuse(tmp_path / "sweep.yaml")


@pytest.mark.slow
@examples(100)
@given(st.permutations(QUICKSTART.splitlines()), st.integers(0, 80))
def test_shuffled_and_dropped_lines_raise_nothing_else(tmp_path: Path, lines: list[str], kept: int) -> None:
    (tmp_path / "sweep.yaml").write_text("\n".join(lines[:kept]), encoding="utf-8")
    load_or_refuse(tmp_path / "sweep.yaml")


@examples(100)
@given(st.text() | st.lists(st.sampled_from(TOKENS)).map("".join))
@example("a: *a")
@example("? ? ? a")
@example("<<: *b")
@example("!<tag:x> a: b")
def test_random_text_raises_nothing_else(tmp_path: Path, content: str) -> None:
    (tmp_path / "sweep.yaml").write_bytes(content.encode("utf-8", "surrogatepass"))
    load_or_refuse(tmp_path / "sweep.yaml")


@examples(100)
@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sweep.yaml").write_bytes(content)
    load_or_refuse(tmp_path / "sweep.yaml")


@examples(100)
@given(st.lists(st.text(max_size=30), max_size=3), st.none() | st.text(max_size=10))
def test_random_overrides_raise_nothing_else(tmp_path: Path, overrides: list[str], name: str | None) -> None:
    (tmp_path / "sweep.yaml").write_text(QUICKSTART, encoding="utf-8")
    try:
        load_sweep(tmp_path / "sweep.yaml", overrides, name)
    except SweepFileError as error:
        assert error.problems
