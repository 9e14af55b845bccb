"""README.md is true: its folder tree, its commands, its links, its YAML, its code and its words."""

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
import yaml

import trainers
from orchestrator.cli import app
from orchestrator.plan.configurations import configure
from orchestrator.plan.search import draw_sample
from search_spaces import load_sweep, schema_text
from trainers.config import registry
from trainers.config.member import MemberConfig
from trainers.results import Evaluation, Progress

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
QUICKSTART = ROOT / "search_spaces" / "quickstart.yaml"
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def tree_entries() -> Iterator[str]:
    """Every path of the tree, relative to the root."""
    (tree,) = blocks("text")
    folders: list[str] = []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.split(r"\s{2,}", line.strip())[0].split()
        assert depth <= len(folders), f"{line!r} is indented below nothing"
        folders = folders[:depth]
        for name in names:
            yield "".join(folders) + name
        if names[-1].endswith("/"):
            folders.append(names[-1])


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


def test_everything_in_the_tree_exists() -> None:
    entries = list(tree_entries())
    assert len(entries) > 15 and len(entries) == len(set(entries))
    assert all(entry.endswith("/") for entry in entries), "the tree has folders only"
    for entry in entries:
        path = ROOT / entry
        assert path.is_dir() if entry.endswith("/") else path.is_file(), (
            f"README's tree has {entry}, which is not there"
        )


def test_every_package_is_in_the_tree() -> None:
    known = set(tree_entries())
    for path in committed():
        if path.name == "__init__.py" and path.parts[0] != "tests" and len(path.parent.parts) < 3:
            assert f"{path.parent}/" in known, f"{path.parent} is missing in the tree of README.md"


def command_lines() -> list[str]:
    """Every command of a shell block, and every `lengthwise ...`, `make ...` or script of the text."""
    lines = [line for text in blocks("bash") for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    quoted = re.findall(r"`((?:lengthwise|make|cluster/|\.ci/)[^`\n]*)`", PROSE)
    assert len(lines) >= 12 and len(quoted) >= 15
    return lines + quoted


def without_settings(line: str) -> tuple[dict[str, str], list[str]]:
    words, settings = shlex.split(line), {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    return settings, words


def check_lengthwise(words: list[str]) -> None:
    """A verb that exists with options and arguments that it has."""
    if not words:
        return
    command = COMMANDS[words[0]]
    options = {name for one in command.params for name in one.opts if name.startswith("-")}
    for word in words[1:]:
        if word.startswith("-"):
            assert word in options, f"lengthwise {words[0]} has no option {word}; it has {sorted(options)}"
        elif "/" in word and word.endswith(".yaml"):
            load_sweep(ROOT / word)


def check_make(targets: list[str]) -> None:
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.M), f"make has no {target}"


def check_ray(words: list[str]) -> None:
    from ray.dashboard.modules.job.cli import submit

    assert words[:2] == ["job", "submit"]
    given, entrypoint = words[2 : words.index("--")], words[words.index("--") + 1 :]
    known = {name for one in submit.params for name in one.opts}
    assert {word for word in given if word.startswith("--")} <= known
    assert entrypoint[:3] == ["python", "-m", "orchestrator"]
    check_lengthwise(entrypoint[3:])


@pytest.mark.parametrize("line", command_lines())
def test_every_command_is_one_that_exists(line: str) -> None:
    settings, words = without_settings(line)
    program, rest = words[0], words[1:]
    if program == "lengthwise":
        check_lengthwise(rest)
    elif program == "make":
        check_make(rest)
    elif program == "ray":
        assert settings["RAY_AUTH_MODE"] == "token"
        check_ray(rest)
    elif program == ".venv/bin/pre-commit":
        assert rest == ["install"] and yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    else:
        path = ROOT / program
        assert path.is_file(), f"README runs {program}, which is not there"
        assert path.suffix not in ("", ".sh") or path.stat().st_mode & 0o100, f"{program} cannot be executed"


def test_every_make_target_and_every_verb_is_named() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert phony
    for target in set(phony.group(1).split()) - {"help"}:
        assert re.search(rf"\bmake {target}\b", README), f"README does not name make {target}"
    table = set(re.findall(r"^\| `lengthwise (\w+)", README, re.M))
    assert table == set(COMMANDS)


def test_options_named_in_the_text_exist() -> None:
    ours = {name for command in COMMANDS.values() for one in command.params for name in one.opts}
    ours |= {"--working-dir", "--dashboard-port", "--gcs-port", "--rounds", "--arms"}
    named = set(re.findall(r"`[^`\n]*?(--[a-z][a-z-]*)", PROSE))
    assert named and named <= ours


def test_the_first_commands_are_make_sweep_and_make_ui() -> None:
    assert blocks("bash")[0].split("\n")[:2] == ["make sweep", "make ui"]


def test_links_and_pictures_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", PROSE)
    assert "search_spaces/gallery/quickstart.png" in targets
    for target in targets:
        if not re.match(r"[a-z]+://", target):
            assert (ROOT / target.split("#")[0]).exists(), f"README links to {target}, which is not there"


def test_pictures_are_small_and_pictures() -> None:
    pictures = list((ROOT / "search_spaces" / "gallery").glob("*.png"))
    assert pictures
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n") and len(content) < 300_000, picture


def test_the_yaml_is_the_quickstart(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    assert text == QUICKSTART.read_text(encoding="utf-8")
    copy = tmp_path / "copy.yaml"
    copy.write_text(text, encoding="utf-8")
    spec = load_sweep(copy)
    configurations = configure(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 6)])
    assert len(configurations) == spec.search.configurations
    said = f"{len(configurations)} configurations x {len(spec.seeds)} seeds x {spec.training['steps']:,} steps"
    assert said in README


