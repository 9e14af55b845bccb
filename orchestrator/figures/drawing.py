"""Colours, log axes and files of all figures. A file is only drawn again if its data or the drawing code changed.

The colours of Okabe and Ito (2008) can be distinguished by colour-blind readers. Equal input gives equal bytes.
"""

import hashlib
import io
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from numpy.typing import ArrayLike
from PIL import Image, UnidentifiedImageError

from orchestrator.errors import UserError
from orchestrator.figures.panels import arrange_panels
from orchestrator.statistics.decades import is_logarithmic
from orchestrator.targets import check_ending
from trainers.errors import nearest
from trainers.files.atomic_file import write_atomic

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000")
GREY = "#9A9A9A"
FAILED_COLOUR = "#B00020"
EDGE = 0.975  # height of crosses for values that are not finite, as a fraction of the axes
SCALES = ("auto", "linear", "log")
SHARES = (-0.02, 1.02)  # limits of an axis of shares, on which lines at 0 and 1 can be seen
PACKAGE = Path(__file__).parents[1]
DECIDING = ("figures", "results", "statistics", "wording.py")  # parts of the package that determine what figures show
FEWEST_FOR_FORKS = 3  # figures for which forks pay
_BYTES = 4  # of a figure's number in the pipe
_MOST = 4000  # numbers, which every system's pipes hold


