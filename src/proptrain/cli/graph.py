"""proptrain graph: graphs in a folder, for those that do not fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proptrain.cli.console import (
    ForceOption,
    JsonOption,
    OverwriteOption,
    print_json,
    print_table,
    progress,
    say,
)
from proptrain.cli.source import (
    IdOption,
    SourceOption,
    TargetOption,
    WeightOption,
    refuse_address,
)
from proptrain.cli.workload import tell_limit, tell_seconds
from proptrain.system.files import kind_at
from proptrain.text import command_line

if TYPE_CHECKING:
    from proptrain.data.disk import DiskGraph

app = typer.Typer(
    no_args_is_help=True, help="Build, check and make up graphs on disk, larger than memory."
)

EdgesArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Edge lists: .csv, .tsv, either with .gz, or .parquet; two columns of node ids, and a "
        "first line with their names."
    ),
]
FolderArgument = Annotated[Path, typer.Argument(help="Folder that `proptrain graph build` wrote.")]
OutOption = Annotated[Path, typer.Option(help="Folder to write the graph to.")]
MemoryOption = Annotated[
    str, typer.Option(help="What the process may have in memory at its peak, such as 2GB or 500MB.")
]
NodesOption = Annotated[
    Path | None,
    typer.Option(help="Table with all nodes' ids, in the order that they shall have."),
]
CountOption = Annotated[
    int | None, typer.Option("--n-nodes", min=1, help="Ids are numbers from 0 below this.")
]
RenumberOption = Annotated[
    bool,
    typer.Option(
        "--renumber",
        help="Have neighbours lie together on disk and in memory: by communities if the graph "
        "fits into the memory once, else hubs first. Nodes keep their numbers.",
    ),
]
BlocksOption = Annotated[
    int | None, typer.Option(min=1, help="Number of blocks. \\[default: 16 million entries each]")
]


@app.command()
def build(
    edges: EdgesArgument,
    out: OutOption,
    memory: MemoryOption = "2GB",
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    nodes: NodesOption = None,
    id_column: IdOption = None,
    n_nodes: CountOption = None,
    renumber: RenumberOption = False,
    blocks: BlocksOption = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Make a graph folder from edge lists of any size, sorted on disk within the memory given.

    Missing directions are added, duplicates merged (the largest weight stays), self-loops dropped.
    Stop it whenever you like, or lose the machine: the same command goes on where it was. Without
    --nodes or --n-nodes the nodes are those that edges name, in the order of their ids. With
    --overwrite an old graph stays until the new one is whole.

    Example: proptrain graph build edges-*.parquet --out graph/ --memory 2GB
    """
    from proptrain.data.disk_build import Nodes, build_graph, build_seconds
    from proptrain.data.edge_files import open_edges
    from proptrain.data.manifest import WORK
    from proptrain.errors import InvalidInputError

    if nodes is not None and n_nodes is not None:
        raise InvalidInputError("Give --nodes or --n-nodes, not both.")
    if id_column is not None and nodes is None:
        raise InvalidInputError("--id goes with --nodes: it names a column of that table.")
    for place in (*edges, nodes, out):
        refuse_address(place, "graph build reads and writes files of this machine")
    # Sorted in memory at once, an edge list takes several times its file; compressed ones more.
    useful = 20 * sum(path.stat().st_size for path in edges if kind_at(path) == "file")
    tell_limit(memory, useful, "The build", force=force)
    known = Nodes(n_nodes, nodes, id_column)
    if not json:
        files = [open_edges(path, source, target, weight) for path in edges]
        begun = ", or less if it goes on where one was" * bool(kind_at(out / WORK))
        tell_seconds(build_seconds(files, known, renumber=renumber), begun, quiet=False)
    with progress("sorting", 100, quiet=json) as advance:
        graph = build_graph(
            edges,
            out,
            memory=memory,
            source=source,
            target=target,
            weight=weight,
            nodes=known,
            renumber=renumber,
            n_blocks=blocks,
            overwrite=overwrite,
            on_part=lambda share: advance(100 * share),
        )
    _tell(graph, json=json)
    if not json:
        info = command_line("proptrain", "graph", "info", out)
        fit = command_line("proptrain", "fit", "--engine", "blocked", "--edges", out)
        say(f"next: {info}; {fit} …")


@app.command()
def info(folder: FolderArgument, json: JsonOption = False) -> None:
    """Look at every file of a graph folder, checksums and all, and say what it holds.

    Example: proptrain graph info graph/
    """
    from proptrain.data.disk import DiskGraph

    graph = DiskGraph(folder)
    with progress("looking at all files", 100, quiet=json) as advance:
        graph.verify(lambda share: advance(100 * share))
    _tell(graph, json=json)


@app.command()
def synthetic(
    out: Annotated[Path, typer.Option(help="Folder for graph/, features.npy and labels.npy.")],
    nodes: Annotated[int, typer.Option(min=4, help="Number of nodes.")] = 100_000,
    edges: Annotated[int, typer.Option(min=1, help="Number of edges.")] = 1_000_000,
    classes: Annotated[int, typer.Option(min=2, help="Number of classes.")] = 10,
    features: Annotated[int, typer.Option(min=1, help="Number of features.")] = 100,
    labelled: Annotated[float, typer.Option(help="Share of nodes with a label.")] = 0.05,
    noise: Annotated[float, typer.Option(help="Share of edges that lead anywhere.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Same seed and sizes, same graph.")] = 0,
    memory: MemoryOption = "2GB",
    json: JsonOption = False,
) -> None:
    """Make up a problem on disk: a graph with hubs and communities, features and labels.

    Example: proptrain graph synthetic --nodes 2400000 --edges 62000000 --classes 47 --out big/
    """
    from proptrain.data.synthetic_disk import write_synthetic

    how: dict[str, Any] = {"labelled": labelled, "noise": noise, "seed": seed, "memory": memory}
    with progress("drawing", 100, quiet=json) as advance:
        graph = write_synthetic(
            out,
            nodes,
            edges,
            classes,
            n_features=features,
            on_part=lambda share: advance(100 * share),
            **how,
        )
    _tell(graph, json=json)


def _tell(graph: DiskGraph, *, json: bool) -> None:
    from proptrain.system.memory import in_words, peak_memory

    manifest, peak = graph.manifest, peak_memory()
    n_bytes = sum(stored.n_bytes for stored in manifest.arrays)
    ids = "numbers from 0" if manifest.ids is None else f"in ids.npy ({manifest.ids.dtype})"
    told = {
        "folder": str(graph.folder),
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "entries": manifest.n_entries,
        "weighted": manifest.is_weighted,
        "blocks": graph.n_blocks,
        "bytes": n_bytes,
        "ids": ids,
        "renumbered": manifest.renumbered,
        "made from": str(manifest.counts),
        "peak_memory": peak,
    }
    if json:
        print_json(told)
        return
    told |= {"bytes": in_words(n_bytes), "peak_memory": in_words(peak) if peak else "unknown"}
    rows = [[name.replace("_", " "), _written(value)] for name, value in told.items()]
    print_table("a graph on disk", ["", ""], rows, n_labels=2)


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
