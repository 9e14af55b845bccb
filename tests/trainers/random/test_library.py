"""The C library behind the random streams: equal to the torch code, made once, done without where it cannot be made."""

import os
import subprocess
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers import train
from trainers.random import Stream, c_library, draws, pop_warning, reference

REPOSITORY = Path(__file__).parents[3]
seed = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(autouse=True)
def made() -> None:
    assert c_library.is_available(), pop_warning()


@settings(max_examples=60)
@given(st.lists(seed, min_size=1, max_size=5), st.data(), st.integers(0, 700), st.integers(0, 2**32 - 1))
def test_words_are_those_of_the_torch_code(seeds, data, count, site) -> None:
    number = st.integers(0, 2**32 - 1)
    steps = data.draw(number | st.lists(number, min_size=len(seeds), max_size=len(seeds)))
    given_ = (torch.tensor(seeds), torch.tensor(steps), 2, site, count)
    whole = reference.draw_words(*given_)
    assert torch.equal(c_library.draw_words(*given_, 0, count), whole)
    first = data.draw(st.integers(0, count))
    last = data.draw(st.integers(first, count))
    part = c_library.draw_words(*given_, first, last)
    assert torch.equal(part, whole[:, first:last])
    if first < last:
        assert torch.equal(part, reference.draw_word_range(*given_, (first, last)))


