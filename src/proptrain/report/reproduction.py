"""What a reproduction came to: a Markdown page, an HTML page and the figures as files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from proptrain.data.dataset import Dataset
from proptrain.experiments.claims import Claim, check_claims
from proptrain.experiments.findings import Outcome
from proptrain.experiments.grid import Table, counted, markdown
from proptrain.experiments.protocol import Run
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import FEWEST
from proptrain.experiments.store import FILE_NAME
from proptrain.experiments.tables import make_table
from proptrain.experiments.tables.accuracy import DEVIATIONS
from proptrain.experiments.tasks import list_tasks, task_of
from proptrain.report.figures import caption_of, make_figure
from proptrain.report.page import render_template
from proptrain.report.svg import clean_lines, standalone_svg
from proptrain.system.files import unwritable_is_ours, whole_file

_TITLE = "The paper’s tables and figures, made again"
_BEYOND_TITLE = "Beyond the paper: PTA+ beside what the paper has"
_CLAIMS_TITLE = "What the paper claims"
_BEYOND_CLAIMS_TITLE = "What we claim"
_MADE_TITLE = "How this was made"
_FIGURES = "figures"
_TO_DEVIATIONS = "../../deviations.md"
"""The way from docs/results/paper, where our own results are kept."""


@dataclass(frozen=True)
class _Part:
    """A table of the paper, or a figure with the numbers behind it."""

    name: str
    table: Table
    figure: str | None
    """As inline SVG."""
    caption: str


@dataclass(frozen=True)
class _Words:
    """Part of a sentence, and where it links to."""

    text: str
    link: str | None = None


@dataclass(frozen=True)
class _Reproduction:
    """All that both pages tell."""

    parts: tuple[_Part, ...]
    claims: tuple[Claim, ...]
    n_done: int
    n_missing: int
    versions: Mapping[str, str]
    command: str
    deviations: str | None
    """The way from the folder to the page about our choices, if it is there."""
    is_beyond: bool
    """Whether none of it is the paper's."""

    @property
    def title(self) -> str:
        return _BEYOND_TITLE if self.is_beyond else _TITLE

    @property
    def lede(self) -> str:
        missing = f"{self.n_missing:,} missing" if self.n_missing else "none missing"
        done = f"{counted(self.n_done, 'run')} done, {missing}."
        if self.is_beyond:
            return f"What PTA+ adds, measured on the paper's data sets and by its protocol: {done}"
        return (
            "“On the Equivalence of Decoupled Graph Convolution Network and Label Propagation” "
            f"(WWW 2021), its numbers beside ours: {done}"
        )

    @property
    def claims_title(self) -> str:
        return _BEYOND_CLAIMS_TITLE if self.is_beyond else _CLAIMS_TITLE

    @property
    def claims_lede(self) -> str:
        outcomes = [claim.outcome for claim in self.claims]
        counts = ", ".join(f"{outcomes.count(one)} × {one}" for one in reversed(Outcome))
        behind = (
            ", and one of not being clearly behind holds unless the interval lies below zero"
            if any("clearly behind" in claim.statement for claim in self.claims)
            else ""
        )
        return (
            f"The outcomes of {counted(len(outcomes), 'claim')}: {counts}. Each claim says of some "
            "number that it is positive. It holds if the number’s 95 % interval lies above zero on "
            "every data set, it does not hold if the interval lies below zero on one, and it is "
            "not shown if the interval contains zero; a claim that names p is judged by the "
            f"paper’s paired t-test over the runs instead{behind}. Runs on the same split are not "
            "independent: "
            "the mean is over splits, each with the mean of its runs, and the interval comes from "
            f"resampling splits; fewer than {FEWEST} splits are not judged. The intervals are not "
            "corrected for how many of them there are."
        )

    @property
    def made_words(self) -> tuple[_Words, ...]:
        """Where the raw results are, and the choices behind them."""
        return (
            _Words("Every run is a line of "),
            _Words(FILE_NAME, FILE_NAME),
            _Words(". How we read what the paper leaves open is in "),
            _Words(DEVIATIONS, self.deviations),
            _Words("." if self.deviations else " of the project's repository."),
        )


