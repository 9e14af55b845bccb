"""What every figure shares: colours, log axes where values ask for them, files that are drawn only when they must be.

The colours of Okabe and Ito (2008) are told apart by colour-blind readers. Equal input gives equal bytes, and a figure
is drawn again when its input has changed or any source that decides what figures show.
"""

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from PIL import Image, UnidentifiedImageError

from orchestrator.errors import UserError
from orchestrator.figures.layout import arrange
from trainers.files.atomic_file import write_whole

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000")
GREY = "#9A9A9A"
FAILED_COLOUR = "#B00020"
EDGE = 0.975  # height of crosses for what has no finite value, as a fraction of the axes
DECADES_FOR_LOG = 2.0
PACKAGE = Path(__file__).parents[1]
DECIDING = ("figures", "results", "statistics", "wording.py")  # of the package: what a figure shows follows from these


@dataclass(frozen=True)
class Drawing:
    """A figure that is to be in a file, and the digest of all that it follows from."""

    path: Path
    draw: Callable[[], Figure]
    digest: str

    def is_there(self) -> bool:
        """Whether the file holds this very figure."""
        return drawn_digest(self.path) == self.digest

    def make(self) -> None:
        """Draw and write it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        figure = self.draw()
        figure.set_dpi(150)
        if figure.axes and figure.get_layout_engine() is None:
            arrange(figure)
        # What savefig does but for a pass that draws nothing and costs as much as the one that draws.
        FigureCanvasAgg(figure).print_png(content, metadata={"Software": None, "lengthwise": self.digest})
        write_whole(self.path, [content.getvalue()])


_put_off: ContextVar[list[Drawing] | None] = ContextVar("_put_off", default=None)


def save(path: Path, draw: Callable[[], Figure], *facts: Any) -> Path:
    """Draw and write, unless `path` already holds the figure of the same facts drawn by the same code.

    `facts` are the data that `draw` shows. The code is all of DECIDING, and the module of `draw` wherever it is.
    """
    code = f"{digest_of_sources(PACKAGE, DECIDING)} {digest_of_sources(Path(draw.__code__.co_filename))}"
    written = json.dumps(facts, sort_keys=True, default=repr)
    drawing = Drawing(path, draw, hashlib.sha256(f"{mpl.__version__}\n{code}\n{written}".encode()).hexdigest())
    if not drawing.is_there():
        waiting = _put_off.get()
        if waiting is None:
            drawing.make()
        else:
            waiting.append(drawing)
    return path


@contextmanager
def put_off() -> Iterator[list[Drawing]]:
    """Draw nothing in this block: what `save` is asked for there, and is not in its file yet, is listed instead."""
    waiting: list[Drawing] = []
    before = _put_off.set(waiting)
    try:
        yield waiting
    finally:
        _put_off.reset(before)


@cache
def digest_of_sources(root: Path, parts: tuple[str, ...] = ("",)) -> str:
    """The digest of every Python source in these parts of `root`, by name and content; read once in a process."""
    found = hashlib.sha256()
    for part in parts:
        path = root / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = source.read_bytes()
            found.update(f"{source.relative_to(root)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def printable(text: str) -> str:
    """`text` as matplotlib can draw it: no mathematics mode, and a box for characters its font does not have."""
    font = _font()
    drawable = "".join(c if c == "\n" or font.get_char_index(ord(c)) else "\u25a1" for c in text)
    return drawable.replace("$", r"\$")


@cache
def _font() -> FT2Font:
    return FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"))


def spans_decades(values: np.ndarray[Any, Any]) -> bool:
    """Whether `values` ask for a log axis: none negative, and the positive ones spread over two decades or more."""
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if len(positive) < 2 or (finite < 0).any() or len(positive) < 0.8 * len(finite):
        return False
    return bool(math.log10(positive.max() / positive.min()) >= DECADES_FOR_LOG)


def file_name(key: str) -> str:
    """A dotted key as part of a file name."""
    return "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "_" for c in key)


def drawn_digest(path: Path) -> str | None:
    """What `save` wrote into a figure about its facts; None for any other file."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with Image.open(path) as image:
            return image.info.get("lengthwise")
    except (OSError, UnidentifiedImageError):
        return None


def check_target(figure: Path) -> None:
    """Raise UserError unless --figure can be drawn to this path: a .png that replaces no file but a drawing of ours."""
    if figure.suffix != ".png":
        raise UserError(f"--figure {figure}: is no PNG file; allowed: a name that ends with .png")
    if figure.exists() and drawn_digest(figure) is None:
        raise UserError(f"--figure {figure}: is there already and was not drawn by lengthwise; choose another name")
    if not figure.parent.is_dir():
        raise UserError(f"--figure {figure}: there is no folder {figure.parent}")
