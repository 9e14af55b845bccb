"""Placeholders of a command and the words that they become."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.program.command import (
    PlaceholderValues,
    fill_words,
    find_unknown_placeholders,
    receives_key,
)
from orchestrator.program.program_member import ProgramSettings

CONFIG = {
    "lr": 0.003,
    "optimizer": {"name": "adamw", "weight_decay": 0.1},
    "bias": True,
    "tied": False,
    "layers": [1, 2],
}


def values(**config: Any) -> PlaceholderValues:
    paths = {name: Path("/s") / name for name in ("config_file", "checkpoints", "folder", "reports")}
    return PlaceholderValues(config=config or CONFIG, seed=3, steps=2000, **paths)


@pytest.mark.parametrize(
    ("placeholder", "expected"),
    [
        (
            "${args}",
            "--lr=0.003 --optimizer.name=adamw --optimizer.weight_decay=0.1 --bias=True --tied=False --layers=[1,2] "
            "--seed=3",
        ),
        (
            "${args_no_hyphens}",
            "lr=0.003 optimizer.name=adamw optimizer.weight_decay=0.1 bias=True tied=False layers=[1,2] seed=3",
        ),
        (
            "${args_no_boolean_flags}",
            "--lr=0.003 --optimizer.name=adamw --optimizer.weight_decay=0.1 --bias --layers=[1,2] --seed=3",
        ),
        ("${config_file}", "/s/config_file"),
        ("${config.lr}", "0.003"),
        ("${config.optimizer.name}", "adamw"),
        ("${config.optimizer}", '{"name":"adamw","weight_decay":0.1}'),
        ("--x=${seed}-${steps}", "--x=3-2000"),
        ("${checkpoints}:${folder}:${reports}", "/s/checkpoints:/s/folder:/s/reports"),
        ("$${seed}", "${seed}"),
        ("$seed", "$seed"),
        ("a b; $(rm -rf x)`y`", "a b; $(rm -rf x)`y`"),
    ],
)
def test_words(placeholder: str, expected: str) -> None:
    words = fill_words(["python", placeholder], values())
    assert " ".join(words) == f"python {expected}"
    assert len(words) == 2 or placeholder.startswith("${args")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["${args}"], ["--width=8", "--seed=3"]),
        (["${args_no_hyphens}"], ["width=8", "seed=3"]),
        (["x", "--lr=${config.lr}", "y"], ["x", "y"]),
        (["x", "--lr", "${config.lr}", "y"], ["x", "y"]),
        (["x", "${config.lr}", "y"], ["x", "y"]),
        (["--a=b", "${config.lr}"], ["--a=b"]),
        (["${args}", "${config.lr}"], ["--width=8", "--seed=3"]),
    ],
)
def test_null_leaves_its_option_out(words: list[str], expected: list[str]) -> None:
    assert fill_words(words, values(lr=None, width=8)) == expected


def test_args_give_what_no_other_word_gives() -> None:
    words = ["--random-seed=${seed}", "${config.width}", "${args}"]
    assert fill_words(words, values(lr=1, width=8)) == ["--random-seed=3", "8", "--lr=1"]


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.text("a $={}'", max_size=5) | st.integers() | st.floats(allow_nan=False)
    )
)
def test_words_keep_any_text(config: dict[str, Any]) -> None:
    words = fill_words(["${args}"], values(z=1, **config))
    assert words == ["--z=1", *(f"--{key}={value}" for key, value in config.items()), "--seed=3"]


def test_numbers_are_read_back_equal() -> None:
    for number in (1e-5, 0.1 + 0.2, 1e22, sys.float_info.max, 3, -0.0):
        assert float(fill_words(["${config.x}"], values(x=number))[0]) == number


def test_split_as_a_shell_would() -> None:
    program = ProgramSettings(command="python train.py --x 'a b' ${args}")
    assert program.words == ("python", "train.py", "--x", "a b", "${args}")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("${arg}", "args"),
        ("${lr}", "config.lr"),
        ("--lr=${config.lrr}", "config.lr"),
        ("${HOME}", None),
        ("${checkpoint}", "checkpoints"),
        ("${}", None),
    ],
)
def test_unknown_placeholder(word: str, meant: str | None) -> None:
    (problem,) = find_unknown_placeholders(["python", word, "${args}", "${config.lr}", "$${x}", "$x"], ["lr"])
    assert (problem.key, problem.given, problem.nearest) == ("program.command", word, meant)
    assert "config.lr" in str(problem.allowed)


def test_several_words_inside_a_word() -> None:
    (problem,) = find_unknown_placeholders(["--x=${args}"], [])
    assert problem.given == "--x=${args}"


@pytest.mark.parametrize(
    ("words", "key", "expected"),
    [
        (["${args}"], "seed", True),
        (["${args_no_hyphens}"], "config.lr", True),
        (["${seed}"], "seed", True),
        (["${seed}"], "config.lr", False),
        (["${config_file}"], "config.lr", True),
        (["${config_file}"], "seed", False),
        (["--o=${config.optimizer}"], "config.optimizer.name", True),
        (["--o=${config.optim}"], "config.optimizer.name", False),
        (["train.py"], "seed", False),
    ],
)
def test_hands_over(words: list[str], key: str, expected: bool) -> None:
    assert receives_key(words, key) is expected


@pytest.mark.parametrize(
    ("code", "seed", "config"),
    [
        ("import lengthwise\nrun = lengthwise.member()\nprint(run.seed)", True, False),
        ("import lengthwise\nrun = lengthwise.member()\nprint(run.config)", False, True),
        ("import os\nos.environ['LENGTHWISE_SEED']", True, False),
        ("import lengthwise\na = p.parse_args()\nrun = lengthwise.member()\nprint(a.seed, a.config)", False, False),
        (
            "import lengthwise\na = ArgumentParser().parse_args()\nprint(a.seed, lengthwise.member().config)",
            False,
            True,
        ),
        ("import json\nargs.seed", False, False),
        ("import lengthwise\nrun = lengthwise.member()  # run.seed\nrate = 1  # or run.config['lr']", False, False),
        ("import lengthwise\nrun = lengthwise.member()\nprint('# not a comment', run.seed)\nif (", True, False),
        ("import lengthwise, random\nrandom.seed(0)\nrun = lengthwise.member()\nprint(run.config)", False, True),
    ],
)
def test_hands_over_by_the_client(code: str, seed: bool, config: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(code)
    assert receives_key(["train.py"], "seed", [script]) is seed
    assert receives_key(["train.py"], "config.lr", [script]) is config


def test_lists_are_json() -> None:
    word = fill_words(["${config.x}"], values(x=[1, "a b", None, {"y": True}]))[0]
    assert json.loads(word) == [1, "a b", None, {"y": True}]
    assert " " not in word.replace("a b", "")
