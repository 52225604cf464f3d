"""Models in a folder: safetensors and JSON (and skops for a column encoder), nothing pickled.

::

    model/
      model.json           what it is: class, parameters, classes, and the hash of each other file
      arrays.safetensors   weights, graph, predictions, history, features where they are needed
      nodes.json           node ids, where the nodes have names of their own
      encoder.skops        what turns a node table's columns into features

Every file's SHA-256 stands in model.json, and model.json ends with its own, so that a file that
was damaged, changed or swapped is noticed before it is used. This is no signature: who changes a
file on purpose can compute the checksums anew. So nothing that is read is run, and every array is
checked as if it came from a stranger; whether its numbers are the ones you saved is for you to
know, by where you keep the folder.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proptrain
from proptrain.classifier import GraphClassifier
from proptrain.data.columns import check_encoder
from proptrain.data.graph import Graph
from proptrain.data.npz import check_archive
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    ProptrainError,
    UnreadableFileError,
)
from proptrain.estimator import PTAClassifier
from proptrain.models.correct_smooth import CorrectAndSmoothClassifier
from proptrain.models.gnn import GNNClassifier
from proptrain.models.label_propagation import LabelPropagationClassifier
from proptrain.plus import PTAPlusClassifier
from proptrain.saving.model_arrays import (
    NUMBERS,
    arrays_of,
    check_array,
    matrix_from_arrays,
    set_arrays,
    set_numbers,
)
from proptrain.saving.model_json import (
    array_from_json,
    array_to_json,
    ids_from_json,
    ids_to_json,
    parameters_from_json,
    parameters_to_json,
    table_from_json,
    table_to_json,
)
from proptrain.system.files import (
    check_output,
    file_of,
    kind_at,
    read_description,
    unwritable_is_ours,
    whole_folder,
)
from proptrain.system.reading import parse_json, read_whole

FORMAT = 1
_FILES = {"model.json", "arrays.safetensors", "nodes.json", "encoder.skops"}
_FROM_DISK = {"disk_model.json", "weights.safetensors", "predictions.npy", "given.npy"}
_FROM_DISK |= {"reached.npy", "ids.npy"}
_CLASSES: dict[str, type[GraphClassifier]] = {
    kind.__name__: kind
    for kind in (
        PTAClassifier,
        PTAPlusClassifier,
        LabelPropagationClassifier,
        GNNClassifier,
        CorrectAndSmoothClassifier,
    )
}


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted classifier and, if it was fitted to tables, what reads further tables."""

    estimator: Any
    node_ids: NDArray[Any] | None = None
    """(n,) what the nodes are called."""
    encoder: Any = None
    """What turned the columns of a node table into features."""
    table: dict[str, Any] | None = None
    """How the tables were read: names of the id, label and feature columns."""


