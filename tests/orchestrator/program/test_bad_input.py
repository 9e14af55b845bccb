"""Mistakes in a sweep file of a program: the line, the key and the value, before anything runs."""

import pytest

from orchestrator.plan.checks.sweep_file_checks import summarize_sample
from orchestrator.preview.forecast import forecast
from search_spaces import SweepFileError
from tests.orchestrator.program.studies import Study
from tests.sweep_files import load_checked

FUNCTION = "def train(config, seed, report, checkpoints):\n    report(30, {'acc': {5: 1, 10: seed, 20: 0}})\n"


def problems(study: Study) -> list[tuple[str, str, str]]:
    """Return the key, its line in the file, and the message of every problem of the sweep file."""
    file = study.folder / "prog.yaml"
    lines = file.read_text().splitlines()
    with pytest.raises(SweepFileError) as raised:
        summarize_sample(load_checked(file))
    return [
        (problem.key, lines[int(problem.where.rpartition(":")[2]) - 1].strip(), str(problem))
        for problem in raised.value.problems
    ]


@pytest.mark.parametrize(
    ("changes", "key", "line", "words"),
    [
        ({"program": {"command": ["pythonn", "train.py"]}}, "program.command", "command:", ["pythonn", "PATH"]),
        ({"program": {"command": ["python", "trian.py"]}}, "program.command", "command:", ["trian.py"]),
        ({"program": "python trian.py"}, "program.command", "program: python trian.py", ["trian.py", "train.py?"]),
        ({"program": ["python", "trian.py"]}, "program.command", "program:", ["trian.py", "train.py?"]),
        ({"program": {"command": "  "}}, "program.command", "command: '  '", []),
        ({"program": "python 'train.py"}, "program.command", "program: python 'train.py", ["quotation"]),
        (
            {"program": {"command": ["python", "train.py", "${arg}"]}},
            "program.command",
            "command:",
            ["${arg}", "args?", "config.width"],
        ),
        (
            {"program": {"command": ["python", "train.py", "--lr=${lr}"]}},
            "program.command",
            "command:",
            ["${lr}", "config.lr?"],
        ),
        ({"program": {"command": "my_training.train"}}, "program.command", "command: my_training.train", ["function:"]),
        ({"program": {"comand": "python train.py"}}, "program.comand", "comand: python train.py", ["command?"]),
        ({"program": {"files": ["train.py"]}}, "program", "program:", ["command", "function"]),
        ({"program__files": ["train.py", "modle.py"]}, "program.files", "files:", ["modle.py"]),
        ({"program": {"function": "mine.missing"}}, "program.function", "function: mine.missing", ["no function"]),
        ({"program": {"function": "mine.trian"}}, "program.function", "function: mine.trian", ["train?"]),
        ({"program": {"function": "nomod.train"}}, "program.function", "function: nomod.train", ["module not found"]),
        ({"task": {"name": "reverse"}}, "task", "task:", ["program"]),
        ({"objective__metric": "ac"}, "objective.metric", "metric: ac", ["acc?"]),
        ({"objective__lengths": [11]}, "objective.lengths", "lengths:", ["11", "5, 10"]),
        ({"objective__average": "ema"}, "objective.average", "average: ema", ["raw"]),
        ({"evaluation__metrics": {"acc": "maximise"}}, "evaluation.metrics.acc", "acc: maximise", ["maximize?"]),
        ({"objective__direction": "minimize"}, "objective.direction", "direction: minimize", ["maximize"]),
        ({"evaluation__every": 0}, "evaluation.every", "every: 0", ["1"]),
        (
            {"evaluation__trained_lengths": {"up_to": "config.widht"}},
            "evaluation.trained_lengths",
            "trained_lengths:",
            ["config.width?"],
        ),
        ({"space": {"lr": {"grid": [1]}}}, "space.lr", "lr:", ["config.lr"]),
        ({"resources__grace_seconds": -1}, "resources.grace_seconds", "grace_seconds: -1", []),
        (
            {"search": {"racing": {"first": 2, "keep": 0.5, "steps": {"first": 15, "keep": 0.5}}}, "seeds": 4},
            "search.racing.steps.first",
            "first: 15",
            ["10"],
        ),
    ],
    ids=lambda given: str(given) if isinstance(given, str) else None,
)
def test_mistake(changes, key, line, words, study: Study, own_code_forgotten) -> None:
    study.write(**changes)
    (study.folder / "mine.py").write_text(FUNCTION)
    reported = problems(study)
    assert [problem[0] for problem in reported] == [key], reported
    assert reported[0][1].startswith(line)
    assert all(word in reported[0][2] for word in words), reported[0][2]


