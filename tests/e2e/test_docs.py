"""Every code block in the README and the docs runs, and prints what it says it prints.

The blocks of a page run in order, each in a folder with the files that the page takes for granted;
Python blocks share a namespace. ``print(…)  # text``, or with the comment in the lines below it,
promises that text, numbers to 3 %. Of a command that takes too long for a test, or needs what none
has, names and options must be there.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
import shutil
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from benchmarks import __main__ as benchmarks
from benchmarks.audit import __main__ as audit
from benchmarks.cost_model import __main__ as cost_model
from benchmarks.from_disk import __main__ as from_disk
from benchmarks.ray_cost import __main__ as ray_cost
from reliability import __main__ as reliability
from reliability import hell
from typer.main import get_command

from proptrain import PPR, PTAClassifier, cli, graph_from_edges
from proptrain.experiments.protocol import Run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
COMMANDS = ("proptrain ", "make ", "pip ", "python ", "kubectl ")
BENCH = "takes minutes to hours; tests/unit/test_bench.py and test_benchmarks.py run small cases"
LARGE = "needs an hour; tests/unit/test_from_disk_benchmark.py and others run small sizes"
RAY = "needs machines; see test_ray.py"
KUBERNETES = (
    "needs Kubernetes, and was never run; test_ray.py fits at s3:// from Python, on two nodes"
)
NOT_RUN = {
    ("README.md", "make "): "sets up an environment; test_cli.py runs `proptrain demo`",
    ("CONTRIBUTING.md", "make "): "changes the sources, and runs all tests",
    ("deviations.md", "proptrain data fetch"): "network: see test_catalog.py",
    ("audit.md", "pip install"): "installs; `make package` does, into an empty environment",
    (
        "audit.md",
        "python -m benchmarks.audit --out",
    ): "hours; see tests/unit/test_audit_benchmark.py",
    ("performance.md", "proptrain bench  "): BENCH,
    ("performance.md", "proptrain bench step"): BENCH,
    ("performance.md", "make bench"): BENCH,
    ("performance.md", "python -m benchmarks "): BENCH,
    ("index.md", "pip install"): "installs; `make package` does, into an empty environment",
    ("large-graphs.md", "pip install"): RAY,
    ("large-graphs.md", "ray start"): RAY,
    ("large-graphs.md", "proptrain graph build edges-*.parquet --out /shared"): RAY,
    ("large-graphs.md", "proptrain fit --engine ray"): RAY,
    ("large-graphs.md", "from proptrain.large.on_ray"): "needs a cluster; see test_ray.py",
    ("large-graphs.md", "aws s3 cp"): "needs a store far away",
    ("large-graphs.md", "python -c"): "needs a store far away",
    ("large-graphs.md", "python -m benchmarks.from_disk work/"): LARGE,
    ("large-graphs.md", "python -m benchmarks.ray_cost work/"): LARGE,
    ("large-graphs.md", "kubectl "): KUBERNETES,
    ("large-graphs.md", "ray job submit"): KUBERNETES,
}
"""How lines of shell begin, and blocks of Python, that only have to name what is there."""
PICTURES = {
    ("README.md", "  labels ──▶ 1. propagate"),
    ("README.md", "edges.csv          nodes.csv"),
}
"""Drawings and tables of letters; every other block says its language or begins with a command."""
N_NODES = 240
RESULTS = {
    "audit.md": "audit",
    "large-graphs.md": "large",
    "performance.md": "performance",
    "reliability.md": "reliability",
}
MODULES = {
    "benchmarks": benchmarks.app,
    "benchmarks.audit": audit.app,
    "benchmarks.cost_model": cost_model.app,
    "benchmarks.from_disk": from_disk.app,
    "benchmarks.ray_cost": ray_cost.app,
    "reliability": reliability.app,
    "reliability.hell": hell.app,
}
"""What is run as python -m NAME."""


def kind_of(block):
    """What a block holds; one without a name is shell if it begins with a command."""
    name, code = block
    is_command = code.startswith(COMMANDS)
    return name or ("sh" if is_command else "")


def called(page):
    """The name of a page; of results, all of which are called README.md, with their folder."""
    return "/".join(page.parts[-3:]) if "results" in page.parts else page.name


def is_picture(page, code):
    return any(called(page) == name and code.startswith(start) for name, start in PICTURES)


def blocks_of(page):
    return [(kind_of(block), block[1]) for block in BLOCK.findall(page.read_text(encoding="utf-8"))]


def is_run(page, code):
    return not any(called(page) == name and code.startswith(start) for name, start in NOT_RUN)


def lines_of(code):
    """The commands of a block of shell, each in a line."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]


# --- what a page takes for granted --------------------------------------------------------------


