"""Shorten the tracebacks in a log to the frames of the user's files."""

import re
from pathlib import Path

_FILE_LINE = re.compile(r'  File "(.+)", line \d+')
_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/.]+)")
_STANDARD_LIBRARY = re.compile(r"^<frozen |/lib/python3\.\d+/")
_LENGTHWISE_FOLDER = Path(__file__).resolve().parents[2]
_LENGTHWISE = tuple(f"{_LENGTHWISE_FOLDER}/{name}/" for name in ("orchestrator", "trainers"))
_MAX_FRAME_LINES = 12  # a frame's lines of code and markers below it


def shorten_log(log: str, max_lines: int) -> list[str]:
    """Return about the last `max_lines` lines of a log, with frames folded as in `fold_frames`.

    The lines do not begin in the middle of a frame.
    """
    lines = fold_frames(log.strip().splitlines())
    first = max(0, len(lines) - max_lines)

    # Begin with the File line of a frame of which the lines of code would be the first.
    above = range(first, max(-1, first - _MAX_FRAME_LINES), -1)
    frame_start = next((n for n in above if lines and not _continues_frame(lines[n])), first)
    is_inside = frame_start < first and _FILE_LINE.match(lines[frame_start])
    return lines[frame_start if is_inside else first :]


def fold_frames(lines: list[str]) -> list[str]:
    """Return the lines of a log with consecutive frames of installed packages folded to one line.

    This line is such as "  ... 9 frames of torch". Nothing is folded if no frame is of another file.
    """
    # Each frame is the line with its file, then its lines of code.
    blocks: list[tuple[str | None, list[str]]] = []  # the package of a frame, "" for other frames, None for other lines
    for line in lines:
        if match := _FILE_LINE.match(line):
            blocks.append((_find_package(match[1]), [line]))
        elif blocks and blocks[-1][0] is not None and _continues_frame(line):
            blocks[-1][1].append(line)
        else:
            blocks.append((None, [line]))
    if not any(package == "" for package, _ in blocks):
        return lines

    folded: list[str] = []
    packages: list[str] = []
    for package, block in [*blocks, (None, list[str]())]:
        if package:
            packages.append(package)
            continue
        if packages:
            noun = "frame" if len(packages) == 1 else "frames"
            folded.append(f"  ... {len(packages)} {noun} of {', '.join(dict.fromkeys(packages))}")
            packages.clear()
        folded += block
    return folded


def _continues_frame(line: str) -> bool:
    """Return whether a line may be below the File line of a frame: code, markers, or the count of repeated frames."""
    return line.startswith(("    ", "  [Previous line repeated"))


def _find_package(file: str) -> str:
    """Return the name of the package that a file of a traceback belongs to; "" for a file of the user."""
    if match := _PACKAGE.search(file):
        return match[1]
    if _STANDARD_LIBRARY.search(file):
        return "python"
    return "lengthwise" if file.startswith(_LENGTHWISE) else ""