def test_every_setting_of_the_yaml_is_explained() -> None:
    for number, line in enumerate(QUICKSTART.read_text(encoding="utf-8").splitlines(), 1):
        leaf = re.match(r"\s*[\w.]+: \S", line) and not line.startswith("description")
        similar = re.match(
            r"  training\.weight_decay: \{log|  gpus:|  direction:", line
        )  # says itself, or the line above does
        assert not leaf or similar or " # " in line, f"quickstart.yaml:{number} is not explained"


def test_the_line_for_editors_names_the_schema() -> None:
    first = blocks("yaml")[0].splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert match and (QUICKSTART.parent / match.group(1)).read_text(encoding="utf-8") == schema_text()


def test_domains_of_the_table_load(tmp_path: Path) -> None:
    from search_spaces.grammar.domains import KINDS

    rows = re.findall(r"^\| `(\{.*?\})` \|", README, re.M)
    kinds = {next(iter(re.findall(r"\w+", row))) for row in rows}
    assert kinds == set(KINDS)
    numbers = {"low, high": "0.1, 0.9", "mean, std": "1.0, 0.1", "a, b": "0.1, 0.2"}
    for row in rows:
        for names, values in numbers.items():
            row = row.replace(f"[{names}]", f"[{values}]")
        row = row.replace("[0.1, 0.9], step: 16", "[16, 64], step: 16")
        file = tmp_path / "one.yaml"
        source = yaml.safe_load(QUICKSTART.read_text(encoding="utf-8"))
        source["space"] = {"training.learning_rate": yaml.safe_load(row)}
        source["search"]["configurations"] = None if "grid" in row else 2
        file.write_text(yaml.safe_dump(source), encoding="utf-8")
        assert list(load_sweep(file).space) == ["training.learning_rate"], row


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [("average", "ema", "trainers/averaging.py")],
)
def test_code_is_quoted_from_the_file(kind: str, name: str, file: str) -> None:
    (quoted,) = [text for text in blocks("python") if f'"{kind}", "{name}"' in text]
    source = (ROOT / file).read_text(encoding="utf-8").splitlines()
    at = 0
    for line in quoted.splitlines():
        if line.strip() and line.strip() != "...":
            assert line in source[at:], f"{line!r} is not in {file}, or not in this order"
            at += source[at:].index(line) + 1
    assert name in registry.names(kind)


def test_the_task_of_the_readme_keeps_the_contract_and_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [text for text in blocks("python") if '@register("task"' in text]
    (tmp_path / "running_maximum.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    contract = importlib.util.spec_from_file_location("contract", ROOT / "tests/trainers/tasks/test_contract.py")
    assert contract is not None and contract.loader is not None
    tests = importlib.util.module_from_spec(contract)
    contract.loader.exec_module(tests)
    importlib.import_module("running_maximum")
    try:
        tests.test_a_task_runs_the_examples_of_its_docstring("running_maximum")
        tests.test_a_task_samples_and_scores_what_it_declares("running_maximum")
        model = {"name": "attention_only", "width": 8}
        training = {"steps": 2, "batch_size": 4, "learning_rate": 0.01, "compile": False}
        sections = {"task": {"name": "running_maximum"}, "model": model, "training": training}
        results = trainers.train([MemberConfig.from_dict({**sections, "evaluation": {"samples": 10}})], Silent())
        assert {"accuracy", "error"} <= {curve.metric for curve in results[0].curves}
    finally:
        registry._classes["task"].pop("running_maximum")
        sys.modules.pop("running_maximum")


class Silent:
    def report(self, evaluation: Evaluation) -> None: ...

    def progress(self, progress: Progress) -> None: ...

    def notice(self, text: str) -> None: ...


def test_every_average_is_named() -> None:
    assert all(f"`{name}`" in README for name in registry.names("average"))


def test_words_are_used_as_the_table_says() -> None:
    table = re.search(r"^\| word \| means .*?(?=\n\n)", README, re.M | re.S)
    assert table
    defined = re.findall(r"^\| ([a-z ]+) \|", table.group(), re.M)[1:]
    assert {"sweep", "configuration", "seed", "member", "pack", "structural key", "curve", "average", "ledger"} == {
        *defined
    }
    rest = README.replace(table.group(), "")
    assert not re.findall(r"\btrials?\b", rest, re.I), "a trial is a configuration or a pack"
    assert not re.findall(r"(?<!MLflow )\bexperiments?\b(?! this)", PROSE.replace(table.group(), ""), re.I)
    for word in defined:
        assert len(re.findall(rf"\b{word}", rest)) > 0 or word == "structural key", f"{word} is defined and not used"
