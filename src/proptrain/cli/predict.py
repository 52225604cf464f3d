"""proptrain predict: from a model to a table of predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from proptrain.cli.console import JsonOption, OverwriteOption, print_json, say
from proptrain.cli.csv_tables import SpreadsheetOption, tell_formulas, write_csv
from proptrain.cli.source import SourceOption, TargetOption, WeightOption
from proptrain.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from proptrain.saving.persistence import SavedModel

ModelArgument = Annotated[Path, typer.Argument(help="Folder that `proptrain fit` wrote.")]
OutOption = Annotated[Path, typer.Option(help="Table to write: .csv or .parquet.")]
NewNodesOption = Annotated[
    Path | None,
    typer.Option(help="Table of new nodes, with the columns of the node table of `fit`."),
]
NewEdgesOption = Annotated[
    Path | None,
    typer.Option(help="Edges of the new nodes, to nodes of the model or to each other."),
]
CalibratedOption = Annotated[
    bool,
    typer.Option(
        "--calibrated", help="Make probabilities believable, by the labels that were held out."
    ),
]
MinProbabilityOption = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Leave the label empty where the likeliest class is less likely."
    ),
]


def predict(
    model: ModelArgument,
    out: OutOption,
    nodes: NewNodesOption = None,
    edges: NewEdgesOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    calibrated: CalibratedOption = False,
    min_probability: MinProbabilityOption = None,
    for_spreadsheet: SpreadsheetOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Write a label and probabilities for every node of the model, or for new nodes.

    Columns: id; label (the given one where there is one); probability of that label; source
    (given or predicted); reached (whether a training label reaches the node over the graph, in
    the steps that labels are spread); and the probability of each class as p_CLASS.

    Examples: proptrain predict model/ --out predictions.csv;
    proptrain predict model/ --nodes new.csv --edges new_edges.csv --out new_predictions.csv;
    proptrain predict model/ --calibrated --min-probability 0.8 --out sure.csv
    """
    from proptrain.cli.predict_disk import tables_from_disk
    from proptrain.saving.disk_model import is_disk_model
    from proptrain.system.files import check_output, whole_file

    if out.suffix not in (".csv", ".parquet"):
        raise InvalidInputError(f"--out must end in .csv or .parquet, got {out.name!r}.")
    check_output(out, overwrite=overwrite, inputs=[nodes, edges])
    if is_disk_model(model):
        tables = tables_from_disk(model, nodes, edges, calibrated=calibrated)
    else:
        columns = {"source": source, "target": target, "weight": weight}
        tables = iter([_table_of_model(model, nodes, edges, columns, calibrated=calibrated)])
    with whole_file(out, overwrite=overwrite) as temporary:
        how = {"as_csv": out.suffix == ".csv", "for_spreadsheet": for_spreadsheet}
        counts, n_formulas = _write(tables, temporary, min_probability, **how)
    if json:
        print_json({"out": str(out), **counts})
    else:
        unsure = f", {counts['withheld']:,} too unsure for a label" if "withheld" in counts else ""
        say(
            f"{counts['nodes']:,} nodes, {counts['predicted']:,} of them predicted{unsure}; "
            f"written to {out}"
        )
        tell_formulas(n_formulas)


