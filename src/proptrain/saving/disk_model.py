"""Models that were fitted from disk, in a folder: nothing pickled, large arrays one to a file.

::

    model/
      disk_model.json      what it is: parameters, classes, and size and hash of each other file
      weights.safetensors  the network
      predictions.npy      (n, C) probabilities of the graph's nodes
      given.npy            (n,) class codes that were given, -1 for none
      reached.npy          (n,) whether a training label reached the node
      ids.npy              (n,) the nodes' ids, if they are not 0 … n-1
      encoder.skops        what turns a node table's columns into features

It tells the nodes that it was fitted to, and new ones from their features. The graph is not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proptrain
from proptrain.data.disk import DiskGraph, checksum_of, decoded
from proptrain.data.graph import Graph
from proptrain.data.mapped import forget, parts_of, write_rows
from proptrain.data.npy import map_array
from proptrain.data.shared_graph import SharedGraph
from proptrain.errors import FileFormatError, UnreadableFileError
from proptrain.estimator import PTAClassifier
from proptrain.large.from_disk import FittedFromDisk
from proptrain.saving.model_arrays import check_array
from proptrain.saving.model_json import (
    array_from_json,
    array_to_json,
    parameters_to_json,
    table_from_json,
    table_to_json,
)
from proptrain.saving.persistence import SavedModel, parse_arrays, parse_encoder
from proptrain.system.files import file_of, kind_at, read_description, whole_folder
from proptrain.system.reading import parse_json, read_whole
from proptrain.train.predictor import Weights

DESCRIPTION = "disk_model.json"
FORMAT = 1
_FILES = {"weights.safetensors", "predictions.npy", "given.npy", "reached.npy"}
_OPTIONAL = {"ids.npy", "encoder.skops"}


@dataclass(frozen=True, eq=False)
class DiskModel:
    """A model that was fitted from disk; its arrays of all nodes are mapped.

    They are read once before, for their checksums, and never are in memory as a whole.
    """

    classes: NDArray[Any]
    weights: Weights
    predictions: NDArray[np.float32]
    given: NDArray[np.int64]
    reached: NDArray[np.bool_]
    stored_ids: NDArray[Any] | None
    encoder: Any
    table: dict[str, Any] | None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.predictions)

    def ids(self, nodes: slice) -> NDArray[Any]:
        """Return the ids of some nodes."""
        if self.stored_ids is None:
            return np.arange(*nodes.indices(self.n_nodes))
        ids = np.array(self.stored_ids[nodes])
        return decoded(ids, "ids.npy")

    def parts(self) -> Iterator[slice]:
        """Yield the nodes, some at a time, and let go of what was read of them."""
        for rows in parts_of(self.n_nodes, 4 * self.predictions.shape[1]):
            yield rows
            forget(self.predictions, self.given, self.reached, self.stored_ids)

    def as_saved(self) -> SavedModel:
        """Return what tells new nodes from their features, as other models do."""
        estimator = PTAClassifier(n_hidden=self.weights["weight1"].shape[1])
        estimator.weights_, estimator.classes_ = self.weights, self.classes
        estimator.n_features_in_ = len(self.weights["weight1"])
        estimator.graph_ = Graph.without_edges(1)  # the graph is not here, nor is it needed
        return SavedModel(estimator, self.ids(slice(None)), self.encoder, self.table)


def save_disk_model(
    folder: str | Path,
    classifier: PTAClassifier,
    fitted: FittedFromDisk,
    graph: DiskGraph | SharedGraph,
    *,
    encoder: Any = None,
    table: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a model to a folder, whole or not at all."""
    from safetensors.numpy import save

    with whole_folder(folder, overwrite=overwrite) as place:
        (place / "weights.safetensors").write_bytes(save(fitted.trained.weights))
        arrays: dict[str, NDArray[Any]] = {"predictions": fitted.distributions}
        arrays |= {"given": fitted.given, "reached": fitted.reached}
        ids = graph.stored_ids()
        if ids is not None:
            arrays["ids"] = ids
        for name, rows in arrays.items():
            parts = (rows[part] for part in parts_of(len(rows), rows[:1].nbytes or 1))
            write_rows(place / f"{name}.npy", rows.shape, rows.dtype, parts)
        if encoder is not None:
            import skops.io

            (place / "encoder.skops").write_bytes(skops.io.dumps(encoder))
        description = {
            "format": FORMAT,
            "proptrain": proptrain.__version__,
            "parameters": parameters_to_json(classifier.get_params(deep=False)),
            "classes": array_to_json(fitted.classes),
            "epochs": len(fitted.trained.history.train_loss),
            "best_epoch": fitted.trained.best_epoch,
            "batch_size": fitted.batch_size,
            "n_nodes": graph.n_nodes,
            "table": table_to_json(table),
            "files": {path.name: checksum_of(path) for path in sorted(place.iterdir())},
        }
        (place / DESCRIPTION).write_text(json.dumps(description, ensure_ascii=False, indent=1))


