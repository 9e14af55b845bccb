"""Every way a sweep file can be wrong gives one clear problem at its line and key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from search_spaces import Problem

Refuse = Callable[..., tuple[Problem, ...]]

DEEP = "[" * 30 + "]" * 30
LEARNING_RATE = "{log_uniform: [1.0e-4, 1.0e-2]}"

# (what is replaced, by what, line, key, what the message must say); exactly one problem each
CASES = {
    # the text
    "duplicate key": ("seeds: 8", "seeds: 8\nseeds: 9", 19, "seeds", "is written twice (first at {file}:18)"),
    "duplicate nested key": ("  norm: none", "  norm: none\n  norm: pre", 7, "model.norm", "is written twice"),
    "duplicate in flow": ("decay: 0.99", "decay: 0.99, decay: 0.9", 13, "training.averages.ema.decay", "written twice"),
    "anchor": ("steps: 100", "steps: &s 100", 9, "training.steps", "anchors (&s) are not allowed"),
    "merge key": ("  steps: 100", "  <<: {}\n  steps: 100", 9, "training", "merge keys (<<) are not allowed"),
    "tag": ("seeds: 8", "seeds: !!int 8", 18, "seeds", "YAML tags (tag:yaml.org,2002:int) are not allowed"),
    "python tag": (
        "  steps: 100",
        "  steps: !!python/object/apply:os.getcwd []",
        9,
        "training.steps",
        "YAML tags (tag:yaml.org,2002:python/object/apply:os.getcwd) are not allowed",
    ),
    "number as key": ("  steps: 100", "  steps: 100\n  5: 1", 10, "training", "has the key 5, which is not text"),
    "true as key": ("  steps: 100", "  steps: 100\n  true: 1", 10, "training", "has the key true, which is not text"),
    "null as key": ("  steps: 100", "  steps: 100\n  ~: 1", 10, "training", "has the key ~, which is not text"),
    "list as key": ("  steps: 100", "  steps: 100\n  ? [a, b]\n  : 1", 10, "training", "has a key that is not text"),
    "nan": ("steps: 100", "steps: .nan", 9, "training.steps", "must be a finite number; given '.nan'"),
    "infinity": ("  dropout: 0.0", "  dropout: -.inf", 7, "model.dropout", "must be a finite number; given '-.inf'"),
    "overflow": ("  dropout: 0.0", "  dropout: 1e999", 7, "model.dropout", "is too large a number; given '1e999'"),
    "huge int": ("steps: 100", "steps: 99999999999999999999", 9, "training.steps", "too large for a whole number"),
    "longer int": ("steps: 100", f"steps: {'9' * 5000}", 9, "training.steps", "too large for a whole number"),
    "leading zero": ("steps: 100", "steps: 0100", 9, "training.steps", "has a leading zero"),
    "deep": ("steps: 100", f"steps: {DEEP}", 9, "training.steps" + "[0]" * 19, "nested more than 20 levels"),
    "two documents": ("space:", "---\nspace:", 14, "", "holds more than one YAML document"),
    "directive": ("name: tiny", "%YAML 1.1\n---\nname: tiny", 1, "", "directives (%YAML, %TAG) are not allowed"),
    "tab": ("  norm: none", "\tnorm: none", 6, "", "indent with spaces, not tabs"),
    "unclosed": ("seeds: 8", "seeds: [8", 19, "", "is not valid YAML: "),
    "colon in text": ("study: set_complement", "study: set: complement", 2, "", "mapping values are not allowed"),
    "control character": ("study: set", "study: \x07set", 2, "", "character U+0007 is not allowed"),
    # keys and types
    "unknown key": ("seeds: 8", "seeds: 8\nsampler: random", 19, "sampler", "is not a key here; allowed: name, study"),
    "misspelt key": ("tracking:", "trackng:", 28, "trackng", "did you mean tracking?"),
    "misspelt inner key": ("metric:", "metrc:", 23, "objective.metrc", "did you mean metric?"),
    "missing section": ("task: {name: set_complement, vocabulary: 20}\n", "", 1, "task", "is missing"),
    "section is text": ("resources: {pack: auto}", "resources: auto", 27, "resources", "must be a mapping"),
    "task is text": ("{name: set_complement, vocabulary: 20}", "set_complement", 3, "task", "must be a mapping"),
    "dotted fixed key": ("  steps: 100", "  steps: 100\n  a.b: 1", 10, "training.a.b", "dots separate levels"),
    "text for bool": ("enabled: false", "enabled: no", 28, "tracking.enabled", "given 'no'; did you mean false?"),
    "quoted number": ("configurations: 6", 'configurations: "6"', 17, "search.configurations", "6 without quotes?"),
    "float for int": ("configurations: 6", "configurations: 6.0", 17, "search.configurations", "did you mean 6?"),
    "underscores": ("configurations: 6", "configurations: 1_000", 17, "search.configurations", "did you mean 1000?"),
    "exponent for int": ("configurations: 6", "configurations: 1e3", 17, "search.configurations", "did you mean 1000?"),
    "quoted exponent": (
        "pack: auto",
        'checkpoint_seconds: "1e-4"',
        27,
        "resources.checkpoint_seconds",
        "0.0001 without",
    ),
    "underflow": ("  dropout: 0.0", "  dropout: 1e-400", 7, "model.dropout", "is too small a number"),
    "negative underflow": ("  dropout: 0.0", "  dropout: -.0012E-400", 7, "model.dropout", "is too small a number"),
    "bool for int": ("configurations: 6", "configurations: true", 17, "search.configurations", "given true"),
    "no configurations": ("configurations: 6", "configurations: 0", 17, "search.configurations", "at least 1"),
    "too many": ("configurations: 6", "configurations: 9000000", 17, "search.configurations", "at most 1000000"),
    "date": ("name: tiny", "name: 2026-01-01.", 1, "name", "must not end with '.'"),
    "wrong word": (
        "minimize",
        "minimise",
        26,
        "objective.direction",
        "allowed: minimize, maximize; did you mean minimize?",
    ),
    "key of another tool": ("seeds: 8", "seeds: 8\nn_trials: 6", 19, "n_trials", "is not a key here"),
    "wrong sampler": (
        "{configurations: 6}",
        "{configurations: 6, sampler: Random}",
        17,
        "search.sampler",
        "mean random?",
    ),
    "negative seed": ("{configurations: 6}", "{configurations: 6, seed: -1}", 17, "search.seed", "at least 0"),
    # seeds, lengths, resources
    "zero seeds": ("seeds: 8", "seeds: 0", 18, "seeds", "allowed: a number from 1 to 100000"),
    "too many seeds": ("seeds: 8", "seeds: 1000000000000", 18, "seeds", "allowed: a number from 1 to 100000"),
    "seeds as exponent": ("seeds: 8", "seeds: 1e1", 18, "seeds", "did you mean 10?"),
    "quoted seed": ("seeds: 8", 'seeds: [0, "3"]', 18, "seeds", "did you mean 3 without quotes?"),
    "quoted pack": ("pack: auto", 'pack: "4"', 27, "resources.pack", "did you mean 4 without quotes?"),
    "repeated seed": ("seeds: 8", "seeds: [1, 2, 1]", 18, "seeds", "1 is in the list more than once"),
    "negative in seeds": ("seeds: 8", "seeds: [0, -4]", 18, "seeds", "item 1 is -4"),
    "seeds as text": ("seeds: 8", "seeds: eight", 18, "seeds", "given 'eight'"),
    "no lengths": ("lengths: [6, 7]", "lengths: []", 25, "objective.lengths", "must not be empty"),
    "all as objective": (
        "lengths: [6, 7]",
        "lengths: all",
        25,
        "objective.lengths",
        "a list of different whole numbers",
    ),
    "zero length": ("lengths: [6, 7]", "lengths: [0, 5, 6]", 25, "objective.lengths", "item 0 is 0"),
    "repeated length": (
        "lengths: [6, 7]",
        "lengths: [6, 6]",
        25,
        "objective.lengths",
        "6 is in the list more than once",
    ),
    "length not evaluated": ("lengths: [6, 7]", "lengths: [6, 8]", 25, "objective.lengths[1]", "allowed: 5, 6, 7, 19"),
    "wrong evaluation": (
        "lengths: [6, 7]",
        "lengths: [6, 7]\n  evaluation: bets",
        26,
        "objective.evaluation",
        "allowed: last, best; did you mean best?",
    ),
    "unknown average": ("average: ema", "average: emma", 24, "objective.average", "raw, ema; did you mean ema?"),
    "empty metric": ("metric: total_variation", "metric: ''", 23, "objective.metric", "on one line and not empty"),
    "null metric": ("metric: total_variation", "metric:", 23, "objective.metric", "must be text; given null"),
    "unreadable seed": ("seeds: 8", "seeds: [1, .nan]", 18, "seeds[1]", "must be a finite number"),
    "pack of none": ("pack: auto", "pack: 0", 27, "resources.pack", "auto, or a whole number of members"),
    "pack word": ("pack: auto", "pack: automatic", 27, "resources.pack", "given 'automatic'"),
    "part of gpus": ("pack: auto", "gpus: 1.5", 27, "resources.gpus", "a fraction up to 1, or a whole number"),
    "negative gpus": ("pack: auto", "gpus: -1", 27, "resources.gpus", "given -1"),
    "half a cpu": ("pack: auto", "cpus: 0.5", 27, "resources.cpus", "must be a whole number; given 0.5"),
    "no watchdog": ("pack: auto", "watchdog_seconds: 0", 27, "resources.watchdog_seconds", "allowed: above 0"),
    "negative retries": ("pack: auto", "retries: -1", 27, "resources.retries", "allowed: at least 0"),
    "checkpoint never": ("pack: auto", "checkpoint_seconds: 0", 27, "resources.checkpoint_seconds", "allowed: above 0"),
    # names
    "climbing name": ("name: tiny", "name: ../tiny", 1, "name", "must not start with '.'"),
    "path as study": ("study: set_complement", "study: a/b", 2, "study", "must not contain '/' (U+002F)"),
    "number as name": ("name: tiny", "name: 12", 1, "name", "put a name that looks like a number in quotes"),
    "path as tracked": ("enabled: false", "experiment: 'a\\b'", 28, "tracking.experiment", "must not contain '\\\\'"),
    # the space
    "space is a list": (
        f"  training.learning_rate: {LEARNING_RATE}\n  model.norm: {{grid: [none, pre, post]}}",
        "  - a",
        14,
        "space",
        "must be a mapping of dotted keys to domains",
    ),
    "no section": ("  model.norm:", "  norm:", 16, "space.norm", "did you mean model.norm?"),
    "wrong section": ("  model.norm:", "  modle.norm:", 16, "space.modle.norm", "did you mean model.norm?"),
    "space of seeds": (
        "  model.norm:",
        "  objective.metric:",
        16,
        "space.objective.metric",
        "is a section (task, model",
    ),
    "empty step": ("  model.norm:", "  model..norm:", 16, "space.model..norm", "is a section (task, model"),
    "inside text": (
        "  model.norm:",
        "  model.norm.kind:",
        16,
        "space.model.norm.kind",
        "model.norm is fixed to 'none'",
    ),
    "list with nan": ("[none, pre, post]", "[none, .nan]", 16, "space.model.norm.grid[1]", "must be a finite number"),
    "condition on a broken domain": (
        "  model.norm: {grid: [none, pre, post]}",
        "  model.norm: {grid: []}\n  model.width: {uniform: [0, 1], when: {model.norm: pre}}",
        16,
        "space.model.norm.grid",
        "at least one",
    ),
    # the sections together
    "no draws": ("search: {configurations: 6}", "search: {seed: 1}", 17, "search.configurations", "is needed"),
    "null draws": ("configurations: 6", "configurations: null", 17, "search.configurations", "given null"),
    "draws of nothing": (LEARNING_RATE, "{grid: [1, 2]}", 17, "search.configurations", "must be left out"),
    "grid under tpe": (
        "{configurations: 6}",
        "{configurations: 6, sampler: tpe}",
        16,
        "space.model.norm",
        "use choice",
    ),
    "draw under grid": (
        "{configurations: 6}",
        "{configurations: 6, sampler: grid}",
        15,
        "space.training.learning_rate",
        "sampler grid cannot draw from log_uniform",
    ),
}

# (what is written in the place of a domain, below which key, what the message must say)
DOMAINS = {
    "bare number": ("0.01", "", "a fixed value belongs in its own section"),
    "unknown domain": ("{loguniform: [1.0e-4, 1.0e-2]}", "", "did you mean log_uniform?"),
    "two domains": ("{uniform: [0, 1], choice: [1]}", "", "names 2 domains"),
    "unknown option": ("{uniform: [0, 1], step: 1}", ".step", "is not an option of uniform; given 1; allowed: when"),
    "reversed bounds": (
        "{log_uniform: [1.0e-2, 1.0e-4]}",
        ".log_uniform",
        "low must be below high; given [0.01, 0.0001]",
    ),
    "no width": ("{uniform: [-1.0e+308, 1.0e+308]}", ".uniform", "is too wide: high - low is beyond"),
    "equal bounds": ("{uniform: [1, 1]}", ".uniform", "below high"),
    "log of zero": ("{log_uniform: [0, 1]}", ".log_uniform[0]", "must be above 0; given 0"),
    "one minus one": (
        "{one_minus_log_uniform: [0.9, 1.0]}",
        ".one_minus_log_uniform[1]",
        "must be above 0 and below 1; given 1.0",
    ),
    "one bound": ("{log_uniform: [1.0e-4]}", ".log_uniform", "list of two numbers"),
    "text bound": ("{log_uniform: [a, 1]}", ".log_uniform[0]", "must be a number; given 'a'"),
    "quoted bound": ('{log_uniform: ["1e-4", 1]}', ".log_uniform[0]", "did you mean 0.0001 without quotes?"),
    "underflowing bound": ("{log_uniform: [1e-400, 1]}", ".log_uniform[0]", "is too small a number"),
    "nan bound": ("{log_uniform: [.nan, 1]}", ".log_uniform[0]", "must be a finite number"),
    "float int bound": ("{int_uniform: [1.5, 4]}", ".int_uniform[0]", "must be a whole number"),
    "step beside": (
        "{int_uniform: [16, 64], step: 20}",
        ".step",
        "does not lead from 16 to 64; given 20; allowed: a divisor of 48; did you mean [16, 56]?",
    ),
    "step of zero": ("{int_uniform: [1, 4], step: 0}", ".step", "at least 1"),
    "no deviation": ("{normal: [1, 0]}", ".normal[1]", "must be above 0"),
    "clip beside mean": ("{normal: [1, 1], low: 2}", ".low", "must not be above the mean, 1"),
    "text as clip": ("{normal: [1, 1], low: x}", ".low", "must be a number; given 'x'"),
    "clip below mean": ("{normal: [1, 1], high: 0}", ".high", "must not be below the mean, 1"),
    "clip to a point": ("{normal: [1, 1], low: 1, high: 1}", ".high", "must be above low"),
    "normal of text": ("{normal: [a, 1]}", ".normal[0]", "must be a number; given 'a'; allowed: [mean, std]"),
    "bare list": ("[none, pre]", "", '{grid: ["none", "pre"]}'),
    "null domain": ("", "", "given null"),
    "empty grid": ("{grid: []}", ".grid", "at least one; given []"),
    "grid is text": ("{grid: none}", ".grid", "must be a list of values"),
    "repeated value": ("{grid: [none, pre, none]}", ".grid[2]", "repeats item 0"),
    "equal numbers": ("{grid: [1, 2, 1.0]}", ".grid[2]", "repeats item 0"),
}
CASES |= {
    name: (LEARNING_RATE, written, 15, f"space.training.learning_rate{below}", message)
    for name, (written, below, message) in DOMAINS.items()
}


@pytest.mark.parametrize(("old", "new", "line", "key", "message"), CASES.values(), ids=CASES.keys())
def test_one_fault_gives_one_problem(
    edited: Callable[..., Path], problems: Refuse, old: str, new: str, line: int, key: str, message: str
) -> None:
    path = edited(old, new)
    found = problems(path)
    assert [(problem.where, problem.key) for problem in found] == [(f"{path}:{line}", key)]
    assert message.replace("{file}", str(path)) in str(found[0])
