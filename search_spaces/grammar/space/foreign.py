"""Domains as other tools write them, translated for the hint of a problem: no sweep file may have them.

W&B: `{values: [..]}`, `{distribution: log_uniform_values, min: .., max: ..}`. Ax: `{type: range, bounds: [..]}`. NNI:
`{_type: loguniform, _value: [..]}`. Optuna: `{type: float, low: .., high: .., log: true}`, `suggest_int("x", 1, 8)`.
Hydra: `choice(0.0, 0.1)`, `tag(log, interval(1e-4, 1))`. Ray: `tune.loguniform(1e-4, 1)`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from search_spaces.grammar.problems.errors import nearest_name, shown
from search_spaces.grammar.problems.findings import lookup
from search_spaces.grammar.space.domains import KINDS, is_number, read_number

_LISTS = ("values", "choices", "options", "categories", "value", "list")
_ENDS = (("min", "max"), ("low", "high"), ("lower", "upper"), ("start", "stop"), ("start", "end"), ("from", "to"))
_PAIRS = ("bounds", "range", "interval", "value")
_WORDS = ("type", "distribution", "dist", "prior", "scale", "value_type", "parametertype", "method")
_LISTED = re.compile(r"choice|categorical|grid|sweep")
_DRAWN = re.compile(r"uniform|normal|log|int|range|double|float")
_OPEN = re.compile(r"randint|\brange\(")  # the upper end is not drawn
_WHOLE = re.compile(r"int(?!erval)|\brange\(")  # int, randint, suggest_int, integer
_LONGEST = 500  # characters of a text
_MOST = 20  # values of an interval with steps that are written out


def translate_domain(written: Any, fixed: Any = None) -> str | None:
    """Return a domain of another tool, or a bare list, as a domain of ours in YAML; None if it is neither.

    translate_domain({"min": 1, "max": 8}) -> "{int_uniform: [1, 8]}". With a real number as the key's `fixed` value it
    is "{uniform: [1, 8]}".
    """
    if isinstance(written, Mapping):
        domain = _read_mapping(written, fixed)
    elif isinstance(written, str):
        domain = _read_text(written, fixed) if len(written) <= _LONGEST else None
    elif isinstance(written, list) and len(written) == 1 and (inner := write_domain(written[0])):
        return inner
    else:
        domain = {"choice": written} if isinstance(written, list) else None
    if domain is None or KINDS[next(iter(domain))].parse(domain, {}, lambda *_, **__: None) is None:
        return None
    return _in_yaml(
        {**domain, "when": written["when"]} if isinstance(written, Mapping) and "when" in written else domain
    )


def write_domain(written: Any, fixed: Any = None) -> str | None:
    """Return a domain, ours or of another tool, as a domain of ours in YAML; None if it is neither."""
    is_ours = isinstance(written, Mapping) and any(name in KINDS for name in written)
    return _in_yaml(written) if is_ours else translate_domain(written, fixed)


def nearest_kind(name: str) -> str | None:
    """Return the domain that a name probably means; stricter than for other names, as norm is a key and no normal."""
    return nearest_name(name, KINDS, cutoff=0.85)


def flatten_domains(key: str, written: Mapping[str, Any], sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the domains nested below a key of the space, each with its dotted key in YAML.

    training, {"weight_decay": {"values": [0, 1]}} -> "training.weight_decay: {choice: [0, 1]}"
    """
    for step, below in written.items():
        dotted = f"{key}.{step}"
        if isinstance(below, Mapping):
            below = {nearest_kind(name) or name: value for name, value in below.items()}
        if domain := write_domain(below, lookup(sections, dotted)):
            yield f"{dotted}: {domain}"
        elif isinstance(below, Mapping):
            yield from flatten_domains(dotted, below, sections)


def _in_yaml(domain: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{name}: {shown(value)}' for name, value in domain.items())}}}"


def _read_mapping(written: Mapping[str, Any], fixed: Any) -> dict[str, Any] | None:
    """Return the domain that a mapping of another tool means."""
    inner = written.get("feasibleSpace")
    flat = {**written, **inner} if isinstance(inner, Mapping) else written
    given = {name.strip("_").casefold(): read_number(value) for name, value in flat.items()}
    words = " ".join(str(given[name]) for name in _WORDS if name in given).casefold()
    words += " log" if any(given.get(name) is True for name in ("log", "log_scale", "logscale")) else ""

    # A list of values, unless the words say that the list is the two ends of an interval.
    pair = next(([given[low], given[high]] for low, high in _ENDS if low in given and high in given), None)
    values = next((given[name] for name in _LISTS if isinstance(given.get(name), list)), None)
    if values is not None and not ("value" in given and _DRAWN.search(words)):
        return {"grid" if "grid" in words else "choice": values}
    if "normal" in words and "log" not in words:
        moments = [given.get("mu", given.get("mean")), given.get("sigma", given.get("std"))]
        clips = {"low": pair[0], "high": pair[1]} if pair else {}
        return {"normal": values or moments, **clips}
    pair = pair or next((given[name] for name in _PAIRS if isinstance(given.get(name), list)), None)
    return _read_interval(words, pair or [], given.get("step", given.get("q")), fixed)


def _read_text(written: str, fixed: Any) -> dict[str, Any] | None:
    """Return the domain that a call such as `choice(0.0, 0.1)`, or a list with commas, means."""
    head, call, rest = written.strip().rpartition("(")
    inner = rest.rstrip(") ")
    if (
        re.fullmatch(r"\d{1,3}(,\d{3})+", written.strip())
        or (call and not rest.endswith(")"))
        or ")" in inner
        or "space" in head
    ):  # linspace, logspace
        return None
    try:
        items = [read_number(item) for item in yaml.safe_load(f"[{inner}]")]
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    words = written.casefold().replace("log=false", "")
    if not call or _LISTED.search(head.casefold()):
        values = next((item for item in items if isinstance(item, list)), items)
        return {"grid" if "grid" in words else "choice": values} if call or len(values) > 1 else None
    numbers = [number for item in items if is_number(number := read_number(str(item).rpartition("=")[2]))]
    if "normal" in words and "log" not in words:
        return {"normal": numbers[:2]}
    return _read_interval(words, numbers, next(iter(numbers[2:]), None), fixed)


def _read_interval(words: str, ends: list[Any], step: Any, fixed: Any) -> dict[str, Any] | None:
    """Return the domain between two ends; `words` are what the other tool calls it."""
    if len(ends) < 2 or not all(map(is_number, ends)):
        return None
    low, high = ends[:2]
    whole = all(isinstance(end, int) for end in (low, high))
    asks_whole = whole and _WHOLE.search(words) is not None
    if "log" in words and asks_whole:
        return {"choice": [low * 2**power for power in range(64) if low * 2**power <= high]} if low > 0 else None
    if "log" in words:
        # `loguniform` of W&B and Hyperopt has exponents as its ends.
        ends = [low, high] if low >= 0 else [float(f"{math.exp(min(end, 700)):.3g}") for end in (low, high)]
        return {"log_uniform": ends}
    if asks_whole or (
        whole and high - low > 1 and not isinstance(fixed, float) and not re.search("float|double", words)
    ):
        step = step if isinstance(step, int) and step > 1 else 1
        high -= _OPEN.search(words) is not None
        return {"int_uniform": [low, high - (high - low) % step], **({"step": step} if step > 1 else {})}
    if is_number(step) and 0 < step <= high - low <= _MOST * step:
        return {"choice": [float(f"{low + step * index:.6g}") for index in range(round((high - low) / step) + 1)]}
    return {"uniform": [low, high]}