def write_reproduction(
    experiments: Iterable[Experiment],
    runs: Iterable[Run],
    folder: str | os.PathLike[str],
    *,
    versions: Mapping[str, str],
    command: str,
    datasets: Mapping[str, Dataset] = MappingProxyType({}),
) -> list[Path]:
    """Write README.md, report.html and the figures, each whole, from whatever has run.

    Data sets are needed for their statistics and for the noise their graphs have by themselves.
    """
    folder = Path(folder)
    deviations = _TO_DEVIATIONS if (folder / _TO_DEVIATIONS).is_file() else None
    told = _collect(list(experiments), list(runs), versions, command, datasets, deviations)
    contents = {"README.md": _markdown_page(told), "report.html": _html_page(told)}
    contents |= {
        _figure_path(part): standalone_svg(part.figure) for part in told.parts if part.figure
    }
    with unwritable_is_ours(folder):
        for name in contents:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return [_write(folder / name, content) for name, content in contents.items()]


def _collect(
    experiments: Sequence[Experiment],
    runs: Sequence[Run],
    versions: Mapping[str, str],
    command: str,
    datasets: Mapping[str, Dataset],
    deviations: str | None,
) -> _Reproduction:
    wanted = set(list_tasks(experiments))
    n_done = len(wanted & {task_of(run) for run in runs})
    return _Reproduction(
        parts=tuple(_part(experiment, runs, datasets) for experiment in experiments),
        claims=check_claims(experiments, runs),
        n_done=n_done,
        n_missing=len(wanted) - n_done,
        versions=versions,
        command=command,
        deviations=deviations,
        is_beyond=all(experiment.beyond for experiment in experiments),
    )


def _part(experiment: Experiment, runs: Sequence[Run], datasets: Mapping[str, Dataset]) -> _Part:
    table = make_table(experiment, runs, datasets)
    if experiment.kind not in ("curve", "box"):
        return _Part(experiment.name, table, None, "")
    figure = make_figure(experiment, runs, datasets)
    return _Part(experiment.name, table, figure, caption_of(experiment))


def _write(path: Path, content: str) -> Path:
    with whole_file(path, overwrite=True) as temporary:
        temporary.write_text(content, encoding="utf-8", newline="\n")
    return path


def _figure_path(part: _Part) -> str:
    return f"{_FIGURES}/{part.name}.svg"


def _html_page(told: _Reproduction) -> str:
    from markupsafe import Markup

    parts = [
        # The figures escape what they write; everything else is escaped by the template.
        {**vars(part), "figure": None if part.figure is None else Markup(part.figure)}
        for part in told.parts
    ]
    return render_template(
        "reproduction.html.j2",
        title=told.title,
        lede=told.lede,
        claims_title=told.claims_title,
        claims_lede=told.claims_lede,
        claims=told.claims,
        parts=parts,
        made_title=_MADE_TITLE,
        made_words=told.made_words,
        command=told.command,
        versions=told.versions,
    )


def _markdown_page(told: _Reproduction) -> str:
    blocks = [f"# {told.title}", markdown(told.lede)]
    if told.claims:
        claims = "\n".join(map(_markdown_claim, told.claims))
        blocks += [f"## {told.claims_title}", markdown(told.claims_lede), claims]
    for part in told.parts:
        blocks += _markdown_part(part)
    made = "".join(map(_markdown_words, told.made_words))
    blocks += [f"## {_MADE_TITLE}", _fenced(told.command), made]
    blocks += [", ".join(f"{markdown(name)} {markdown(v)}" for name, v in told.versions.items())]
    return clean_lines("\n\n".join(block for block in blocks if block)) + "\n"


def _markdown_words(words: _Words) -> str:
    if words.link:
        return f"[{markdown(words.text)}]({words.link})"
    return words.text  # ours, and with spaces at its ends that `markdown` would take away


def _markdown_claim(claim: Claim) -> str:
    verdict = claim.verdict.capitalize()
    return f"- **{markdown(claim.statement)}** *{verdict}.*  \n  {markdown(claim.evidence)}"


def _markdown_part(part: _Part) -> list[str]:
    title = markdown(part.table.title)
    blocks = [f"## {title}"]
    if part.figure:
        blocks += [f"![{title}]({_figure_path(part)})", markdown(part.caption)]
    return [*blocks, part.table.to_markdown()]


def _fenced(code: str) -> str:
    """Return code between fences that it cannot close by itself."""
    longest = max((len(ticks) for ticks in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{code}\n{fence}"
