"""One self-contained HTML page that tells how well each method did, and how it came about."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proptrain.system.files import whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from proptrain.report.explore import Explorable, Unexplorable
    from proptrain.report.parts import ClassRow, ReliabilityCurve, Suspect
    from proptrain.train.loop import History

_SCRIPTS = ("elements", "model", "layout", "picture", "search", "explorer", "sorting")
"""What runs in a page with nodes or labels to explore, in this order."""
MOST_SUSPECTS = 500
"""A page lists no more labels in doubt than these."""


@dataclass(frozen=True)
class MethodResult:
    """How one method did over its runs; accuracies are shares between 0 and 1."""

    name: str
    description: str
    accuracies: tuple[float, ...]
    """One for each run."""
    mean: float
    low: float
    """Lower end of the 95 % interval of the mean; NaN if there is none."""
    high: float
    """Upper end of the 95 % interval of the mean; NaN if there is none."""
    seconds: float
    """Median time of a run."""


@dataclass(frozen=True, eq=False)
class Report:
    """What the page shows; a part that is None is left out."""

    title: str
    subtitle: str
    """One sentence that says what was done."""
    facts: tuple[tuple[str, str], ...]
    """Names and values such as ("nodes", "2,708")."""
    methods: tuple[MethodResult, ...]
    history: History | None
    """Training curve of one run."""
    best_epoch: int | None
    """The epoch, counted from 0, whose weights that run kept."""
    confusion: NDArray[Any] | None
    """Counts (C, C): rows are true classes, columns predicted ones."""
    class_names: tuple[str, ...]
    command: str
    """The command that made the page."""
    versions: tuple[tuple[str, str], ...]
    trained: str = "One run of PTA, epoch by epoch."
    """Says whose training is shown."""
    judged: str = "Test"
    """The nodes that the confusion matrix counts: Test or Stopping."""
    watched: str = "stopping nodes"
    """The nodes that the training was judged on, epoch by epoch."""
    explore: Explorable | Unexplorable | None = None
    """All nodes, to be searched and explained in the page."""
    suspects: tuple[Suspect, ...] = ()
    """Labels in doubt, the likeliest to be wrong first."""
    reliability: tuple[ReliabilityCurve, ...] = ()
    """Whether probabilities are right: as they are, and perhaps calibrated."""
    classes: tuple[ClassRow, ...] = ()
    """What is known and told of each class."""


def render_report(report: Report) -> str:
    """Return the page as one HTML text that needs no other file and makes no request."""
    from markupsafe import Markup

    from proptrain.report import parts, plots
    from proptrain.report.explore import Explorable, audited_json

    history = report.history if report.history and report.history.stop_loss else None
    explorable = report.explore if isinstance(report.explore, Explorable) else None
    script = _script() if explorable or report.suspects else None
    return render_template(
        "report.html.j2",
        report=report,
        caption=_caption(report.methods),
        n_epochs=len(history.stop_loss) if history else 0,
        has_gamma=history is not None and any(map(math.isfinite, history.gamma)),
        # The plots escape what they write; everything else is escaped by the template.
        accuracy_svg=Markup(plots.accuracy_plot(report.methods)) if report.methods else None,
        training_svg=(
            Markup(plots.training_plot(history, report.best_epoch, report.watched))
            if history
            else None
        ),
        confusion_svg=(
            None
            if report.confusion is None
            else Markup(plots.confusion_plot(report.confusion, report.class_names))
        ),
        n_drawn_classes=plots.MOST_DRAWN_CLASSES,
        reliability_svg=(
            Markup(parts.reliability_plot(report.reliability)) if report.reliability else None
        ),
        judged_any=any(row.n_held_out for row in report.classes),
        suspects=report.suspects[:MOST_SUSPECTS],
        n_suspect=sum(suspect.is_suspect for suspect in report.suspects),
        n_unjudged=sum(not suspect.is_judged for suspect in report.suspects),
        # These are ours, and JSON that was made to stand in a script.
        script=None if script is None else Markup(script),
        script_hash=None if script is None else _hash_of(script),
        content=Markup(explorable.content) if explorable else None,
        audited=(Markup(audited_json(report.suspects)) if explorable and report.suspects else None),
    )


def _script() -> str:
    """Return all that runs in the page, as one script that leaves no names behind."""
    folder = files("proptrain") / "report" / "scripts"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    return "\n".join(['\n(() => {\n"use strict";', *parts, "})();\n"])


def _hash_of(script: str) -> str:
    """Return the hash by which the page's policy knows the one script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def render_template(name: str, **content: Any) -> str:
    """Return one of our pages with this content, escaped unless it is markup already."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from proptrain.report.svg import clean_lines

    environment = Environment(
        loader=PackageLoader("proptrain", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"percent": _percent, "duration": _duration, "half_width": _half_width}
    return clean_lines(environment.get_template(name).render(**content))


def write_report(report: Report, path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    path = Path(path)
    with whole_file(path, overwrite=overwrite) as temporary:
        temporary.write_text(render_report(report), encoding="utf-8", newline="\n")
    return path


def _percent(share: float, digits: int = 1) -> str:
    """Write a share in per cent, without the sign.

    >>> _percent(0.8314), _percent(math.nan)
    ('83.1', '–')
    """
    return f"{100 * share:.{digits}f}" if math.isfinite(share) else "–"


def _half_width(method: MethodResult) -> str | None:
    """Write half of the interval's width in per cent; None if there is no interval."""
    width = (method.high - method.low) / 2
    return _percent(width) if math.isfinite(width) else None


def _duration(seconds: float) -> str:
    """Write a time so that its first two or three digits are seen.

    >>> [_duration(seconds) for seconds in (0.004, 0.42, 4.25, 42.4, 125, 7_265)]
    ['4 ms', '0.42 s', '4.2 s', '42 s', '2 min 5 s', '2 h 1 min']
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.{2 if seconds < 0.995 else 1 if seconds < 9.95 else 0}f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _caption(methods: tuple[MethodResult, ...]) -> str:
    """Say what the numbers of the table are.

    >>> _caption((MethodResult("PTA", "", (0.8,), 0.8, math.nan, math.nan, 1.0),))
    'Share of the test nodes classified correctly, in one run.'
    """
    counts = sorted({len(method.accuracies) for method in methods})
    if counts in ([], [1]):
        return "Share of the test nodes classified correctly, in one run."
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"Share of the test nodes classified correctly: mean of {runs} runs ± half the width of "
        f"its 95\N{NO-BREAK SPACE}% interval."
    )
