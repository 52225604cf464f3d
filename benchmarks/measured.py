"""What a benchmark has measured: a line of JSON for each case, at once, and a table in a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from proptrain.cli.console import results
from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.system.files import unwritable_is_ours, whole_file
from proptrain.system.json_lines import LineFile, open_lines, read_lines
from proptrain.system.reading import parse_json

Line: TypeAlias = dict[str, Any]
_BEGINNING = b'{"case": '


@contextmanager
def open_cases(path: Path) -> Iterator[tuple[LineFile, list[Line]]]:
    """Open a file for this process alone, and yield it with the lines that it has."""
    with unwritable_is_ours(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_lines(path, partial(_parse, path=path), _BEGINNING) as opened:
        yield opened


def read_cases(path: Path, command: str) -> list[Line]:
    """Read what a command has measured; a last line that was cut off is left out."""
    what = f"a file that `{command}` has written"
    return read_lines(path, partial(_parse, path=path), _BEGINNING, what)


def find_case(lines: Iterable[Line], case: Mapping[str, Any]) -> Line | None:
    """Return the last line about a case, if there is one."""
    found = [line for line in lines if line["case"] == case]
    return found[-1] if found else None


def _parse(content: bytes, path: Path) -> list[Line]:
    lines = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            told = parse_json(line)
            dict(told["case"])
        except (ValueError, TypeError, KeyError) as error:
            raise FileFormatError(
                f"Line {number} of {path} is not a case that a benchmark has measured. Remove the "
                "line, or name another file."
            ) from error
        lines.append(told)
    return lines


def tell(text: str, name: str, page: Path | None) -> None:
    """Print a text, or put it into a page between the two marks that bear its name."""
    if page is None:
        results.file.write(text + "\n")  # not wrapped: a page will do that
        return
    content = between_marks(page.read_text(encoding="utf-8"), name, text)
    with whole_file(page, overwrite=True) as temporary:
        temporary.write_text(content, encoding="utf-8")


def between_marks(page: str, name: str, text: str) -> str:
    r"""Return a page with a text between its two marks, in place of what is there.

    >>> between_marks("a <!-- sizes --> old <!-- end of sizes --> b", "sizes", "new")
    'a <!-- sizes -->\n\nnew\n\n<!-- end of sizes --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, found_too, after = rest.partition(end)
    if not (found and found_too):
        raise InvalidInputError(f"The page must have a line {begin}, and below it a line {end}.")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