def save_model(
    folder: str | Path,
    estimator: Any,
    *,
    node_ids: NDArray[Any] | None = None,
    encoder: Any = None,
    table: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted classifier to a folder, whole or not at all.

    ``node_ids`` (n,) are what the nodes are called: whole numbers or text, no two the same. Of a
    model fitted to a node table, ``encoder`` is what turned its columns into features, and
    ``table`` the names of the columns that were read: its id, its label (or None) and its features.
    With these three `proptrain predict` knows the nodes, and reads tables of new ones.

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from proptrain import LabelPropagationClassifier, read_tables
    >>> nodes = pd.DataFrame({"id": ["p", "q", "r"], "size": [1, 5, 4], "kind": ["a", None, "b"]})
    >>> edges = pd.DataFrame({"source": ["p", "q"], "target": ["q", "r"]})
    >>> tables = read_tables(edges, nodes, label="kind")
    >>> data, read = tables.dataset, {"id": "id", "label": "kind", "features": ["size"]}
    >>> clf = LabelPropagationClassifier().fit(None, data.labels, graph=data.graph)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/alone", clf)
    ...     also = {"node_ids": data.node_ids, "encoder": tables.encoder, "table": read}
    ...     save_model(f"{folder}/model", clf, **also)
    ...     sorted(path.name for path in Path(folder, "alone").iterdir())
    ...     sorted(path.name for path in Path(folder, "model").iterdir())
    ['arrays.safetensors', 'model.json']
    ['arrays.safetensors', 'encoder.skops', 'model.json', 'nodes.json']
    """
    check_model_output(folder, overwrite=overwrite)
    description = {
        "format": FORMAT,
        "proptrain": proptrain.__version__,
        "class": type(estimator).__name__,
        "parameters": parameters_to_json(estimator.get_params(deep=False)),
        "classes": array_to_json(estimator.classes_),
        "numbers": {
            name: int(getattr(estimator, name)) for name in NUMBERS if hasattr(estimator, name)
        },
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "table": table_to_json(table),
    }
    contents = _contents_of(estimator, node_ids, encoder)
    description["files"] = {name: _sha256(content) for name, content in contents.items()}
    description["checksum"] = _checksum(description)
    contents["model.json"] = _json_bytes(description)
    with whole_folder(folder, overwrite=overwrite) as temporary:
        for name, content in contents.items():
            (temporary / name).write_bytes(content)


def check_model_output(folder: str | Path, *, overwrite: bool) -> None:
    """Raise early, before long work, if no model could be written to this folder."""
    folder = Path(folder)
    check_output(folder, overwrite=overwrite, folder=True)
    with unwritable_is_ours(folder):
        others = (
            sorted({p.name for p in folder.iterdir()} - _FILES - _FROM_DISK)
            if folder.is_dir()
            else []
        )
    if others:
        raise OutputExistsError(
            f"Only a model may be overwritten, but {folder} holds other files ({others[0]}"
            f"{', …' if len(others) > 1 else ''}) and is left alone. Choose another output."
        )


def load_model(folder: str | Path) -> SavedModel:
    """Read a model that `save_model` wrote, or say what is wrong with it.

    The classifier is its ``estimator``; ``node_ids`` (n,), ``encoder`` and ``table`` are what was
    saved with it, or None.

    >>> from tempfile import TemporaryDirectory
    >>> from proptrain import LabelPropagationClassifier
    >>> ring = [(0, 1), (1, 2), (2, 0)]
    >>> clf = LabelPropagationClassifier().fit(None, ["a", None, "b"], graph=ring)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model", clf, node_ids=np.array([17, 4, 9]))
    ...     saved = load_model(f"{folder}/model")
    ...     saved.estimator.transduction_, saved.node_ids
    (array(['a', 'a', 'b'], dtype='<U1'), array([17,  4,  9]))
    """
    folder = Path(folder)
    description = _read_description(folder)
    try:
        # Each file is read once: what is parsed is what was hashed.
        contents = {
            name: _read_checked(folder, name, expected)
            for name, expected in description["files"].items()
        }
        estimator = _read_estimator(description, parse_arrays(contents["arrays.safetensors"]))
        return SavedModel(
            estimator,
            node_ids=_parse_node_ids(contents.get("nodes.json"), estimator.graph_.n_nodes),
            encoder=parse_encoder(contents.get("encoder.skops")),
            table=table_from_json(description["table"]),
        )
    except (UnreadableFileError, MemoryError):  # no fault of what is in the files
        raise
    except ProptrainError as fault:
        raise FileFormatError(f"Cannot use the model {folder}: {fault}") from fault
    except Exception as error:  # the files are whole, but of something else's making
        raise FileFormatError(
            f"{folder} is no complete proptrain model ({type(error).__name__}: {error}). "
            "Fit and save it again."
        ) from error


def _read_estimator(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    kind = _CLASSES[description["class"]]
    estimator = kind(**parameters_from_json(description["parameters"]))
    estimator.classes_ = array_from_json(description["classes"])
    estimator.graph_ = Graph(matrix_from_arrays("graph", arrays))
    set_numbers(estimator, description["numbers"])
    set_arrays(estimator, arrays)
    if description["feature_names"]:
        names = np.array(description["feature_names"], dtype=object)
        check_array("feature_names", names, "O", (estimator.n_features_in_,))
        estimator.feature_names_in_ = names
    likeliest = estimator.label_distributions_.argmax(axis=1)
    estimator.transduction_ = estimator.classes_[likeliest]
    return estimator


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    try:
        description = parse_json(read_description(folder, path.name))
        is_unchanged = description.pop("checksum") == _checksum(description)
        version = description["format"]
    except OSError as error:
        if kind_at(folder / "disk_model.json") == "file":
            raise InvalidInputError(
                f"{folder} was fitted from disk: it holds what is told of each node, but neither "
                "graph nor training, so `proptrain predict` can read it and nothing else can. To "
                "explain, report on or load a model, fit it with --engine local."
            ) from error
        raise UnreadableFileError(
            f"{folder} is no model folder that can be read: {path.name}: "
            f"{error.strerror or error}. Give the folder that `proptrain fit --out` or `save` "
            "wrote."
        ) from error
    except FileFormatError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FileFormatError(
            f"{path} is not the description of a proptrain model. Fit and save the model again."
        ) from error
    if version != FORMAT:
        raise FileFormatError(
            f"{path} has format {version}, this proptrain ({proptrain.__version__}) reads format "
            f"{FORMAT}. Use the release that wrote it: {description.get('proptrain', 'unknown')}."
        )
    if not is_unchanged:
        raise FileFormatError(
            f"{path} was changed after it was written: its checksum does not fit. "
            "Take the original file, or fit and save the model again."
        )
    return dict(description)


def _read_checked(folder: Path, name: str, expected: str) -> bytes:
    if name not in _FILES:
        raise FileFormatError(
            f"model.json may name only {', '.join(sorted(_FILES))}, but it names {name!r}."
        )
    path = file_of(folder, name)
    try:
        content = read_whole(path)
    except OSError as error:
        raise UnreadableFileError(
            f"{path} belongs to the model but cannot be read: {error.strerror or error}."
        ) from error
    found = _sha256(content)
    if found != expected:
        raise FileFormatError(
            f"{name} was changed after it was written: SHA-256 {found}, expected {expected}. "
            "Take the original file, or fit and save the model again."
        )
    return content


def _contents_of(estimator: Any, node_ids: NDArray[Any] | None, encoder: Any) -> dict[str, bytes]:
    """Return the bytes of each file but model.json."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(a) for name, a in arrays_of(estimator).items()}
    contents = {"arrays.safetensors": save(arrays)}
    if node_ids is not None:
        if np.shape(node_ids) != (estimator.graph_.n_nodes,):
            raise InvalidInputError(
                f"node_ids must name each of the {estimator.graph_.n_nodes:,} nodes, got an array "
                f"of shape {np.shape(node_ids)}."
            )
        contents["nodes.json"] = _json_bytes(ids_to_json(node_ids))
    if encoder is not None:
        import skops.io

        contents["encoder.skops"] = skops.io.dumps(encoder)
    return contents


def _parse_node_ids(content: bytes | None, n_nodes: int) -> NDArray[Any] | None:
    if content is None:
        return None
    node_ids = ids_from_json(parse_json(content))
    if len(node_ids) != n_nodes:
        raise FileFormatError(
            f"nodes.json must name each of the {n_nodes:,} nodes, got {len(node_ids):,} names. "
            "Fit and save the model again."
        )
    return node_ids


def parse_encoder(content: bytes | None) -> Any:
    """Return a column encoder, of nothing but scikit-learn's own parts."""
    if content is None:
        return None
    import skops.io
    from sklearn.compose import ColumnTransformer

    check_archive(content)
    # Beside scikit-learn's own, which skops knows to be harmless, an encoder holds a dtype.
    unknown = set(skops.io.get_untrusted_types(data=content)) - {"numpy.dtype"}
    if unknown:
        raise FileFormatError(
            f"encoder.skops holds types that no column encoder has: {', '.join(sorted(unknown))}. "
            "It was not loaded. Fit and save the model again."
        )
    encoder = skops.io.loads(content, trusted=["numpy.dtype"])
    if not isinstance(encoder, ColumnTransformer):
        raise FileFormatError(
            f"encoder.skops must hold a ColumnTransformer, got {type(encoder).__name__}. Fit and "
            "save the model again."
        )
    check_encoder(encoder)
    return encoder


def parse_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    except SafetensorError as error:
        raise FileFormatError(f"arrays.safetensors is no safetensors file: {error}.") from error


def _json_bytes(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def _checksum(description: dict[str, Any]) -> str:
    return _sha256(json.dumps(description, ensure_ascii=False, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
