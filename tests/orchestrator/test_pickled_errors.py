"""Every exception of ours, sent from process to process by pickle, arrives with its message and its attributes."""

import ast
import builtins
import importlib
import pickle
from pathlib import Path
from typing import Any

import trainers.errors
from orchestrator import errors
from orchestrator.program.exit_causes import ProgramEnded
from orchestrator.program.reports import ReportProblem
from orchestrator.running.pack.protocol import ChildImportError
from orchestrator.running.pack.train_pack import PackRaised
from search_spaces import ABSENT, FileProblem, SweepFileError

ROOT = Path(__file__).parents[2]
PACKAGES = ("trainers", "orchestrator", "search_spaces", "cluster")
BUILT_IN = {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
OF_TRAINERS = trainers.errors.Problem(key="lr", message="is too large", given=(9.0, None), allowed="a number below 1")

MADE_OF: dict[type[BaseException], tuple[Any, ...]] = {
    trainers.errors.ConfigError: ([OF_TRAINERS, OF_TRAINERS],),
    SweepFileError: (
        [FileProblem("a.yaml:3", "seeds", "is missing"), FileProblem("a.yaml:4", "lr", "no", 2.0)],
        "the rest",
    ),
    errors.SpecChanged: (Path("sweeps/a"), [("training.steps", 100, 200)]),
    errors.DamagedLedger: (Path("sweeps/a/events.jsonl"), 7, "the line is torn"),
    PackRaised: ("ValueError: no (mine.py:3)", "Traceback ...", "once"),
    ChildImportError: ("ImportError: no (mine.py:3)", "Traceback ..."),
    ProgramEnded: ("exit code 7", "the log", "always"),
    ReportProblem: ("attempt-1.jsonl:3: not JSON", []),
}
"""What those exceptions are made of that are not made of a sentence alone."""


def classes() -> list[type[BaseException]]:
    """Every exception class that is defined in the packages, found by its bases in the source."""
    bases: dict[str, tuple[Path, set[str]]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    bases[node.name] = path, {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    known: set[str] = set()
    while new := {name for name, (_, of) in bases.items() if of & (known | BUILT_IN)} - known:
        known |= new
    modules = {name: ".".join(bases[name][0].relative_to(ROOT).with_suffix("").parts) for name in sorted(known)}
    return [getattr(importlib.import_module(module), name) for name, module in modules.items()]


def test_every_exception_survives_pickling() -> None:
    kinds = classes()
    assert {*MADE_OF, errors.UserError, trainers.errors.PackError, trainers.errors.CheckpointError} <= {*kinds}
    assert len(kinds) > 20
    for kind in kinds:
        error = kind(*MADE_OF.get(kind, ("something is wrong: 3; allowed: 2",)))
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error), kind
        assert str(error), kind


def test_what_is_absent_stays_the_one_that_it_is() -> None:
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT
    (problem,) = pickle.loads(pickle.dumps(SweepFileError([FileProblem("a.yaml:3", "seeds", "is missing")]))).problems
    assert problem.given is ABSENT and str(problem) == "a.yaml:3: seeds: is missing"
