"""A folder's modules are few enough to be known."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_MODULES = 14  # of a folder
CATALOGUES = {"trainers/positions", "trainers/tasks/scratchpad"}  # one module for each thing a sweep file can name
MODULES = [
    path for name in ("cluster", "orchestrator", "search_spaces", "trainers") for path in (ROOT / name).rglob("*.py")
]


def test_no_folder_has_many_modules() -> None:
    modules = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES if path.name != "__init__.py")
    many = {folder: count for folder, count in modules.items() if count > MOST_MODULES and folder not in CATALOGUES}
    assert not many, f"find the rooms: {many}"
