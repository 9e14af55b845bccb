"""Colors, log axes and files of all figures. A figure is redrawn only if its data or the drawing code changed.

Color-blind readers can distinguish the colors of Okabe and Ito (2008). Equal input gives equal bytes.
"""

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from numpy.typing import ArrayLike
from PIL import Image, UnidentifiedImageError

from orchestrator.errors import UserError
from orchestrator.statistics.decades import are_curves_logarithmic
from orchestrator.targets import check_ending
from trainers.files.atomic_file import write_atomic

BLUE = "#0072B2"
PALETTE = ("#D55E00", "#009E73", BLUE, "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000")
GREY = "#9A9A9A"
FAILED_COLOR = "#B00020"
CROSS_HEIGHT = 0.975  # of crosses for infinite values, as a fraction of the axes
SHARE_LIMITS = (-0.02, 1.02)  # of an axis of shares, so that lines at 0 and 1 are visible
PACKAGE = Path(__file__).parents[1]
DRAWING_CODE = ("figures", "results", "statistics", "text")  # folders whose code determines figures


def save_figure(path: Path, draw: Callable[[], Figure], *facts: Any) -> Path:
    """Draw a figure and write it to `path`, unless the file was drawn from the same facts by the same code.

    `facts` are the data that `draw` shows. The code is DRAWING_CODE and the module of `draw`.
    """
    # Keep the file if it has the digest of these facts and this code.
    code = f"{compute_source_digest(PACKAGE, DRAWING_CODE)} {compute_source_digest(Path(draw.__code__.co_filename))}"
    fact_text = json.dumps(facts, sort_keys=True, default=repr)
    digest = hashlib.sha256(f"{mpl.__version__}\n{code}\n{fact_text}".encode()).hexdigest()
    if read_figure_digest(path) == digest:
        return path

    # Keep a layout that `draw` has chosen.
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    figure = draw()
    if figure.axes and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    figure.savefig(content, format="png", dpi=150, metadata={"Software": None, "lengthwise": digest})
    write_atomic(path, [content.getvalue()])
    return path


@cache
def compute_source_digest(root: Path, parts: tuple[str, ...] = ("",)) -> str:
    """Return the digest of the names and contents of all Python files in these parts of `root`; cached."""
    digest = hashlib.sha256()
    for part in parts:
        path = root / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = source.read_bytes()
            digest.update(f"{source.relative_to(root)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def escape_for_figure(text: str) -> str:
    """Return a text for matplotlib: `$` escaped, and characters that the font lacks replaced by a box."""
    font = _load_font()
    drawable = "".join(c if c == "\n" or font.get_char_index(ord(c)) else "\u25a1" for c in text)
    return drawable.replace("$", r"\$")


@cache
def _load_font() -> FT2Font:
    """Return the font of figures, which every installation of matplotlib has."""
    return FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"))


def make_logarithmic(axes: Axes, name: str, values: np.ndarray[Any, Any]) -> None:
    """Make the axis `name`, "x" or "y", logarithmic for these values.

    If some values are not positive, it is linear from 0 to the power of ten below the smallest positive value, so that
    all values are shown.
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
    """Set the scale and limits of the y axis for these values (see `are_curves_logarithmic`).

    An axis of values to be maximized goes from 0 to 1 if these and the `others` on the axes are between 0 and 1, as for
    accuracies.
    """
    # A logarithmic axis begins below the smallest positive value.
    finite = values[np.isfinite(values)]
    if are_curves_logarithmic(scale, direction, values):
        make_logarithmic(axes, "y", values)
        smallest = finite[finite > 0].min()
        if (finite >= 0).all():
            axes.set_ylim(bottom=smallest / 2 if (finite > 0).all() else -smallest / 20)
    elif direction == "maximize" and len(finite) and all(0 <= v <= 1 for v in (*finite, *others) if math.isfinite(v)):
        axes.set_ylim(*SHARE_LIMITS)


def mask_infinite(values: ArrayLike) -> np.ndarray[Any, Any]:
    """Return the values with infinities replaced by NaN, so that a line has gaps."""
    numbers = np.asarray(values, dtype=float)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def frame_axes(axes: Axes) -> None:
    """Draw a faint grid, and remove the frame at the top and on the right."""
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def file_name(key: str) -> str:
    """Return a dotted key as part of a file name; different keys have different names.

    file_name("training.averages.ä.decay") -> "training.averages._.decay-139e81"
    """
    plain = "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "_" for c in key)
    return plain if plain == key else f"{plain}-{hashlib.sha256(key.encode()).hexdigest()[:6]}"


def read_figure_digest(path: Path) -> str | None:
    """Return the digest that `save_figure` wrote into a figure; None for any other file."""
    try:
        if not path.is_file():  # opening a pipe would wait
            return None
        with Image.open(path) as image:
            return image.info.get("lengthwise")
    except (OSError, UnidentifiedImageError):
        return None


def check_figure_path(figure: Path, *, force: bool = False) -> None:
    """Raise UserError unless --figure names a .png file that is new or drawn by lengthwise, or `force`."""
    check_ending("figure", figure, ".png")
    if figure.exists() and not force and read_figure_digest(figure) is None:
        raise UserError(f"--figure {figure}: the file exists and was not drawn by lengthwise; choose another name")
    if not figure.parent.is_dir():
        raise UserError(f"--figure {figure}: the folder {figure.parent} does not exist")