def test_lengths_of_a_metric_of_its_own(study: Study) -> None:
    study.write(evaluation__metrics={"acc": {"direction": "maximize", "lengths": [7]}}, objective__lengths=[7])
    assert summarize_sample(load_checked(study.folder / "prog.yaml")).warnings == []


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["python", "train.py", "${args}"], []),
        (["python", "train.py", "--lr=${config.lr}"], ["seed"]),
        (["python", "train.py", "--seed=${seed}"], ["config.lr"]),
        (["python", "train.py"], ["seed", "config.lr"]),
    ],
)
def test_script_that_is_not_given_the_seed(command: list[str], missing: list[str], study: Study) -> None:
    study.write("print('x')", program={"command": command}, space={"config.lr": {"grid": [0.1, 1.0]}})
    warnings = " ".join(summarize_sample(load_checked(study.folder / "prog.yaml")).warnings)
    assert [key for key in ("seed", "config.lr") if key in warnings] == missing


@pytest.mark.parametrize(
    ("words", "code", "is_warned"),
    [
        (["${args}"], "print('x')", True),
        (["${args_no_hyphens}"], "print('x')", True),
        (["${args}"], "import lengthwise; lengthwise.member().config['seed']", False),
        (["${args}", "--init=${config.seed}"], "print('x')", False),
        (["${args}", "--run=${seed}"], "print('x')", False),
        (["${args}", "${config_file}"], "print('x')", False),
        (["--seed=${seed}"], "print('x')", False),
    ],
)
def test_a_seed_of_the_config_that_the_seed_of_the_member_replaces(
    words: list[str], code: str, is_warned: bool, study: Study
) -> None:
    study.write(code, program={"command": ["python", "train.py", *words]}, config={"seed": 7, "lr": 0.1})
    warnings = summarize_sample(load_checked(study.folder / "prog.yaml")).warnings
    assert ["config.seed" in warning for warning in warnings if "config.lr" not in warning] == [True] * is_warned


@pytest.mark.parametrize(
    ("name", "is_warned"), [("train.py", False), ("../prog/train.py", False), ("../train.py", True)]
)
def test_script_outside_the_folder_of_the_sweep_file(name: str, is_warned: bool, study: Study) -> None:
    name = name.replace("prog", study.folder.name)
    study.write(program={"command": ["python", "-S", name, "${args}"]})
    (study.folder.parent / "train.py").write_text("print('x')")
    warnings = summarize_sample(load_checked(study.folder / "prog.yaml")).warnings
    assert [name in warning for warning in warnings] == [True] * is_warned


@pytest.mark.parametrize(
    ("trained", "shown"),
    [
        ([5], []),
        ([], []),
        ([5, 7, 10], []),
        ([3], []),
        ({"up_to": "config.width"}, []),  # 8
        ([5, 30], ["30", "5, 10, 20", "nearest: 20"]),
        ([5, 10, 20], ["20"]),
        ([7], ["7", "5, 10, 20", "nearest: 5"]),
        ({"up_to": "config.long"}, ["25", "5, 10, 20"]),
    ],
)
def test_trained_lengths_that_lose_test_lengths_are_warned_about(trained, shown: list[str], study: Study) -> None:
    study.write(evaluation__trained_lengths=trained, config={"width": 8, "long": 25}, objective__lengths=[10])
    file = study.folder / "prog.yaml"
    spec = load_checked(file)
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "trained_lengths" in text)
    location = f"{file}:{line}: evaluation.trained_lengths: "
    for warnings in (summarize_sample(spec).warnings, forecast(spec, None).warnings):
        about_lengths = [warning for warning in warnings if "evaluation.trained_lengths" in warning]
        assert len(about_lengths) == bool(shown) and all(warning.startswith(location) for warning in about_lengths), (
            warnings
        )
        assert all(word in about_lengths[0] for word in shown)


@pytest.mark.parametrize(("every", "is_warned"), [(10, False), (30, False), (31, True)])
def test_evaluation_interval_longer_than_the_training_is_warned_about(
    every: int, is_warned: bool, study: Study
) -> None:
    study.write(evaluation__every=every)
    file = study.folder / "prog.yaml"
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "every:" in text)
    warnings = summarize_sample(load_checked(file)).warnings
    assert [warning.startswith(f"{file}:{line}: evaluation.every: 31 ") for warning in warnings] == [True] * is_warned
