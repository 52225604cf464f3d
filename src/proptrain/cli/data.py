"""proptrain data: which named data sets there are, and whether their files are right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proptrain.cli.console import JsonOption, print_json, print_table, say
from proptrain.errors import FileFormatError

if TYPE_CHECKING:
    from proptrain.data.catalog import CatalogEntry
    from proptrain.data.dataset import Dataset

app = typer.Typer(no_args_is_help=True, help="List, check and fetch the named data sets.")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="PROPTRAIN_DATA", help="Folder with the paper's data sets.", show_envvar=True
    ),
]
CheckArgument = Annotated[
    list[str] | None, typer.Argument(help="Data sets; cora and the paper's if none is named.")
]
FetchArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Data sets; all of the paper's if none is named (cora is here already)."),
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
            "in the package" if e.shipped else _place(name, found[name]),
        ]
        for name, e in CATALOG.items()
    ]
    print_table("data sets", ["name", "nodes", "edges", "features", "classes", "file"], rows)


@app.command()
def check(
    names: CheckArgument = None, data_dir: DataDirOption = None, json: JsonOption = False
) -> None:
    """Check the files' hashes, load the sets, and say how large they are.

    Example: proptrain data check cora_ml citeseer --data-dir data/
    """
    from proptrain.data.catalog import CATALOG, find_entry, load_dataset

    sizes = {}
    for name in names or list(CATALOG):
        dataset = load_dataset(name, data_dir, download=False)
        _check_sizes(dataset, find_entry(name))
        sizes[name] = {"nodes": dataset.n_nodes, "edges": dataset.graph.n_edges}
        if not json:
            say(f"{name}: right ({dataset.n_nodes:,} nodes, {dataset.graph.n_edges:,} edges)")
    if json:
        print_json(sizes)


@app.command()
def fetch(
    names: FetchArgument = None, data_dir: DataDirOption = None, json: JsonOption = False
) -> None:
    """Download the paper's data sets, with an exact check of what arrives.

    Example: proptrain data fetch cora_ml --data-dir data/
    """
    from proptrain.data.catalog import CATALOG, cache_folder, fetch

    folder = data_dir or cache_folder()
    paths = {}
    for name in names or [name for name, entry in CATALOG.items() if not entry.shipped]:
        paths[name] = str(fetch(name, folder, show_progress=not json))
        if not json:
            say(f"{name}: {paths[name]}")
    if json:
        print_json(paths)


def _check_sizes(dataset: Dataset, entry: CatalogEntry) -> None:
    found = (dataset.n_nodes, dataset.graph.n_edges, dataset.features.shape[1], dataset.n_classes)
    expected = (entry.n_nodes, entry.n_edges, entry.n_features, entry.n_classes)
    if found != expected:
        raise FileFormatError(
            f"{entry.name} must have {expected} nodes, edges, features and classes, got {found}. "
            "The file is right, so this is an error in proptrain: please report it."
        )


def _place(name: str, path: Path | None) -> str:
    return str(path) if path else f"missing: proptrain data fetch {name}"