@dataclass(frozen=True)
class FigureFile:
    """A figure with its file, and the digest of its data and of the drawing code."""

    path: Path
    draw: Callable[[], Figure]
    digest: str

    @property
    def facts(self) -> dict[str, str]:
        """What its file says of itself: the digest and the file's name."""
        return {"lengthwise": self.digest, "lengthwise file": self.path.name}

    def is_current(self) -> bool:
        """Return whether the file holds this figure already."""
        return read_figure_digest(self.path) == self.digest

    def make(self) -> None:
        """Draw the figure and write its file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        figure = self.draw()
        figure.set_dpi(150)
        if figure.axes and figure.get_layout_engine() is None:
            arrange_panels(figure)
        # Like savefig, without its additional pass that draws nothing and takes as long as drawing.
        FigureCanvasAgg(figure).print_png(content, metadata={"Software": None, **self.facts})
        write_atomic(self.path, [content.getvalue()])


_put_off: ContextVar[list[FigureFile] | None] = ContextVar("_put_off", default=None)


def save(path: Path, draw: Callable[[], Figure], *facts: Any) -> Path:
    """Draw a figure and write it, unless `path` already holds the figure of the same facts drawn by the same code.

    `facts` are the data that `draw` shows. The code is DECIDING and the module of `draw`.
    """
    code = f"{digest_of_sources(PACKAGE, DECIDING)} {digest_of_sources(Path(draw.__code__.co_filename))}"
    written = json.dumps(facts, sort_keys=True, default=repr)
    drawing = FigureFile(path, draw, hashlib.sha256(f"{mpl.__version__}\n{code}\n{written}".encode()).hexdigest())
    if not drawing.is_current():
        waiting = _put_off.get()
        if waiting is None:
            drawing.make()
        else:
            waiting.append(drawing)
    return path


@contextmanager
def deferred_figures() -> Iterator[list[FigureFile]]:
    """Collect the figures that `save` would draw in this block, instead of drawing them."""
    waiting: list[FigureFile] = []
    before = _put_off.set(waiting)
    try:
        yield waiting
    finally:
        _put_off.reset(before)


class DrawingForks:
    """Begins to draw `drawings` in `forks` processes; `finish` waits for them.

    `finish` draws everything if the process has threads, with fewer than two forks, and with few figures.
    """

    def __init__(self, drawings: Sequence[FigureFile], forks: int) -> None:
        self._drawings, self._children = drawings, list[int]()
        if forks < 2 or len(drawings) < FEWEST_FOR_FORKS or threading.active_count() > 1:
            return
        numbers, end = os.pipe()
        os.write(end, b"".join(number.to_bytes(_BYTES, "big") for number in range(min(len(drawings), _MOST))))
        os.close(end)
        parent = os.getpid()
        for _ in range(min(forks, len(drawings))):
            child = os.fork()
            if child == 0:
                try:
                    while os.getppid() == parent and (number := os.read(numbers, _BYTES)):
                        drawings[int.from_bytes(number, "big")].make()
                finally:
                    os._exit(0)  # `finish` draws missing figures, and raises the errors of drawing
            self._children.append(child)
        os.close(numbers)

    def finish(self) -> None:
        """Return when every figure is drawn; draws here what a fork has not. Raises what drawing raises."""
        while self._children:
            os.waitpid(self._children.pop(), 0)
        for drawing in self._drawings:
            if not drawing.is_current():
                drawing.make()


@cache
def digest_of_sources(root: Path, parts: tuple[str, ...] = ("",)) -> str:
    """Return the digest of every Python source in these parts of `root`, by name and content; cached."""
    found = hashlib.sha256()
    for part in parts:
        path = root / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = source.read_bytes()
            found.update(f"{source.relative_to(root)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def printable(text: str) -> str:
    """Return `text` as matplotlib can draw it: without mathematics mode, and with a box for missing characters."""
    font = _font()
    drawable = "".join(c if c == "\n" or font.get_char_index(ord(c)) else "\u25a1" for c in text)
    return drawable.replace("$", r"\$")


@cache
def _font() -> FT2Font:
    return FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"))


def make_logarithmic(axes: Axes, name: str, values: np.ndarray[Any, Any]) -> None:
    """Make the x or y axis (its `name`) logarithmic.

    If some of the values on it are not positive, it is linear from 0 to the power of ten below the positive ones, so
    that all are shown.
    """
    finite = values[np.isfinite(values)]
    scale: dict[str, Any] = {"value": "log", "nonpositive": "clip"}
    if not (finite > 0).all():
        scale = {"value": "symlog", "linthresh": 10.0 ** math.floor(math.log10(finite[finite > 0].min()))}
    (axes.set_xscale if name == "x" else axes.set_yscale)(**scale)
    (axes.xaxis if name == "x" else axes.yaxis).set_major_formatter(lambda value, _: f"{value:g}")


def scale_values(
    axes: Axes, scale: str, direction: str, values: np.ndarray[Any, Any], others: Iterable[float] = ()
) -> None:
    """Set the scale of the y axis for these values (see `is_logarithmic`).

    An axis of values to be maximized goes from 0 to 1 if all of them, and of the `others` on the axes, are between 0
    and 1, such as accuracies.
    """
    finite = values[np.isfinite(values)]
    if is_logarithmic(scale, direction, values):
        make_logarithmic(axes, "y", values)
        smallest = finite[finite > 0].min()
        if (finite >= 0).all():
            axes.set_ylim(bottom=smallest / 2 if (finite > 0).all() else -smallest / 20)
    elif direction == "maximize" and len(finite) and all(0 <= v <= 1 for v in (*finite, *others) if math.isfinite(v)):
        axes.set_ylim(*SHARES)


def with_gaps(values: ArrayLike) -> np.ndarray[Any, Any]:
    """Return the values with NaN instead of infinity: a line has a gap there."""
    found = np.asarray(values, dtype=float)
    return np.where(np.isfinite(found), found, np.nan)


def frame_axes(axes: Axes) -> None:
    """Draw a faint grid, and no frame at the top and on the right."""
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def file_name(key: str) -> str:
    """Return a dotted key as part of a file name; keys that differ have different ones.

    file_name("training.averages.ä.decay") -> "training.averages._.decay-139e81"
    """
    plain = "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "_" for c in key)
    return plain if plain == key else f"{plain}-{hashlib.sha256(key.encode()).hexdigest()[:6]}"


def read_figure_digest(path: Path) -> str | None:
    """Return the digest that `save` wrote into a figure; None for any other file."""
    return _read_facts(path).get("lengthwise")


def is_drawn_as(path: Path) -> bool:
    """Return whether `save` wrote this figure under this name; a copy of a figure has another one."""
    return _read_facts(path).get("lengthwise file") == path.name


def _read_facts(path: Path) -> dict[str, str]:
    try:
        if not path.is_file():  # opening a pipe would wait
            return {}
        with Image.open(path) as image:
            return {str(key): str(value) for key, value in image.info.items()}
    except (OSError, UnidentifiedImageError):
        return {}


def check_scale(scale: str) -> None:
    """Raise UserError unless --scale is one of SCALES."""
    if scale not in SCALES:
        hint = nearest(scale, SCALES)
        raise UserError(f"--scale {scale}: {f'did you mean {hint}? ' if hint else ''}allowed: {', '.join(SCALES)}")


def check_figure_path(figure: Path, *, force: bool = False) -> None:
    """Raise UserError unless --figure can be drawn here: a .png that is new or drawn by lengthwise, or `force`."""
    check_ending("figure", figure, ".png")
    if figure.exists() and not force and read_figure_digest(figure) is None:
        raise UserError(f"--figure {figure}: exists and was not drawn by lengthwise; choose another name")
    if not figure.parent.is_dir():
        raise UserError(f"--figure {figure}: the folder {figure.parent} does not exist")