def _write(
    tables: Iterator[pd.DataFrame],
    path: Path,
    min_probability: float | None,
    *,
    as_csv: bool,
    for_spreadsheet: bool,
) -> tuple[dict[str, int], int]:
    """Write tables one below the other; returns how many rows and formulas they have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts, n_formulas = {"nodes": 0, "predicted": 0}, 0
    writer = None
    with path.open("wb") as file:
        for table in tables:
            if writer is None and not as_csv:
                writer = pq.ParquetWriter(file, _schema_of(table))  # with every label in it
            if min_probability is not None:
                n_withheld = _withhold(table, min_probability)
                counts["withheld"] = counts.get("withheld", 0) + n_withheld
            if writer is None:
                how = {"header": counts["nodes"] == 0, "for_spreadsheet": for_spreadsheet}
                n_formulas += write_csv(table, file, **how)
            else:
                writer.write_table(pa.Table.from_pandas(table, writer.schema, preserve_index=False))
            counts["nodes"] += len(table)
            counts["predicted"] += int((table["source"] == "predicted").sum())
        if writer is not None:
            writer.close()
    return counts, n_formulas


def _schema_of(table: pd.DataFrame) -> pa.Schema:
    import pyarrow as pa

    try:
        return pa.Schema.from_pandas(table, preserve_index=False)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInputError(
            "A column of a .parquet file must hold one type that it knows, and these ids or labels "
            f"do not: {error}. Write to a .csv file instead."
        ) from error


def _table_of_model(
    model: Path,
    nodes: Path | None,
    edges: Path | None,
    columns: dict[str, str | None],
    *,
    calibrated: bool,
) -> pd.DataFrame:
    from proptrain.saving.persistence import load_model

    saved = load_model(model)
    if nodes is not None:
        return new_nodes(saved, nodes, edges, columns, calibrated=calibrated)
    if edges is not None:
        raise InvalidInputError("--edges belong to new nodes: give their table with --nodes.")
    return _fitted_nodes(saved, calibrated=calibrated)


def _withhold(table: pd.DataFrame, min_probability: float) -> int:
    """Empty the predicted labels that are less likely than that; returns how many they are."""
    unsure = (table["source"] == "predicted") & (table["probability"] < min_probability)
    table["label"] = table["label"].astype(object).where(~unsure, None)
    return int(unsure.sum())


def _fitted_nodes(saved: SavedModel, *, calibrated: bool) -> pd.DataFrame:
    classifier = saved.estimator
    given = classifier.given_
    codes = np.where(given >= 0, given, classifier.label_distributions_.argmax(axis=1))
    ids = np.arange(len(given)) if saved.node_ids is None else saved.node_ids
    told = classifier.predict_proba(calibrated=calibrated)
    return table_of(classifier.classes_, ids, codes, given >= 0, classifier.reached_, told)


def new_nodes(
    saved: SavedModel,
    nodes: Path,
    edges: Path | None,
    columns: dict[str, str | None],
    *,
    calibrated: bool = False,
) -> pd.DataFrame:
    """Return the table of new nodes, told with their edges or from features alone."""
    from proptrain.data.columns import encode_columns
    from proptrain.data.tables import read_edges, read_nodes

    if saved.encoder is None or saved.node_ids is None or saved.table is None:
        raise InvalidInputError(
            "This model was not fitted to the columns of a node table, so it cannot read one. Fit "
            "it to a table (--nodes, --label); or, if it was fitted in memory, predict new nodes "
            "from Python: load_model(folder).estimator.predict(X, edges=...)."
        )
    classifier, old_ids = saved.estimator, saved.node_ids
    table, _, new_ids = read_nodes(nodes, id=saved.table["id"])
    _check_new(old_ids, new_ids)
    features = encode_columns(table, encoder=saved.encoder).features
    if edges is None:
        probabilities = classifier.predict_proba(features, calibrated=calibrated)
        reached = np.zeros(len(new_ids), dtype=bool)
    else:
        all_ids = np.concatenate([_comparable(old_ids, new_ids), _comparable(new_ids, old_ids)])
        pairs, weights = read_edges(edges, all_ids, **columns)
        if weights is None and (classifier.graph_.adjacency.data != 1).any():
            warnings.warn(
                "The model was fitted to edges with weights, and those of the new nodes all count "
                "1. Name the column of their weights with --weight.",
                UserWarning,
                stacklevel=2,
            )
        block = _edge_block(pairs, weights, len(old_ids), len(new_ids))
        probabilities = classifier.predict_proba(features, edges=block, calibrated=calibrated)
        reached = classifier.find_reached(block)
    given = np.zeros(len(new_ids), dtype=bool)
    return table_of(
        classifier.classes_, new_ids, probabilities.argmax(axis=1), given, reached, probabilities
    )


def _comparable(ids: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """Return the ids as text unless both sides are of one type."""
    return ids if ids.dtype.kind == others.dtype.kind else ids.astype(str)


def _check_new(old_ids: NDArray[Any], new_ids: NDArray[Any]) -> None:
    known = np.isin(_comparable(new_ids, old_ids), _comparable(old_ids, new_ids))
    if known.any():
        raise InvalidInputError(
            f"New nodes must be new, but the model knows {int(known.sum()):,} of these "
            f"{len(new_ids):,} already, the first is {str(new_ids[known][0])!r}. Leave them out; "
            "`proptrain predict` without --nodes tells the nodes of the model."
        )


def _edge_block(
    pairs: NDArray[np.int64], weights: NDArray[Any] | None, n_old: int, n_new: int
) -> sp.coo_array:
    """Return the new nodes' edges as a sparse matrix (n_new, n_old + n_new).

    In coordinates, where an edge that is listed twice is not summed up: a graph merges the two.
    """
    import scipy.sparse as sp

    newest, other = pairs.max(axis=1), pairs.min(axis=1)
    if (newest < n_old).any():
        raise InvalidInputError(
            "Each edge must touch a new node, but "
            f"{int((newest < n_old).sum()):,} join two nodes that the model knows already. "
            "Leave those out; to change the old graph, fit again."
        )
    values = np.ones(len(pairs), dtype=np.float32) if weights is None else weights
    return sp.coo_array((values, (newest - n_old, other)), shape=(n_new, n_old + n_new))


def table_of(
    classes: NDArray[Any],
    ids: NDArray[Any],
    codes: NDArray[np.int64],
    given: NDArray[np.bool_],
    reached: NDArray[np.bool_],
    probabilities: NDArray[np.float64],
) -> pd.DataFrame:
    """Return the table that is written, a row for each node."""
    import pandas as pd

    columns = {
        "id": ids,
        "label": classes[codes],
        "probability": probabilities[np.arange(len(codes)), codes],
        "source": np.where(given, "given", "predicted"),
        "reached": reached,
    }
    columns |= {f"p_{name}": probabilities[:, c] for c, name in enumerate(classes)}
    return pd.DataFrame(columns)