def is_disk_model(folder: Path) -> bool:
    """Tell whether a folder is of `save_disk_model`'s making."""
    return bool(kind_at(folder / DESCRIPTION))  # a pipe is for whoever reads it to refuse


def load_disk_model(folder: str | Path) -> DiskModel:
    """Read a model that `save_disk_model` wrote, or say what is wrong with it."""
    folder = Path(folder)
    try:
        told = parse_json(read_description(folder, DESCRIPTION))
        if told["format"] != FORMAT or not _FILES <= set(told["files"]) <= _FILES | _OPTIONAL:
            raise FileFormatError("it is of another proptrain's making.")
        return _checked(folder, told, _read_checked(folder, told["files"]))
    except FileFormatError as fault:
        raise FileFormatError(f"Cannot use the model {folder}: {fault} Fit it again.") from fault
    except OSError as error:
        raise UnreadableFileError(
            f"{folder} is no whole model: {error.filename or 'a file'}: {error.strerror or error}."
        ) from error
    except MemoryError:  # no fault of the files
        raise
    except Exception as error:  # the files are whole, but of something else's making
        raise FileFormatError(
            f"{folder} is no complete proptrain model ({type(error).__name__}: {error}). Fit it "
            "again."
        ) from error


def _read_checked(folder: Path, files: dict[str, str]) -> dict[str, bytes]:
    """Compare all files with their checksums; returns the content of those that are not mapped."""
    contents = {}
    for name, expected in files.items():
        path = file_of(folder, name)
        if path.suffix == ".npy":
            found = checksum_of(path)
        else:
            contents[name] = read_whole(path)  # once: what is parsed is what was hashed
            found = hashlib.sha256(contents[name]).hexdigest()
        if found != expected:
            raise FileFormatError(f"{name} was changed after it was written.")
    return contents


def _checked(folder: Path, told: dict[str, Any], contents: dict[str, bytes]) -> DiskModel:
    files, n_nodes = told["files"], told["n_nodes"]
    classes = array_from_json(told["classes"])
    weights = parse_arrays(contents["weights.safetensors"])
    n_features, n_hidden = weights["weight1"].shape
    shapes = {"weight1": (n_features, n_hidden), "bias1": (n_hidden,)}
    shapes |= {"weight2": (n_hidden, len(classes)), "bias2": (len(classes),)}
    for name, shape in shapes.items():
        check_array(name, weights[name], "f", shape)
    arrays = {}
    wanted = {"predictions": ("f", (n_nodes, len(classes))), "given": ("i", (n_nodes,))}
    for name, (kind, size) in {**wanted, "reached": ("b", (n_nodes,))}.items():
        arrays[name] = map_array(file_of(folder, f"{name}.npy"))
        if arrays[name].dtype.kind != kind or arrays[name].shape != size:
            raise FileFormatError(f"{name}.npy is of another shape than the model.")
    given = arrays["given"]
    if given.size and not -1 <= given.min() <= given.max() < len(classes):
        raise FileFormatError("given.npy must hold class codes.")
    ids = map_array(file_of(folder, "ids.npy")) if "ids.npy" in files else None
    if ids is not None and (ids.shape != (n_nodes,) or ids.dtype.kind not in "iS"):
        raise FileFormatError("ids.npy must have an id for each node.")
    encoder = parse_encoder(contents.get("encoder.skops"))
    return DiskModel(classes, weights, **arrays, stored_ids=ids, encoder=encoder,
                     table=table_from_json(told["table"]))  # fmt: skip
