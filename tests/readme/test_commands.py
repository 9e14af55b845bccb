"""Every command of a README is one that exists, with options and arguments that it takes."""

import importlib.util
import re
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
import typer.main
import yaml
from pages import PAGES, ROOT, Page, page

from orchestrator.cli.main import app
from orchestrator.code.user_code import import_spec_modules
from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from orchestrator.preview import names
from search_spaces import load_claims, load_sweep

LENGTHWISE = typer.main.get_command(app)
COMMANDS = LENGTHWISE.commands  # type: ignore[attr-defined]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OF_OTHERS = {
    "--working-dir",
    "--detach",
    "--no-wait",
    "--submission-id",
    "--dashboard-port",
    "--gcs-port",
    "--batch",
    "--compile",
    "--rounds",
    "--parts",
    "--long",
    "--no-restart",
    "--num-gpus",
    "--lr",
    "--flag",
}  # of ray, our scripts, programs


def lines_of_blocks(readme: Page) -> list[str]:
    """Every command of a shell block, without its comment."""
    lines = [line for text in readme.blocks("bash") for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [re.sub(r"\s+# .*", "", line) for line in lines if not line.startswith("# ")]


def quoted_commands(readme: Page) -> list[str]:
    """Every `lengthwise ...`, `make ...` or script in the text; a verb may stand there without its file."""
    return re.findall(r"`((?:lengthwise(?!\.)|make(?!_)|cluster/|\.ci/|python )[^`\n]*)`", readme.prose)


def cases() -> list[Any]:
    """(line, whether it is a whole command)."""
    commands = [(readme.name, line, True) for readme in PAGES for line in lines_of_blocks(readme)]
    commands += [(readme.name, line, False) for readme in PAGES for line in quoted_commands(readme)]
    examples = [line for command in COMMANDS.values() for line in (command.epilog or "").split("\n\n")[1:]]
    commands += [("help", line, True) for line in examples]
    return [pytest.param(line, whole, id=f"{name}: {line}") for name, line, whole in commands]


def without_settings(line: str) -> tuple[dict[str, str], list[str]]:
    words, settings = shlex.split(line), {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    return settings, words


def check_lengthwise(words: list[str], whole: bool) -> None:
    """A verb that exists, with options that it has; a whole command is also parsed, and its sweep file loaded."""
    if not words or words[0] in {name for parameter in LENGTHWISE.params for name in parameter.opts}:
        return
    verb, rest = words[0], words[1:]
    command = COMMANDS[verb]
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("-")}
    for word in rest:
        assert not word.startswith("-") or word in options, f"{verb} has no option {word}; it has {sorted(options)}"
    if whole:
        given = command.make_context(verb, list(rest)).params
        if verb == "claims":
            load_claims(ROOT / given["file"])
            return
        for file in [given["file"]] if "file" in given else given.get("files", ()):
            build(str(file), given.get("overrides") or (), given.get("name"))
        assert verb != "list" or given["kind"] in (None, "sweeps", "all", *names.LISTED_KINDS)
    for word in rest:
        if verb != "claims" and "/" in word and word.endswith(".yaml"):
            build(word)


def build(file: str, overrides: Sequence[str] = (), name: str | None = None) -> None:
    """Load a sweep file and build a configuration of it, as `run` would."""
    if file in ("my_study/sweep.yaml", "my_script/sweep.yaml"):
        return  # of `lengthwise init`, which tests/orchestrator/upkeep/test_new_study.py runs
    spec = load_sweep(ROOT / file, overrides, name)
    import_spec_modules(spec)
    assert make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 1)])


def check_make(words: list[str]) -> None:
    for word in words:
        name, is_setting, _ = word.partition("=")
        known = rf"\$\({name}\)|,\$\({name}\)" if is_setting else rf"^{re.escape(name)}:"
        assert re.search(known, MAKEFILE, re.M), f"make has no {name}"


def check_python(words: list[str]) -> None:
    """pytest on files that exist, a module or a script of ours with options that its source names."""
    if words[:2] == ["-m", "pytest"]:
        assert words[2:] and all((ROOT / path).exists() for path in words[2:])
        return
    script = importlib.util.find_spec(words[1]).origin if words[0] == "-m" else words[0]  # type: ignore[union-attr]
    source = (ROOT / str(script)).read_text(encoding="utf-8")
    for option in (word for word in words[1:] if word.startswith("--")):
        assert f'"{option}"' in source, f"{script} has no {option}"


