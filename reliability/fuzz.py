"""Thousands of spoilt files for every reader: python -m reliability.fuzz --files 20000 --out FILE.

Each is written to a folder, read and used, in a process that may have no more memory than
`MEMORY` beside what Python and its libraries take. It must come to a result or to one of our
errors, and to that soon. All else is broken; --keep has a folder for such files. A number makes
the same file again, but for models, whose encoder is never stored twice in the same bytes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from random import Random
from typing import Annotated, TypeAlias
from unittest.mock import patch

import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.errors import ProptrainError
from proptrain.system.json_lines import open_lines
from proptrain.system.memory import memory_told
from reliability.mutations import spoil_files
from reliability.outcomes import BEGINNING, add_outcome, chosen, ready, tried_in
from reliability.readers import Reader, all_readers

COMMAND = "python -m reliability.fuzz"
BATCH = 100
"""Files of a line in the results."""
MEMORY = 300_000_000
"""Bytes that reading a file of a few thousand may take."""
_ROOM = 1_000_000_000
"""Bytes of address space beyond what the process has at the start: past that it gets no more."""
SECONDS = 10.0
"""Of processor time for a file."""
_PATIENCE = 120.0
"""Seconds after which a process that says nothing is ended; the machine may be busy."""
Make: TypeAlias = Callable[[Reader, int, int], dict[str, bytes]]
"""Makes the files of a number."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    files: Annotated[
        int, typer.Option(min=1, help="Spoilt files, divided among the readers.")
    ] = 20_000,
    reader: Annotated[list[str] | None, typer.Option(help="Only readers of these names.")] = None,
    seed: Annotated[int, typer.Option(help="Of how they are spoilt.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Folder for files that broke it.")] = None,
) -> None:
    """Spoil files, read them, and count what comes of it."""
    with tempfile.TemporaryDirectory() as place:
        readers = {one.name: one for one in all_readers(Path(place))}
        names = chosen(reader, readers)
        n_each = -(-files // len(names))
        with open_lines(ready(out), tried_in, BEGINNING) as (file, before):
            for name in names:
                one, fault = readers[name], f"spoilt file: {name}"
                # Asked for alone, a reader gets all files: so the command repeats its own number,
                # however many readers there will be.
                command = f'{COMMAND} --reader "{name}" --files {n_each} --seed {seed} --out FILE'
                if before[fault] >= n_each:
                    say(f"{fault}: in {out} already")
                for first in range(before[fault], n_each, BATCH):
                    numbers = range(first, min(n_each, first + BATCH))
                    outcomes = list(read_spoilt(one, numbers, seed))
                    broken = {n: o for n, o in zip(numbers, outcomes, strict=True) if _is_bad(o)}
                    for number in broken if keep else ():
                        assert keep is not None
                        write(keep / f"{one.name} {number}", spoilt(one, number, seed))
                    told = [o if o not in broken.values() else "broken" for o in outcomes]
                    add_outcome(file, fault, told, command, first=first, broken=broken)
                    say(f"{one.name} {numbers}: {dict(Counter(outcomes))}")


def _is_bad(outcome: str) -> bool:
    return outcome.startswith("broken")


def read_spoilt(
    reader: Reader, numbers: range, seed: int, make: Make | None = None
) -> Iterator[str]:
    """Yield what came of each spoilt file: "result", the name of our error, or what broke."""
    left = list(numbers)
    while left:
        process, pipe = _start(reader, left, seed, make or spoilt)
        while left:
            if not pipe.poll(_PATIENCE):
                process.kill()
                outcome = f"broken: no end after {_PATIENCE:.0f} s"
            else:
                try:
                    outcome = pipe.recv()
                except EOFError:
                    process.join()
                    outcome = f"broken: the process died with exit code {process.exitcode}"
            left.pop(0)
            yield outcome
            if outcome.startswith(("broken: no end", "broken: the process died")):
                break
        process.join()
        pipe.close()


def _start(
    reader: Reader, numbers: list[int], seed: int, make: Make
) -> tuple[ForkProcess, Connection]:
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    given = (reader, numbers, seed, make, theirs)
    process = context.Process(target=_serve, args=given, daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _serve(reader: Reader, numbers: list[int], seed: int, make: Make, pipe: Connection) -> None:
    import resource

    warnings.simplefilter("ignore")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    limit = (memory_told("VmSize") or 0) + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Nobody pulls the plug here, and to wait for the disk is most of the time of a build.
    with tempfile.TemporaryDirectory() as place, patch.object(os, "fsync"):
        for number in numbers:
            folder = Path(place) / "files"
            write(folder, make(reader, number, seed))
            pipe.send(_outcome(reader, folder))
            shutil.rmtree(folder)


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files to a new folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def spoilt(reader: Reader, number: int, seed: int) -> dict[str, bytes]:
    """Return the files of a number, some of them with their checksums computed anew."""
    random = Random(f"{seed} {reader.name} {number}")
    files = spoil_files(reader.files, random)
    if random.random() < 0.7:
        try:
            return reader.sign(files)
        except Exception:  # what is no description any more cannot be signed
            return files
    return files


def _outcome(reader: Reader, folder: Path) -> str:
    """Read and use the files of a folder, and tell what came of it."""
    before = _forget_peak()
    start = time.process_time()
    try:
        reader.read(folder)
        outcome = "result"
    except ProptrainError as error:
        outcome = type(error).__name__
        if _comes_of_memory(error):
            outcome = f"broken: {outcome} because memory ran out"
    except BaseException as error:
        outcome = f"broken: {_told(error)}"
    taken = (memory_told("VmHWM") or 0) - before
    if taken > MEMORY:
        return f"broken: {taken:,} bytes of memory"
    if time.process_time() - start > SECONDS:
        return f"broken: {time.process_time() - start:.0f} s of processor time"
    return outcome


def _forget_peak() -> int:
    """Have the system begin a new peak of memory; returns what there is now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return memory_told("VmHWM") or 0
    return memory_told("VmRSS") or 0


def _comes_of_memory(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _told(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)
    ours = [one for one in where if "proptrain" in one.filename] or where
    text = " ".join(str(error).split())[:120]
    return f"{type(error).__name__} in {Path(ours[-1].filename).name}:{ours[-1].lineno}: {text}"


if __name__ == "__main__":
    cli.main(app, COMMAND)