def write_files(folder):
    """Papers of three topics: tables, edge lists, arrays."""
    random = np.random.RandomState(0)
    topics = np.arange(N_NODES) % 3
    pairs = np.array([(i, (i + 3) % N_NODES) for i in range(N_NODES)] + [(0, 1), (1, 2)])
    ids = np.array([f"p{number + 1}" for number in range(N_NODES)])
    names = np.array(["graphs", "pictures", "speech"])
    known = np.arange(N_NODES) < 210
    nodes = pd.DataFrame(
        {
            "id": ids,
            "year": 2000 + random.randint(20, size=N_NODES),
            "venue": np.array(["WWW", "KDD", "ICML"])[topics],
            "title": [f"on {names[topic]} and more" for topic in topics],
            "topic": np.where(known, names[topics], ""),
        }
    )
    nodes.to_csv(folder / "nodes.csv", index=False)
    nodes[:3].assign(id=["n1", "n2", "n3"]).to_csv(folder / "new.csv", index=False)
    edges = pd.DataFrame({"source": ids[pairs[:, 0]], "target": ids[pairs[:, 1]]})
    edges.to_csv(folder / "edges.csv", index=False)
    new_edges = pd.DataFrame({"source": ["n1", "n2", "n3"], "target": ["p4", "p5", "n1"]})
    new_edges.to_csv(folder / "new_edges.csv", index=False)
    numbered = pd.DataFrame(pairs, columns=["source", "target"])
    numbered.to_parquet(folder / "edges.parquet")
    for part, rows in enumerate(np.array_split(np.arange(len(pairs)), 2)):
        numbered.iloc[rows].to_parquet(folder / f"edges-{part}.parquet")
    y = np.where(known, topics, -1)
    features = np.float32(random.rand(N_NODES, 8) + 2 * np.eye(3)[topics] @ np.eye(3, 8))
    np.save(folder / "features.npy", features)
    np.save(folder / "labels.npy", y)
    return {"X": features, "y": y, "graph": graph_from_edges(pairs, N_NODES)}


def prepared(page):
    """Write the files that a page speaks of; returns the names that its Python blocks use."""
    names = write_files(Path())
    if page.name == "explain.md":
        tables = "--edges edges.csv --nodes nodes.csv --label topic"
        run_shell(f"proptrain fit {tables} --out model/ --seed 3")  # p3 is no stopping node
        run_shell(f"proptrain audit {tables} --out audit.csv")
    if page.name in RESULTS:  # which a command of the page writes into a copy of it
        place = Path("docs", "results", RESULTS[page.name])
        shutil.copytree(ROOT / place, place)
        shutil.copy(page, "docs")
    if page.name == "reliability.md":  # what is there is not done again
        shutil.copy("docs/results/reliability/hell.jsonl", "hell.jsonl")
    Path("reproduction").mkdir()
    run = Run("cora", "PTA", 0, 0, 0.8, 0.8, 10, 5, 1.0).to_json()
    Path("reproduction", "runs.jsonl").write_text(json.dumps(run) + "\n")
    clf = PTAClassifier(max_epochs=20, random_state=0)
    if page.name in ("audit.md", "explain.md"):
        clf.fit(names["X"], names["y"], graph=names["graph"], stopping=[0, 1, 2])
    signal = np.eye(N_NODES, 12, dtype=np.float32)
    return names | {
        "np": np,
        "PPR": PPR,
        "clf": clf,
        "node": 230,
        "signal": signal,
        "features": names["X"],
    }


# --- running ------------------------------------------------------------------------------------


def run_shell(code, is_run=lambda _: True):
    """Run the commands of a block in this process: a process for each takes seconds to start."""
    for line in lines_of(code):
        words = shlex.split(line, comments=True)
        if not is_run(line):
            check_there(words)
            continue
        main = cli.main
        if words[:2] == ["python", "-m"]:
            assert words[2] in MODULES, f"cannot run: {line}"
            own = MODULES[words[2]]
            main, words = partial(cli.main, own, " ".join(words[:3])), words[2:]
        else:
            assert words[0] == "proptrain", f"cannot run: {line}"
            words = shortened(words)
        found = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words]
        sys.argv = [word for several in found for word in several]
        with pytest.raises(SystemExit) as left, redirected():
            main()
        assert not left.value.code, line


def shortened(words):
    """A command that takes seconds: one run, or the pages of what the folder has of cora."""
    if words[1] in ("evaluate", "demo") and "--runs" not in words:
        return [*words, "--runs", "1"]  # twenty take a minute
    if words[1] == "reproduce":
        asked = [place for place, word in enumerate(words) if word == "--dataset"]
        kept = [word for place, word in enumerate(words) if not {place, place - 1} & set(asked)]
        return [*kept, "--dataset", "cora", "--as-is"]
    return words


def check_there(words):
    """Check that what a command names is there, so far as it is ours."""
    if "--" in words:  # what a cluster shall run
        words = words[words.index("--") + 1 :]
    match words:
        case ["proptrain", *rest]:
            parse(cli.app, rest)
        case ["python", "-m", name, *rest]:
            parse(MODULES[name], rest)
        case ["make", target]:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
        case ["pip", "install", "-c", "constraints.txt", what]:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            extra = what.removeprefix(".").strip("[]")
            assert extra in ("", *project["project"]["optional-dependencies"])
        case ["kubectl", "apply", "-f", name]:
            assert (ROOT / name).exists()
        case _:
            assert words[0] in ("aws", "kubectl", "python", "ray"), words