@settings(max_examples=50)
@given(st.integers(1, 4), st.integers(1, 70), st.integers(1, 70), st.data(), st.sampled_from([3, 2**32]))
def test_permutations_are_those_of_the_torch_code(seeds, batch, n, data, high) -> None:
    """Few different words, too: equal ones keep their order."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    take = data.draw(st.integers(1, n))
    words = torch.randint(0, high, (seeds, batch, n), generator=generator)
    assert torch.equal(c_library.argsort_smallest(words, take), reference.argsort_smallest(words, take))
    few = torch.randint(0, 2**32, (seeds, min(take, 12), batch), generator=generator)
    assert torch.equal(c_library.draw_prefixes(few, n), reference.draw_prefixes(few, n))


def test_what_does_not_lie_in_one_piece_is_read_right() -> None:
    seeds, steps = torch.arange(8)[::2], torch.arange(8)[1::2]
    assert torch.equal(c_library.draw_words(seeds, steps, 1, 0, 9, 0, 9), reference.draw_words(seeds, steps, 1, 0, 9))


def test_a_gradient_and_a_compiler_see_an_operator() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        stream = Stream(torch.tensor([1, 2]), "dropout", torch.tensor(4))
        return (x * stream.uniform(0, (3,)) * stream.permutations(1, 1, 3, 3)[:, 0]).sum()

    x = torch.ones(2, 3)
    expected = torch.func.grad(scaled)(x)
    graphs = []
    compiled = torch.compile(
        lambda x: torch.func.grad(scaled)(x), fullgraph=True, backend=lambda graph, _: graphs.append(graph) or graph
    )
    assert torch.equal(compiled(x), expected)
    assert "lengthwise.words" in graphs[0].code and "lengthwise.sequential" in graphs[0].code


def draw(answers: Connection, environment: dict[str, str]) -> None:
    """In a process of its own, in which nothing has been drawn."""
    os.environ.clear()
    os.environ.update(environment)
    stream = Stream(torch.tensor([3, 2**40]), "data", torch.tensor(5))
    draws = [stream.bits(1, (7,)), stream.permutations(2, 3, 9, 4), stream.permutations(3, 2, 30, 20)]
    answers.send(
        {"numbers": [numbers.tolist() for numbers in draws], "c": c_library.is_available(), "warning": pop_warning()}
    )


@pytest.fixture
def begun(processes) -> Callable[..., Connection]:
    """Begins `draw` with a cache folder; where its answer comes."""

    def begin(cache: Path, **environment: str) -> Connection:
        mine, theirs = processes.Pipe()
        processes.Process(
            target=draw, args=(theirs, {**os.environ, "XDG_CACHE_HOME": str(cache), **environment})
        ).start()
        theirs.close()
        return mine

    return begin


@pytest.fixture
def drawn(begun) -> Callable[..., dict[str, Any]]:
    return lambda cache, **environment: begun(cache, **environment).recv()


@pytest.mark.slow
def test_without_a_compiler_the_torch_code_draws_the_same_and_says_what_is_lost(tmp_path, drawn) -> None:
    with_c = drawn(tmp_path)
    for command, why in [("/bin/false", "cannot compile draws.c"), ("no-such-compiler", "no C compiler was found")]:
        without = drawn(tmp_path / "other", CC=command)
        assert without["numbers"] == with_c["numbers"] and not without["c"]
        assert why in without["warning"] and "ten times slower" in without["warning"]
    assert with_c["c"] and with_c["warning"] is None


def test_a_run_says_once_that_there_is_no_library(member, recorder, monkeypatch) -> None:
    monkeypatch.setattr(
        c_library, "library_state", c_library._LibraryState(is_tried=True, failure="no C compiler was found")
    )
    for _ in range(2):
        train([member()], recorder)
    assert len(recorder.notices) == 1 and "no C compiler was found" in recorder.notices[0]


@pytest.mark.slow
def test_processes_that_make_it_at_once_leave_one_whole_library(tmp_path, begun) -> None:
    started = [begun(tmp_path) for _ in range(3)]
    assert all(connection.recv()["c"] for connection in started)
    assert [path.suffix for path in (tmp_path / "lengthwise" / "native").iterdir()] == [".so"]


@pytest.mark.slow
def test_a_home_that_cannot_be_written_costs_only_the_making(tmp_path, drawn) -> None:
    (tmp_path / "file").write_text("")  # a folder cannot be made below it, whoever asks
    assert drawn(tmp_path / "file")["c"]


def test_without_any_home_it_is_made_for_the_process(tmp_path, monkeypatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert c_library._open_library()


@pytest.mark.parametrize("command", ['cc "', "sh -c 'printf \\\\344 >&2; exit 1'"], ids=["no command", "other letters"])
def test_what_cannot_be_read_of_a_compiler_is_no_crash(command, monkeypatch) -> None:
    monkeypatch.setenv("CC", command)
    monkeypatch.setattr(c_library, "library_state", c_library._LibraryState())
    assert not c_library.is_available()
    assert "is not a command" in str(c_library.library_state.failure) or "cannot compile" in str(
        c_library.library_state.failure
    )


@pytest.mark.slow
def test_a_library_that_is_damaged_or_draws_other_numbers_is_not_used(tmp_path, drawn) -> None:
    drawn(tmp_path)
    (kept,) = (tmp_path / "lengthwise" / "native").iterdir()
    kept.write_bytes(b"no library")
    assert drawn(tmp_path)["c"]  # made anew for this process
    source = (REPOSITORY / "trainers/random/draws.c").read_text()
    assert "turn < 10" in source
    wrong = tmp_path / "draws.c"
    wrong.write_text(source.replace("turn < 10", "turn < 9"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(kept), str(wrong)], check=True)
    answer = drawn(tmp_path)
    assert not answer["c"] and "computes wrong numbers" in answer["warning"]
    wrong.write_text(source.replace("lengthwise_order", "lengthwise_odor"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(kept), str(wrong)], check=True)
    lacking = drawn(tmp_path)
    assert not lacking["c"] and "has no function lengthwise_order" in lacking["warning"]
    assert lacking["numbers"] == answer["numbers"]


@pytest.mark.parametrize("in_c", [True, False])
def test_more_entries_than_there_are_is_all_of_them(monkeypatch, in_c: bool) -> None:
    """No entry is n, and the compiler gets the shape that is drawn."""
    if not in_c:
        monkeypatch.setattr(c_library, "is_available", lambda: False)
    stream = Stream(torch.tensor([1, 2]), "data", torch.tensor(4))
    for n, take in ((3, 5), (3, 3), (20, 30)):
        permutations = stream.permutations(0, 6, n, take)
        assert permutations.sort(dim=-1).values.eq(torch.arange(n)).all() and permutations.shape == (2, 6, n)
    words = torch.empty(2, 6, 3, dtype=torch.int64, device="meta")
    assert draws.argsort_smallest(words, 5).shape == (2, 6, 3)
    full = torch.full((1, 12, 1), 2**32 - 1)
    assert draws.draw_prefixes(full, 12)[0, 0].tolist() == list(reversed(range(12)))


def test_what_is_installed_has_the_source() -> None:
    assert '"random/*.c"' in (REPOSITORY / "pyproject.toml").read_text()
    assert c_library._SOURCE.suffix == ".c" and c_library._SOURCE.is_file()
