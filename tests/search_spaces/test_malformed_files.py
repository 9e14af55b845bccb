"""Every way a sweep file can be wrong gives one clear problem at its line and key."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from search_spaces import FileProblem

Refuse = Callable[..., tuple[FileProblem, ...]]

DEEP = "[" * 30 + "]" * 30
LEARNING_RATE = "{log_uniform: [1.0e-4, 1.0e-2]}"

# (what is replaced, by what, line, key, what may be meant); exactly one problem each
CASES = {
    # the text
    "duplicate key": ("seeds: 8", "seeds: 8\nseeds: 9", 19, "seeds"),
    "duplicate nested key": ("  norm: none", "  norm: none\n  norm: pre", 7, "model.norm"),
    "duplicate in flow": ("decay: 0.99", "decay: 0.99, decay: 0.9", 13, "training.averages.ema.decay"),
    "anchor": ("steps: 100", "steps: &s 100", 9, "training.steps"),
    "merge key": ("  steps: 100", "  <<: {}\n  steps: 100", 9, "training"),
    "tag": ("seeds: 8", "seeds: !!int 8", 18, "seeds"),
    "python tag": ("  steps: 100", "  steps: !!python/object/apply:os.getcwd []", 9, "training.steps"),
    "number as key": ("  steps: 100", "  steps: 100\n  5: 1", 10, "training"),
    "true as key": ("  steps: 100", "  steps: 100\n  true: 1", 10, "training"),
    "null as key": ("  steps: 100", "  steps: 100\n  ~: 1", 10, "training"),
    "list as key": ("  steps: 100", "  steps: 100\n  ? [a, b]\n  : 1", 10, "training"),
    "nan": ("steps: 100", "steps: .nan", 9, "training.steps"),
    "infinity": ("  dropout: 0.0", "  dropout: -.inf", 7, "model.dropout"),
    "overflow": ("  dropout: 0.0", "  dropout: 1e999", 7, "model.dropout"),
    "huge int": ("steps: 100", "steps: 99999999999999999999", 9, "training.steps"),
    "longer int": ("steps: 100", f"steps: {'9' * 5000}", 9, "training.steps"),
    "leading zero": ("steps: 100", "steps: 0100", 9, "training.steps"),
    "deep": ("steps: 100", f"steps: {DEEP}", 9, "training.steps" + "[0]" * 19),
    "two documents": ("space:", "---\nspace:", 14, ""),
    "directive": ("name: tiny", "%YAML 1.1\n---\nname: tiny", 1, ""),
    "tab": ("  norm: none", "\tnorm: none", 6, ""),
    "unclosed": ("seeds: 8", "seeds: [8", 18, ""),
    "colon in text": ("study: set_complement", "study: set: complement", 2, ""),
    "control character": ("study: set", "study: \x07set", 2, ""),
    # keys and types
    "unknown key": ("seeds: 8", "seeds: 8\nsampler: random", 19, "sampler", "search.sampler"),
    "misspelt key": ("tracking:", "trackng:", 28, "trackng", "tracking"),
    "misspelt inner key": ("metric:", "metrc:", 23, "objective.metrc", "metric"),
    "missing section": ("task: {name: set_complement, vocabulary: 20}\n", "", 1, "task"),
    "section is text": ("resources: {pack: auto}", "resources: auto", 27, "resources"),
    "task is text": ("{name: set_complement, vocabulary: 20}", "set_complement", 3, "task"),
    "dotted fixed key": ("  steps: 100", "  steps: 100\n  a.b: 1", 10, "training.a.b"),
    "text for bool": ("enabled: false", "enabled: no", 28, "tracking.enabled", "false"),
    "quoted number": ("configurations: 6", 'configurations: "6"', 17, "search.configurations", "6 without quotes"),
    "float for int": ("configurations: 6", "configurations: 6.0", 17, "search.configurations", "6"),
    "underscores": ("configurations: 6", "configurations: 1_000", 17, "search.configurations", "1000"),
    "exponent for int": ("configurations: 6", "configurations: 1e3", 17, "search.configurations", "1000"),
    "quoted exponent": (
        "pack: auto",
        'checkpoint_seconds: "1e-4"',
        27,
        "resources.checkpoint_seconds",
        "0.0001 without quotes",
    ),
    "underflow": ("  dropout: 0.0", "  dropout: 1e-400", 7, "model.dropout"),
    "negative underflow": ("  dropout: 0.0", "  dropout: -.0012E-400", 7, "model.dropout"),
    "bool for int": ("configurations: 6", "configurations: true", 17, "search.configurations"),
    "no configurations": ("configurations: 6", "configurations: 0", 17, "search.configurations"),
    "too many": ("configurations: 6", "configurations: 9000000", 17, "search.configurations"),
    "date": ("name: tiny", "name: 2026-01-01.", 1, "name"),
    "wrong word": ("minimize", "minimise", 26, "objective.direction", "minimize"),
    "key of another tool": ("seeds: 8", "seeds: 8\nn_trials: 6", 19, "n_trials"),
    "wrong sampler": ("{configurations: 6}", "{configurations: 6, sampler: Random}", 17, "search.sampler", "random"),
    "negative seed": ("{configurations: 6}", "{configurations: 6, seed: -1}", 17, "search.seed"),
    # seeds, lengths, resources
    "zero seeds": ("seeds: 8", "seeds: 0", 18, "seeds"),
    "too many seeds": ("seeds: 8", "seeds: 1000000000000", 18, "seeds"),
    "seeds as exponent": ("seeds: 8", "seeds: 1e1", 18, "seeds", "10"),
    "quoted seeds": ("seeds: 8", 'seeds: "8"', 18, "seeds", "8 without quotes"),
    "quoted seed": ("seeds: 8", 'seeds: [0, "3"]', 18, "seeds", "3 without quotes"),
    "quoted pack": ("pack: auto", 'pack: "4"', 27, "resources.pack", "4 without quotes"),
    "repeated seed": ("seeds: 8", "seeds: [1, 2, 1]", 18, "seeds"),
    "negative in seeds": ("seeds: 8", "seeds: [0, -4]", 18, "seeds"),
    "seeds as text": ("seeds: 8", "seeds: eight", 18, "seeds"),
    "no lengths": ("lengths: [6, 7]", "lengths: []", 25, "objective.lengths"),
    "all as objective": ("lengths: [6, 7]", "lengths: all", 25, "objective.lengths"),
    "zero length": ("lengths: [6, 7]", "lengths: [0, 5, 6]", 25, "objective.lengths"),
    "repeated length": ("lengths: [6, 7]", "lengths: [6, 6]", 25, "objective.lengths"),
    "length not evaluated": ("lengths: [6, 7]", "lengths: [6, 8]", 25, "objective.lengths[1]"),
    "wrong evaluation": ("lengths: [6, 7]", "lengths: [6, 7]\n  evaluation: bets", 26, "objective.evaluation", "best"),
    "unknown average": ("average: ema", "average: emma", 24, "objective.average", "ema"),
    "empty metric": ("metric: total_variation", "metric: ''", 23, "objective.metric"),
    "null metric": ("metric: total_variation", "metric:", 23, "objective.metric"),
    "unreadable seed": ("seeds: 8", "seeds: [1, .nan]", 18, "seeds[1]"),
    "pack of none": ("pack: auto", "pack: 0", 27, "resources.pack"),
    "pack word": ("pack: auto", "pack: automatic", 27, "resources.pack"),
    "part of gpus": ("pack: auto", "gpus: 1.5", 27, "resources.gpus"),
    "negative gpus": ("pack: auto", "gpus: -1", 27, "resources.gpus"),
    "half a cpu": ("pack: auto", "cpus: 0.5", 27, "resources.cpus"),
    "no watchdog": ("pack: auto", "watchdog_seconds: 0", 27, "resources.watchdog_seconds"),
    "negative retries": ("pack: auto", "retries: -1", 27, "resources.retries"),
    "checkpoint never": ("pack: auto", "checkpoint_seconds: 0", 27, "resources.checkpoint_seconds"),
    # names
    "climbing name": ("name: tiny", "name: ../tiny", 1, "name"),
    "path as study": ("study: set_complement", "study: a/b", 2, "study"),
    "number as name": ("name: tiny", "name: 12", 1, "name"),
    "path as tracked": ("enabled: false", "experiment: 'a\\b'", 28, "tracking.experiment"),
    # the space
    "space is a list": (
        f"  training.learning_rate: {LEARNING_RATE}\n  model.norm: {{grid: [none, pre, post]}}",
        "  - a",
        14,
        "space",
    ),
    "no section": ("  model.norm:", "  norm:", 16, "space.norm", "model.norm"),
    "wrong section": ("  model.norm:", "  modle.norm:", 16, "space.modle.norm", "model.norm"),
    "space of seeds": ("  model.norm:", "  objective.metric:", 16, "space.objective.metric"),
    "empty step": ("  model.norm:", "  model..norm:", 16, "space.model..norm", "model.norm"),
    "inside text": ("  model.norm:", "  model.norm.kind:", 16, "space.model.norm.kind"),
    "list with nan": ("[none, pre, post]", "[none, .nan]", 16, "space.model.norm.grid[1]"),
    "condition on a broken domain": (
        "  model.norm: {grid: [none, pre, post]}",
        "  model.norm: {grid: []}\n  model.width: {uniform: [0, 1], when: {model.norm: pre}}",
        16,
        "space.model.norm.grid",
    ),
    # the sections together
    "no draws": ("search: {configurations: 6}", "search: {seed: 1}", 17, "search.configurations"),
    "null draws": ("configurations: 6", "configurations: null", 17, "search.configurations"),
    "draws of nothing": (LEARNING_RATE, "{grid: [1, 2]}", 17, "search.configurations"),
    "grid under tpe": ("{configurations: 6}", "{configurations: 6, sampler: tpe}", 16, "space.model.norm"),
    "draw under grid": (
        "{configurations: 6}",
        "{configurations: 6, sampler: grid}",
        15,
        "space.training.learning_rate",
    ),
}

# (what is written in the place of a domain, below which key, what may be meant)
DOMAINS = {
    "bare number": ("0.01", "", "{grid: [0.01]}"),
    "unknown domain": ("{loguniform: [1.0e-4, 1.0e-2]}", "", "log_uniform"),
    "misspelt domain": ("{gird: [1.0e-4, 1.0e-2]}", "", "grid"),
    "key like a domain": ("{norm: {choice: [none, pre]}}", "", "training.learning_rate.norm, with dots"),
    "two domains": ("{uniform: [0, 1], choice: [1]}", ""),
    "unknown option": ("{uniform: [0, 1], step: 1}", ".step"),
    "reversed bounds": ("{log_uniform: [1.0e-2, 1.0e-4]}", ".log_uniform"),
    "no width": ("{uniform: [-1.0e+308, 1.0e+308]}", ".uniform"),
    "equal bounds": ("{uniform: [1, 1]}", ".uniform"),
    "log of zero": ("{log_uniform: [0, 1]}", ".log_uniform[0]"),
    "one minus one": ("{one_minus_log_uniform: [0.9, 1.0]}", ".one_minus_log_uniform[1]"),
    "one bound": ("{log_uniform: [1.0e-4]}", ".log_uniform"),
    "text bound": ("{log_uniform: [a, 1]}", ".log_uniform[0]"),
    "quoted bound": ('{log_uniform: ["1e-4", 1]}', ".log_uniform[0]", "0.0001 without quotes"),
    "underflowing bound": ("{log_uniform: [1e-400, 1]}", ".log_uniform[0]"),
    "nan bound": ("{log_uniform: [.nan, 1]}", ".log_uniform[0]"),
    "float int bound": ("{int_uniform: [1.5, 4]}", ".int_uniform[0]"),
    "step beside": ("{int_uniform: [16, 64], step: 20}", ".step", "[16, 56]"),
    "step of zero": ("{int_uniform: [1, 4], step: 0}", ".step"),
    "no deviation": ("{normal: [1, 0]}", ".normal[1]"),
    "clip beside mean": ("{normal: [1, 1], low: 2}", ".low"),
    "text as clip": ("{normal: [1, 1], low: x}", ".low"),
    "clip below mean": ("{normal: [1, 1], high: 0}", ".high"),
    "clip to a point": ("{normal: [1, 1], low: 1, high: 1}", ".high"),
    "normal of text": ("{normal: [a, 1]}", ".normal[0]"),
    "bare list": ("[none, pre]", "", '{grid: ["none", "pre"]}'),
    "null domain": ("", ""),
    "empty grid": ("{grid: []}", ".grid"),
    "grid is text": ("{grid: none}", ".grid"),
    "repeated value": ("{grid: [none, pre, none]}", ".grid[2]"),
    "equal numbers": ("{grid: [1, 2, 1.0]}", ".grid[2]"),
}
CASES |= {
    name: (LEARNING_RATE, written, 15, f"space.training.learning_rate{below}", *meant)
    for name, (written, below, *meant) in DOMAINS.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_one_fault_gives_one_problem(edited: Callable[..., Path], problems: Refuse, case: tuple[Any, ...]) -> None:
    old, new, line, key, *meant = case
    path = edited(old, new)
    [problem] = problems(path)
    assert (problem.where, problem.key, problem.nearest) == (f"{path}:{line}", key, *(meant or [None]))
