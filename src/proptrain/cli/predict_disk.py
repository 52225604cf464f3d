"""proptrain predict for a model that was fitted from disk: a part of the table at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proptrain.cli.console import print_json, say
from proptrain.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from proptrain.disk_model import DiskModel


def predict_from_disk(
    folder: Path, out: Path, nodes: Path | None, edges: Path | None, *, overwrite: bool, json: bool
) -> None:
    """Write the table of all nodes, or of new ones by their features."""
    from proptrain.cli.predict import new_nodes
    from proptrain.disk_model import load_disk_model
    from proptrain.files import whole_file

    if edges is not None:
        raise InvalidInputError(
            "A model that was fitted from disk has no graph in it, so it tells new nodes from "
            "their features: leave --edges out, or fit with --engine local."
        )
    model = load_disk_model(folder)
    if nodes is None:
        tables = _tables(model)
    else:
        tables = iter([new_nodes(model.as_saved(), nodes, None, {})])
    with whole_file(out, overwrite=overwrite) as temporary:
        n_nodes, n_predicted = _write(tables, temporary, as_csv=out.suffix == ".csv")
    if json:
        print_json({"out": str(out), "nodes": n_nodes, "predicted": n_predicted})
    else:
        say(f"{n_nodes:,} nodes, {n_predicted:,} of them predicted; written to {out}")


def _tables(model: DiskModel) -> Iterator[pd.DataFrame]:
    from proptrain.cli.predict import table_of

    for rows in model.parts():
        shares, given = model.predictions[rows].astype(np.float64), model.given[rows]
        codes = np.where(given >= 0, given, shares.argmax(axis=1))
        told = (model.ids(rows), codes, given >= 0, model.reached[rows], shares)
        yield table_of(model.classes, *told)


def _write(tables: Iterator[pd.DataFrame], path: Path, *, as_csv: bool) -> tuple[int, int]:
    """Write tables one below the other; returns the numbers of rows, and of those predicted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_rows = n_predicted = 0
    writer = None
    with path.open("wb") as file:
        for table in tables:
            if as_csv:
                table.to_csv(file, index=False, header=n_rows == 0)
            else:
                batch = pa.Table.from_pandas(table, preserve_index=False)
                writer = writer or pq.ParquetWriter(file, batch.schema)
                writer.write_table(batch.cast(writer.schema))
            n_rows += len(table)
            n_predicted += int((table["source"] == "predicted").sum())
        if writer is not None:
            writer.close()
    return n_rows, n_predicted
