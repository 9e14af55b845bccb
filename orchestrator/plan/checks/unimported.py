"""Find the Python file beside a sweep file that registers an unknown name but is missing in `imports`."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from search_spaces import ABSENT, SweepSpec
from trainers.errors import Problem


def suggest_import(problem: Problem, spec: SweepSpec) -> Problem:
    """Return the problem of an unknown name, with the missing item of `imports` if a file beside the sweep file has it.

    Other problems are returned unchanged.
    """
    if problem.missing_class is None or spec.folder is None:
        return problem
    module = _find_registering_module(spec.folder, *problem.missing_class, spec.imports)
    if module is None:
        return problem

    # Without the registered names, because none of them was meant.
    advice = f"{module}.py beside the sweep file registers it; set imports: [{', '.join([*spec.imports, module])}]"
    return replace(problem, message=f"{problem.message}; {advice}", given=ABSENT, allowed=None, nearest=None)


def _find_registering_module(folder: Path, kind: str, name: str, imported: tuple[str, ...]) -> str | None:
    """Return the module in a folder whose text has `@register(kind, name)`, None if there is none."""
    decorator = re.compile(rf"""@[\w.]*\bregister\(\s*(["']){kind}\1\s*,\s*(["']){re.escape(name)}\2""")
    for path in sorted(folder.glob("*.py")):
        if not path.stem.isidentifier() or path.stem in imported:
            continue
        with suppress(OSError):  # a folder, or a file that may not be read
            if decorator.search(path.read_text(encoding="utf-8", errors="replace")):
                return path.stem
    return None
