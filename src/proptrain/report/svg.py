"""The look all plots share, and the way from matplotlib to SVG that fits into a page.

Lengths are SVG units; `WIDTH` of them span a plot. Margins are set by hand from the number of
letters, so that a plot does not depend on the fonts of the machine that draws it.
"""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

WIDTH = 440.0
"""SVG units across a plot of full width; a letter is `FONT_SIZE` of them high."""
FONT_SIZE = 9.0
INK = "#010203"
"""Stands for the colour of the page's text; becomes ``currentColor``."""
BLUE, ORANGE, GREEN, PURPLE = "#2f7fc1", "#c4661f", "#2c8a57", "#9566cc"
"""About 4:1 against both the light and the dark background of the page."""

_PIXELS_PER_UNIT = 720 / WIDTH  # a plot of full width fills the page's column
_NAMESPACE = "http://www.w3.org/2000/svg"
_LONGEST_NAME = 28  # letters of a name that a plot shows
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "proptrain",
    "text.parse_math": False,  # a dollar in a class name is a dollar
    "font.size": FONT_SIZE,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "xtick.major.pad": 5.0,
    "ytick.major.pad": 5.0,
    "legend.frameon": False,
    "legend.fontsize": FONT_SIZE,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.3,
}
_UNWRITABLE = "\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff"
_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that turn the direction of the text that follows, which may be ours."""
_UNSHOWN = re.compile(f"[{_UNWRITABLE}{_TURNING}]")


def clean_text(text: str) -> str:
    r"""Return the text with a � for each character that cannot, or must not, be shown.

    No XML or UTF-8 file can hold some; others turn the direction of all that follows, so that a
    name could make a page read otherwise than it is written.

    >>> clean_text("a\x00b"), clean_text("file\u202egpj.exe")
    ('a�b', 'file�gpj.exe')
    """
    return _UNSHOWN.sub("\ufffd", text)


def clean_lines(text: str) -> str:
    r"""Return the same of each line, so that the ends of lines stay.

    >>> clean_lines("a\x00b\nc")
    'a�b\nc'
    """
    return "\n".join(clean_text(line) for line in text.split("\n"))


@contextmanager
def style() -> Iterator[None]:
    """Draw with our settings alone, whatever the user's are, and leave those as they were."""
    with matplotlib.style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # The browser draws the text with its own fonts, so what ours lack does not matter.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing|.*not support .* natively")
        yield


def position(
    figure: Figure, left: float, top: float, width: float, height: float
) -> tuple[float, float, float, float]:
    """Turn units from the top left corner into matplotlib's shares from the bottom left one."""
    full_width, full_height = (72 * inches for inches in figure.get_size_inches())
    return (
        left / full_width,
        1 - (top + height) / full_height,
        width / full_width,
        height / full_height,
    )


def shortened(name: str) -> str:
    """Return a name on one line, cut where a plot has no room for more."""
    name = _one_line(name)
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def text_width(texts: Sequence[str], font_size: float = FONT_SIZE) -> float:
    """Estimate the units that the widest text takes, in any font."""
    wide = [sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in t) for t in texts]
    return 0.58 * font_size * max(wide) + 4


def standalone_svg(inline: str) -> str:
    """Return an inline SVG as a file of its own: dark on white, titled, with a common font."""
    root = ET.fromstring(inline)
    for name in ("class", "style"):
        root.attrib.pop(name, None)
    root.attrib |= {"color": "#1c1f23", "font-family": "Helvetica, Arial, sans-serif"}
    title = ET.Element("title")
    title.text = root.get("aria-label")
    root.insert(0, title)
    background = {"width": "100%", "height": "100%", "fill": "#ffffff"}
    root.insert(1 + len(root.findall(f"{{{_NAMESPACE}}}desc")), ET.Element("rect", background))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    root.set("xmlns", _NAMESPACE)
    return ET.tostring(root, encoding="unicode") + "\n"


def inline_svg(figure: Figure, kind: str, label: str, description: str = "") -> str:
    """Return the figure as an SVG element with the page's colour and font, and ids of its own."""
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    root = ET.fromstring(buffer.getvalue())
    _drop(root, "style")  # its rule for every element would reach the whole page
    digest = hashlib.sha256(buffer.getvalue() + label.encode("utf-8", "replace"))
    _own_ids(root, f"{kind}-{digest.hexdigest()[:8]}-")
    for element in root.iter():
        _adapt(element)
    width, height = (72 * inches * _PIXELS_PER_UNIT for inches in figure.get_size_inches())
    root.attrib.update(
        {
            "xmlns": _NAMESPACE,
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "class": f"plot plot-{kind}",
            "role": "img",
            "aria-label": _one_line(label),
            "stroke-linejoin": "round",
            # On a phone a plot scrolls in its frame before its letters become too small.
            "style": f"min-width: {min(width, 400):.0f}px",
        }
    )
    if description:
        element = ET.Element("desc")
        element.text = _one_line(description)
        root.insert(0, element)
    return ET.tostring(root, encoding="unicode")


def _one_line(text: str) -> str:
    return clean_text(" ".join(text.split()))


def _drop(root: ET.Element, name: str) -> None:
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag.endswith("}" + name)]:
            parent.remove(child)


def _own_ids(root: ET.Element, prefix: str) -> None:
    """Keep the ids that something refers to, with the prefix, so that no two plots share one."""
    reference = re.compile(r"^(url\()?#([^)]+)(\))?$")
    used: set[str] = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if match := reference.match(value):
                used.add(match[2])
                element.set(key, f"{match[1] or ''}#{prefix}{match[2]}{match[3] or ''}")
    for element in root.iter():
        if (own := element.attrib.pop("id", None)) in used:
            element.set("id", f"{prefix}{own}")


def _adapt(element: ET.Element) -> None:
    """Take the page's colour and font, plain names and short numbers."""
    element.tag = element.tag.rpartition("}")[2]
    for key in list(element.attrib):
        value = element.attrib.pop(key)
        if key == "style":
            value = re.sub(r"font-family: [^;]*;? ?", "", value.replace(INK, "currentColor"))
        elif key in ("d", "transform", "x", "y", "points"):
            value = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.2f}", value)
            value = " ".join(value.split())
        if not value.startswith("rotate(-0 "):
            element.set(key.rpartition("}")[2], value)
    if element.tag != "text":
        element.text = None
    element.tail = None
