"""Modules of the product are short enough to be read in one go."""

from pathlib import Path

MOST = 300  # lines
PACKAGES = ("cluster", "orchestrator", "search_spaces", "trainers")


def test_no_module_is_long() -> None:
    root = Path(__file__).parents[1]
    lines = {path: len(path.read_text().splitlines()) for name in PACKAGES for path in (root / name).rglob("*.py")}
    long = {str(path.relative_to(root)): count for path, count in lines.items() if count > MOST}
    assert len(lines) > 100 and not long, f"find the idea that should leave: {long}"