def parse(app, words):
    """Raise unless a command line has such a command, with such arguments and options."""
    command = get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context("a command", words)


@contextlib.contextmanager
def redirected():
    """Do what a shell does with > FILE at the end of a command; the command sees nothing of it."""
    if ">" not in sys.argv:
        yield
        return
    *sys.argv, _, name = sys.argv
    with Path(name).open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        yield


def run_python(code, names, place):
    """Run a block; what a line prints must be what the comment behind it says."""
    printed = {}

    def note(*values):
        printed[sys._getframe(1).f_lineno] = " ".join(map(str, values))

    names["print"] = note
    exec(compile(code, place, "exec"), names)
    for number, promised in promises(code).items():
        assert_same_text(printed[number], promised)


def promises(code):
    """What each print of a block shall print, by its line; those without a comment are left out."""
    lines, found = code.splitlines(), {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print":
            last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
            told = [last.strip().removeprefix("#").strip()]
            for line in lines[node.end_lineno :]:
                if not line.startswith("#"):
                    break
                told.append(line.removeprefix("#").strip())
            found[node.lineno] = " ".join(filter(None, told))
    return {number: text for number, text in found.items() if text}


def assert_same_text(told, promised):
    number = r"\d[\d,]*\.?\d*"
    assert re.sub(number, "#", told) == re.sub(number, "#", promised)
    numbers = [
        [float(n.replace(",", "")) for n in re.findall(number, text)] for text in (told, promised)
    ]
    # Another make of CPU rounds the softmax otherwise, and a run may end some nodes away.
    assert numbers[0] == pytest.approx(numbers[1], rel=0.03)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", PAGES, ids=called)
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    blocks = blocks_of(page)
    makes_its_own = page.name == "your-graph.md"
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.chdir(given)
    names = prepared(page) if blocks and not makes_its_own else {}
    for place, (kind, code) in enumerate(blocks):
        if not makes_its_own:
            monkeypatch.chdir(shutil.copytree(given, tmp_path / str(place)))
        if kind == "sh":
            run_shell(code, partial(is_run, page))
        elif kind == "python" and not is_run(page, code):
            ast.parse(code)
        elif kind == "python":
            run_python(code, names, f"{page.name}, block {place}")
        else:
            assert kind == "text" or is_picture(page, code), (
                f"a block of {page.name} must be python, sh, text or in PICTURES; it is {kind!r} "
                f"and begins with {code[:40]!r}"
            )


def test_what_is_not_run_is_there_and_has_a_reason():
    for (name, start), reason in NOT_RUN.items():
        (page,) = [page for page in PAGES if called(page) == name]
        blocks = [lines_of(code) if kind == "sh" else [code] for kind, code in blocks_of(page)]
        assert any(one.startswith(start) for several in blocks for one in several), (name, start)
        assert len(reason) > 10
    for name, start in PICTURES:
        (page,) = [page for page in PAGES if called(page) == name]
        assert ("", start) in [(kind, code[: len(start)]) for kind, code in blocks_of(page)]


def test_nobody_is_sent_to_an_index_that_does_not_have_the_package():
    """It is installed from a checkout; once it is published, this test may go."""
    told = [*PAGES, *(path for path in (ROOT / "examples").iterdir() if path.is_file())]
    told += [*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    wrong = re.compile(r"pip\"?\s+\"?install[^\n.]*proptrain|proptrain\[")
    assert [path.name for path in told if wrong.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "code",
    [
        'print(f"{40 + 2} found")  # 52 found',
        'print(40 + 2, "found")  # 52 found',
        "print(True)  # False",
        "for one in [42]:\n    print(one)  # 52",
        "print(\n    42,\n)  # 52",
        'print("a long line")\n# a long\n# word',
    ],
)
def test_a_print_that_breaks_its_promise_is_found(code):
    with pytest.raises(AssertionError):
        run_python(code, {}, "here")
    run_python('print("a", 42)  # a 42\nprint("no promise")\nx = 1  # one', {}, "here")


def test_a_block_that_says_nothing_of_itself_fails(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```\nhelm install proptrain\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="begins with 'helm install"):
        test_every_block_runs(page, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "proptrain reproduced table5",
        "proptrain reproduce table5 --methods PTA",
        "proptrain fit --edges edges.csv",
        "python -m benchmarks.audit --seeds none",
        "make nothing",
        "pip install -c constraints.txt '.[nothing]'",
        "ray job submit -- proptrain fit --nothing",
        "helm install proptrain",
    ],
)
def test_a_command_that_is_not_run_must_name_what_is_there(line):
    usage_error = typer.BadParameter.__base__  # wherever this release of typer has it
    with pytest.raises((AssertionError, KeyError, usage_error)):
        run_shell(line, lambda _: False)
