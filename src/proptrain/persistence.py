"""Models in a folder: safetensors and JSON (and skops for a column encoder), nothing pickled.

::

    model/
      model.json           what it is: class, parameters, classes, and the hash of each other file
      arrays.safetensors   weights, graph, predictions, history
      nodes.json           node ids, where the nodes have names of their own
      encoder.skops        what turns a node table's columns into features

Every file's SHA-256 stands in model.json, and model.json ends with its own, so that a file that
was changed or swapped is noticed before it is used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import proptrain
from proptrain.data.graph import Graph
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    ProptrainError,
    UnreadableFileError,
)
from proptrain.estimator import LabelPropagationClassifier, PTAClassifier
from proptrain.files import check_output, whole_folder
from proptrain.propagate import schemes
from proptrain.train.loop import History

FORMAT = 1
_FILES = {"model.json", "arrays.safetensors", "nodes.json", "encoder.skops"}
_CLASSES = {kind.__name__: kind for kind in (PTAClassifier, LabelPropagationClassifier)}
_SCHEMES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (schemes.PPR, schemes.Power, schemes.Mean, schemes.Heat, schemes.Exact)
}
_ARRAYS = (
    *("given_", "stopping_", "label_distributions_", "reached_"),
    *("soft_labels_", "probabilities_", "training_", "fallback_"),
)
_NUMBERS = ("best_epoch_", "n_iter_", "n_features_in_", "features_checksum_")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted classifier and, if it was fitted to tables, what reads further tables."""

    estimator: Any
    node_ids: NDArray[Any] | None = None
    encoder: Any = None
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
    """Write a fitted classifier to a folder, whole or not at all."""
    check_model_output(folder, overwrite=overwrite)
    description = {
        "format": FORMAT,
        "proptrain": proptrain.__version__,
        "class": type(estimator).__name__,
        "parameters": _parameters_to_json(estimator.get_params(deep=False)),
        "classes": _array_to_json(estimator.classes_),
        "numbers": {
            name: getattr(estimator, name) for name in _NUMBERS if hasattr(estimator, name)
        },
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "table": table,
    }
    with whole_folder(folder, overwrite=overwrite) as temporary:
        _write_arrays(temporary / "arrays.safetensors", _arrays_of(estimator))
        if node_ids is not None:
            _write_json(temporary / "nodes.json", _array_to_json(node_ids))
        if encoder is not None:
            import skops.io

            skops.io.dump(encoder, temporary / "encoder.skops")
        files = {path.name: _sha256(path.read_bytes()) for path in sorted(temporary.iterdir())}
        description["files"] = files
        description["checksum"] = _checksum(description)
        _write_json(temporary / "model.json", description)


def check_model_output(folder: str | Path, *, overwrite: bool) -> None:
    """Raise early, before long work, if no model could be written to this folder."""
    folder = Path(folder)
    check_output(folder, overwrite=overwrite, folder=True)
    others = sorted({p.name for p in folder.iterdir()} - _FILES) if folder.is_dir() else []
    if others:
        raise OutputExistsError(
            f"Only a model may be overwritten, but {folder} holds other files ({others[0]}"
            f"{', …' if len(others) > 1 else ''}) and is left alone. Choose another output."
        )


def load_model(folder: str | Path) -> SavedModel:
    """Read a model that `save_model` wrote, or say what is wrong with it."""
    folder = Path(folder)
    description = _read_description(folder)
    try:
        for name, expected in description["files"].items():
            _check_file(folder, name, expected)
        return SavedModel(
            _read_estimator(folder, description),
            node_ids=_read_node_ids(folder, description),
            encoder=_read_encoder(folder, description),
            table=description["table"],
        )
    except ProptrainError:
        raise
    except Exception as error:  # the files are whole, but of something else's making
        raise FileFormatError(
            f"{folder} is no complete proptrain model ({type(error).__name__}: {error}). "
            "Fit and save it again."
        ) from error


def _read_estimator(folder: Path, description: dict[str, Any]) -> Any:
    kind = _CLASSES[description["class"]]
    estimator = kind(**_parameters_from_json(description["parameters"]))
    _set_arrays(estimator, _read_arrays(folder / "arrays.safetensors"))
    for name, number in description["numbers"].items():
        setattr(estimator, name, number)
    estimator.classes_ = _array_from_json(description["classes"])
    if description["feature_names"]:
        estimator.feature_names_in_ = np.array(description["feature_names"], dtype=object)
    likeliest = estimator.label_distributions_.argmax(axis=1)
    estimator.transduction_ = estimator.classes_[likeliest]
    return estimator


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        checksum = description.pop("checksum")
        version = description["format"]
    except OSError as error:
        raise UnreadableFileError(
            f"{folder} is no model folder that can be read: {path.name} {error.strerror or error}. "
            "Give the folder that `proptrain fit --out` or `save` wrote."
        ) from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FileFormatError(
            f"{path} is not the description of a proptrain model. Fit and save the model again."
        ) from error
    if version != FORMAT:
        raise FileFormatError(
            f"{path} has format {version}, this proptrain ({proptrain.__version__}) reads format "
            f"{FORMAT}. Use the release that wrote it: {description.get('proptrain', 'unknown')}."
        )
    if checksum != _checksum(description):
        raise FileFormatError(
            f"{path} was changed after it was written: its checksum does not fit. "
            "Take the original file, or fit and save the model again."
        )
    return dict(description)


