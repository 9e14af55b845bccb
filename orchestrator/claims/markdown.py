"""Write tables and folded parts in Markdown."""

from collections.abc import Sequence


def make_markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with a header; | in cells is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def fold(summary: str, text: str) -> str:
    """Return a text folded below its summary, as Markdown with HTML tags."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text.rstrip()}\n\n</details>"
