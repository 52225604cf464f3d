"""proptrain data: which named data sets there are, and whether their files are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proptrain.cli.console import JsonOption, print_json, print_table, say

app = typer.Typer(no_args_is_help=True, help="List, check and fetch the named data sets.")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="PROPTRAIN_DATA", help="Folder with the paper's data sets.", show_envvar=True
    ),
]
NamesArgument = Annotated[
    list[str] | None, typer.Argument(help="Data sets; all of the paper's if none is named.")
]


@app.command("list")
def list_sets(data_dir: DataDirOption = None, json: JsonOption = False) -> None:
    """List the data sets that can be used by name, and where their files are.

    Example: proptrain data list --data-dir data/
    """
    from proptrain.data.catalog import CATALOG, find_file

    found = {name: find_file(name, data_dir) for name in CATALOG}
    if json:
        print_json({name: str(path) if path else None for name, path in found.items()})
        return
    rows = [
        [
            name,
            *(f"{n:,}" for n in (e.n_nodes, e.n_edges, e.n_features, e.n_classes)),
            _place(name, found[name]),
        ]
        for name, e in CATALOG.items()
    ]
    print_table("data sets", ["name", "nodes", "edges", "features", "classes", "file"], rows)


@app.command()
def check(
    names: NamesArgument = None, data_dir: DataDirOption = None, json: JsonOption = False
) -> None:
    """Check the files' hashes, load the sets, and say how large they are.

    Example: proptrain data check cora_ml citeseer --data-dir data/
    """
    from proptrain.data.catalog import CATALOG, load_dataset

    sizes = {}
    for name in names or [name for name in CATALOG if name != "cora"]:
        dataset = load_dataset(name, data_dir, download=False)
        sizes[name] = {"nodes": dataset.n_nodes, "edges": dataset.graph.n_edges}
        if not json:
            say(f"{name}: right ({dataset.n_nodes:,} nodes, {dataset.graph.n_edges:,} edges)")
    if json:
        print_json(sizes)


@app.command()
def fetch(
    names: NamesArgument = None, data_dir: DataDirOption = None, json: JsonOption = False
) -> None:
    """Download the paper's data sets, with an exact check of what arrives.

    Example: proptrain data fetch cora_ml --data-dir data/
    """
    from proptrain.data.catalog import CATALOG, cache_folder, fetch

    folder = data_dir or cache_folder()
    paths = {}
    for name in names or [name for name in CATALOG if name != "cora"]:
        paths[name] = str(fetch(name, folder, show_progress=not json))
        if not json:
            say(f"{name}: {paths[name]}")
    if json:
        print_json(paths)


def _place(name: str, path: Path | None) -> str:
    if name == "cora":
        return "in the package"
    return str(path) if path else f"missing: proptrain data fetch {name}"