def _check_file(folder: Path, name: str, expected: str) -> None:
    path = folder / name
    if Path(name).name != name:
        raise FileFormatError(f"model.json names a file outside its folder: {name!r}.")
    try:
        found = _sha256(path.read_bytes())
    except OSError as error:
        raise UnreadableFileError(
            f"{path} belongs to the model but cannot be read: {error.strerror or error}."
        ) from error
    if found != expected:
        raise FileFormatError(
            f"{path} was changed after it was written: SHA-256 {found}, expected {expected}. "
            "Take the original file, or fit and save the model again."
        )


def _arrays_of(estimator: Any) -> dict[str, NDArray[Any]]:
    arrays = {name: getattr(estimator, name) for name in _ARRAYS if hasattr(estimator, name)}
    arrays |= _matrix_to_arrays("graph", estimator.graph_.adjacency)
    arrays |= {f"weights.{k}": v for k, v in getattr(estimator, "weights_", {}).items()}
    if hasattr(estimator, "history_"):
        history = asdict(estimator.history_)
        arrays |= {f"history.{k}": np.array(v, dtype=np.float64) for k, v in history.items()}
    features = getattr(estimator, "features_", None)
    if features is not None:
        sparse = sp.issparse(features)
        arrays |= _matrix_to_arrays("features", features) if sparse else {"features": features}
    return arrays


def _set_arrays(estimator: Any, arrays: dict[str, NDArray[Any]]) -> None:
    for name in _ARRAYS:
        if name in arrays:
            setattr(estimator, name, arrays[name])
    estimator.graph_ = Graph(_matrix_from_arrays("graph", arrays))
    if isinstance(estimator, PTAClassifier):
        estimator.weights_ = _with_prefix("weights.", arrays)
        history = _with_prefix("history.", arrays)
        estimator.history_ = History(**{k: tuple(v.tolist()) for k, v in history.items()})
    elif "features" in arrays:
        estimator.features_ = arrays["features"]
    elif "features.data" in arrays:
        estimator.features_ = _matrix_from_arrays("features", arrays)
    else:
        estimator.features_ = None


def _with_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _matrix_to_arrays(name: str, matrix: sp.csr_array) -> dict[str, NDArray[Any]]:
    return {
        f"{name}.data": matrix.data,
        f"{name}.indices": matrix.indices,
        f"{name}.indptr": matrix.indptr,
        f"{name}.shape": np.array(matrix.shape),
    }


def _matrix_from_arrays(name: str, arrays: dict[str, NDArray[Any]]) -> sp.csr_array:
    parts = (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"])
    return sp.csr_array(parts, shape=tuple(arrays[f"{name}.shape"]))


def _parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "scheme" and value is not None:
            if type(value) not in _SCHEMES.values():
                raise InvalidInputError(
                    f"Only proptrain's own schemes can be saved ({', '.join(_SCHEMES)}), got "
                    f"{type(value).__name__}."
                )
            written[name] = {"name": type(value).__name__, **asdict(value)}
        elif name == "weighting" and not isinstance(value, str):
            written[name] = repr(value)  # prediction has no use for it; only refitting would
        elif name == "random_state" and not isinstance(value, int | np.integer | None):
            written[name] = None
        elif isinstance(value, np.generic):
            written[name] = value.item()
        else:
            written[name] = value
    return written


def _parameters_from_json(parameters: dict[str, Any]) -> dict[str, Any]:
    scheme = parameters.get("scheme")
    if scheme is None:
        return parameters
    fields = dict(scheme)
    return {**parameters, "scheme": _SCHEMES[fields.pop("name")](**fields)}


def _array_to_json(array: NDArray[Any]) -> dict[str, Any]:
    values = array.tolist()
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, float, bool}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidInputError(
            f"Class labels and node ids must be text or numbers to be saved, got {names}."
        )
    return {"dtype": array.dtype.str if array.dtype != object else "object", "values": values}


def _array_from_json(written: dict[str, Any]) -> NDArray[Any]:
    return np.array(written["values"], dtype=np.dtype(written["dtype"]))


def _read_node_ids(folder: Path, description: dict[str, Any]) -> NDArray[Any] | None:
    if "nodes.json" not in description["files"]:
        return None
    return _array_from_json(json.loads((folder / "nodes.json").read_text(encoding="utf-8")))


def _read_encoder(folder: Path, description: dict[str, Any]) -> Any:
    if "encoder.skops" not in description["files"]:
        return None
    import skops.io

    path = folder / "encoder.skops"
    # Beside scikit-learn's own, which skops knows to be harmless, an encoder holds a dtype.
    unknown = set(skops.io.get_untrusted_types(file=path)) - {"numpy.dtype"}
    if unknown:
        raise FileFormatError(
            f"{path} holds types that no column encoder has: {', '.join(sorted(unknown))}. "
            "It was not loaded. Fit and save the model again."
        )
    return skops.io.load(path, trusted=["numpy.dtype"])


def _write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise FileFormatError(f"{path} is no safetensors file: {error}.") from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def _checksum(description: dict[str, Any]) -> str:
    return _sha256(json.dumps(description, ensure_ascii=False, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
