"""The sweep files that come with lengthwise, by name."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]


def find_shipped_sweeps() -> dict[str, Path]:
    """Return the paths of the shipped sweep files by the names of the sweeps, in the order of their folders."""
    files = sorted(FOLDER.rglob("*.yaml"), key=lambda file: (len(file.parts), file))
    return {file.stem: file for file in files if file.name != "claims.yaml" and file.parent.parent.name != "start"}


def find_sweep_file(file: str | Path) -> Path:
    """Return the path of a sweep file, given as a path or as the name of a shipped sweep.

    find_sweep_file("quickstart") -> .../search_spaces/quickstart.yaml
    """
    shipped = find_shipped_sweeps().get(str(file))
    return shipped if shipped is not None and not Path(file).exists() else Path(file)
