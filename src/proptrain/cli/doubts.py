"""The labels in doubt that a page lists: audited now, or by `proptrain audit` before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proptrain.cli.console import progress
from proptrain.cli.workload import sizes_in, tell_workload
from proptrain.errors import FileFormatError, InvalidInputError, TableError, UnreadableFileError

if TYPE_CHECKING:
    import pandas as pd

    from proptrain.data.dataset import Features
    from proptrain.report.parts import Suspect
    from proptrain.saving.persistence import SavedModel

_EVIDENCE = ("cross_fitted", "others")


def audited_now(
    saved: SavedModel, nodes: Path, *, quiet: bool, force: bool = False
) -> tuple[Suspect, ...]:
    """Audit the labels of a model, whose features its node table has."""
    from proptrain.insight.audit import N_FITS, check_can_audit
    from proptrain.report.model_page import suspects_of

    check_can_audit(saved.estimator)
    features = _features_of(saved, nodes)
    sizes = sizes_in(saved.estimator.graph_, features, len(saved.estimator.classes_))
    auditor = saved.estimator._auditor()
    tell_workload(auditor, sizes, quiet=quiet, force=force, n_fits=N_FITS)
    with progress("audit: models without some labels", N_FITS, quiet=quiet) as advance:
        found = saved.estimator.audit(features, on_fit=advance)
    return suspects_of(found, None if saved.node_ids is None else saved.node_ids.tolist())


def _features_of(saved: SavedModel, nodes: Path) -> Features:
    """Return the features of the model's nodes, in its order, from the table it was fitted to."""
    from proptrain.classifier import checksum
    from proptrain.data.columns import encode_columns
    from proptrain.data.tables import read_nodes

    if saved.encoder is None or saved.node_ids is None or saved.table is None:
        raise InvalidInputError(
            "This model was not fitted to a node table, so it cannot read one. Audit it in Python, "
            'clf.audit(X).to_frame().to_csv("audit.csv", index=False), and give that file with '
            "--audit."
        )
    table, _, ids = read_nodes(nodes, id=saved.table["id"])
    rows = _places_of(saved.node_ids, ids, nodes.name)
    ordered = table.iloc[rows].reset_index(drop=True)
    features = encode_columns(ordered, encoder=saved.encoder).features
    if checksum(saved.estimator._features_of(features)) != saved.estimator.features_checksum_:
        raise InvalidInputError(
            f"--nodes must be the table that the model was fitted to, but {nodes.name} differs "
            "from it in columns that are features. Give that table, or fit the model again."
        )
    return features


def _places_of(wanted: Any, ids: Any, name: str) -> Any:
    import pandas as pd

    rows = pd.Index(ids.astype(str)).get_indexer(wanted.astype(str))
    if (rows < 0).any():
        raise InvalidInputError(
            f"--nodes must have all nodes of the model, but {name} lacks {int((rows < 0).sum()):,} "
            f"of {len(rows):,}, the first is {str(wanted[rows < 0][0])!r}. Give the table that the "
            "model was fitted to."
        )
    return rows


def read_audit(saved: SavedModel, path: Path) -> tuple[Suspect, ...]:
    """Read what `proptrain audit --out` wrote about the labels of a model."""
    from proptrain.report.explore import short_name
    from proptrain.report.parts import Suspect

    try:
        table = _without_marks(saved, _checked(_read(path), path.name))
    except UnicodeError as error:  # halves of letters, which JSON can have and no text
        raise FileFormatError(f"{path.name} has text that cannot be written: {error}.") from error
    nodes = _checked_nodes(saved, table, path.name)
    texts = ([short_name(text) for text in table[name]] for name in ("id", "given", "suggested"))
    columns = (table[name].tolist() for name in ("suspicion", "suspect", "judged"))
    evidence = ([_or_none(share) for share in table[name]] for name in _EVIDENCE)
    rows = zip(nodes, *texts, *columns, *evidence, strict=True)
    suspects = [Suspect(*row) for row in rows]
    return tuple(sorted(suspects, key=lambda suspect: -suspect.suspicion))