def check_ray(words: list[str], settings: dict[str, str]) -> None:
    from ray.dashboard.modules.job.cli import logs, status, stop, submit

    assert settings["RAY_AUTH_MODE"] == "token" and words[0] == "job"
    if words[1] != "submit":
        {"logs": logs, "status": status, "stop": stop}[words[1]].make_context(words[1], words[2:])
        return
    given, entrypoint = words[2 : words.index("--")], words[words.index("--") + 1 :]
    submit.make_context("submit", [*given, "--", *entrypoint])
    assert entrypoint[:3] == ["python", "-m", "orchestrator"]
    check_lengthwise(entrypoint[3:], whole=True)


@pytest.mark.parametrize(("line", "whole"), cases())
def test_every_command_is_one_that_exists(line: str, whole: bool, own_code_forgotten: None) -> None:
    settings, words = without_settings(line)
    program, rest = words[0], words[1:]
    if program == "lengthwise":
        check_lengthwise(rest, whole)
    elif program == "make":
        check_make(rest)
    elif program == "sed":
        change, file = rest[1].split("/"), rest[2]
        written = (ROOT / "search_spaces/examples/start/own" / file.rpartition("/")[2]).read_text(encoding="utf-8")
        assert re.search(change[1], written)
        check_lengthwise(line.rpartition(" && lengthwise ")[2].split(), whole)
    elif program == "ray":
        check_ray(rest, settings)
    elif program == ".":
        assert rest == [".venv/bin/activate"]
    elif program == "sbatch":
        assert rest[0] == "cluster/slurm.sh"
        check_lengthwise(["run", *rest[1:]], whole)
    elif program in ("python", ".venv/bin/python"):
        check_python(rest)
    elif program == ".venv/bin/pre-commit":
        assert rest == ["install"] and yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    else:
        path = ROOT / program
        assert path.is_file(), f"{program} is not there"
        assert path.suffix not in ("", ".sh") or path.stat().st_mode & 0o100, f"{program} cannot be executed"


def test_every_make_target_is_named() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert phony
    for target in set(phony.group(1).split()) - {"help"}:
        assert any(re.search(rf"\bmake {target}\b", readme.text) for readme in PAGES), f"no README names make {target}"


def test_the_table_of_commands_has_every_verb() -> None:
    rows = re.findall(r"^\| `lengthwise ([\w-]+)", page("orchestrator/README.md").text, re.M)
    assert len(rows) == len(set(rows)) and set(rows) == set(COMMANDS)


def test_options_named_in_the_text_exist() -> None:
    ours = {
        name for command in (LENGTHWISE, *COMMANDS.values()) for parameter in command.params for name in parameter.opts
    }
    for readme in PAGES:
        named = set(re.findall(r"`[^`\n]*?(--[a-z][a-z-]*)", readme.prose))
        assert named <= ours | OF_OTHERS, f"{readme.name} names {sorted(named - ours - OF_OTHERS)}"


@pytest.mark.parametrize("readme", PAGES, ids=lambda readme: readme.name)
def test_overrides_in_the_text_can_be_set(readme: Page) -> None:
    for override in re.findall(r"`[^`\n]*?--set ([\w.]+=[^\s`]+)", readme.prose):
        build("search_spaces/quickstart.yaml", [override])


def test_the_job_of_the_page_is_the_one_the_script_prints() -> None:
    printed = re.search(r"^RAY_AUTH_MODE=token.*$", (ROOT / "cluster/local_head.sh").read_text(), re.M)
    assert printed
    shown = next(line for line in lines_of_blocks(page("cluster/README.md")) if " job submit " in line)
    assert shown.partition(" --working-dir")[2] == printed.group().partition(" --working-dir")[2]


def test_help_has_examples_and_says_seeds_in_place_of_packs():
    with_examples = {name for name, command in COMMANDS.items() if command.epilog}
    assert with_examples >= {"init", "list", "run", "resume", "extend", "confirm", "status", "compare", "export"}
    helps = {
        (name, option.name): getattr(option, "help", "") or "" for name, c in COMMANDS.items() for option in c.params
    }
    assert not [place for place, text in helps.items() if re.search(r"\bpacks?\b", text, re.IGNORECASE)]