def _or_none(share: float) -> float | None:
    return share if np.isfinite(share) else None


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    from proptrain.data.table_files import read_table
    from proptrain.system.files import NAMED, check_ordinary
    from proptrain.system.reading import parse_json, read_whole

    if path.suffix == ".csv":
        return read_table(path, text_columns=lambda columns: columns)
    if path.suffix != ".json":
        raise InvalidInputError(
            f"--audit must be a .csv or .json of `proptrain audit --out`, got {path.name!r}."
        )
    check_ordinary(path, NAMED)
    try:
        return pd.DataFrame(parse_json(read_whole(path)), dtype=object)
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError) as error:
        raise FileFormatError(
            f"{path.name} is no audit: it must be what `proptrain audit --out` wrote ({error})."
        ) from error


def _checked(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns that a page needs, as text, numbers and booleans.

    What speaks for the given class is NaN where the file does not say.
    """
    import pandas as pd

    from proptrain.data.tables import require_column

    columns = list(map(str, table.columns))
    for column in ("id", "given", "suggested", "suspicion", "suspect"):
        require_column(column, columns, name)
    suspicion = pd.to_numeric(table["suspicion"], errors="coerce").astype(np.float64)
    if not suspicion.between(0, 1).all():  # nor NaN
        raise TableError(f"Column 'suspicion' of {name} must hold numbers from 0 to 1.")
    text = {column: table[column].map(str) for column in ("id", "given", "suggested")}
    suspect = table["suspect"].map(str).str.lower() == "true"
    evidence = {column: _shares(table, column) for column in _EVIDENCE}
    judged = (
        table["judged"].map(str).str.lower() != "false"
        if "judged" in columns
        else ~(suspicion.eq(0) & evidence["cross_fitted"].eq(0))  # of older audits
    )
    numbers = {"suspicion": suspicion, "suspect": suspect, "judged": judged}
    evidence["cross_fitted"] = evidence["cross_fitted"].where(judged)
    return pd.DataFrame({**text, **numbers, **evidence})


def _shares(table: pd.DataFrame, column: str) -> pd.Series:
    """Return a column of shares, NaN where there is none."""
    import pandas as pd

    if column not in table.columns:
        return pd.Series(np.nan, index=table.index)
    shares = pd.to_numeric(table[column], errors="coerce").astype(np.float64)
    return shares.where(shares.between(-1e-6, 1 + 1e-6)).clip(0, 1)  # a mean may be rounded up


def _without_marks(saved: SavedModel, table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as it was before --for-spreadsheet, if it was written so.

    It says nothing about that itself: it was, if its ids and classes are the model's only then.
    """
    from proptrain.cli.csv_tables import without_mark

    names = ("id", "given", "suggested")
    plain = table.assign(**{name: table[name].map(without_mark) for name in names})
    ids = _ids_of(saved).astype(str)
    classes = saved.estimator.classes_.astype(str)

    def is_known(one: pd.DataFrame) -> bool:
        return bool(one["id"].isin(ids).all() and one["given"].isin(classes).all())

    return plain if is_known(plain) and not is_known(table) else table


def _ids_of(saved: SavedModel) -> Any:
    """Return what the nodes of a model are called: by their numbers, if by nothing else."""
    return np.arange(len(saved.estimator.given_)) if saved.node_ids is None else saved.node_ids


def _checked_nodes(saved: SavedModel, table: pd.DataFrame, name: str) -> list[int]:
    """Return the numbers of the audited nodes; their labels must be those of the model."""
    import pandas as pd

    from proptrain.data.tables import unique_index

    classifier = saved.estimator
    nodes = unique_index(_ids_of(saved).astype(str)).get_indexer(pd.Index(table["id"]))
    if (nodes < 0).any():
        unknown = table["id"][nodes < 0].iloc[0]
        raise InvalidInputError(f"{name} is of other nodes: the model has none called {unknown!r}.")
    codes = classifier.given_[nodes]
    labels = np.append(classifier.classes_.astype(str), "no label")[codes]  # -1 is the last
    differs = np.flatnonzero((codes < 0) | (labels != table["given"].to_numpy(dtype=str)))
    if differs.size:
        first = differs[0]
        raise InvalidInputError(
            f"{name} is of other labels than the model: {table['id'].iloc[first]!r} has "
            f"{table['given'].iloc[first]!r} there and {str(labels[first])!r} here. Audit the "
            "tables that the model was fitted to."
        )
    return [int(node) for node in nodes]
