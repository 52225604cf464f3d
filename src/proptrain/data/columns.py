"""Turn the columns of a node table into features: numbers, categories and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.errors import FileFormatError, InvalidInputError, TableError

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

Kind = Literal["numeric", "categorical", "text", "drop"]
Family: TypeAlias = Literal["number", "time", "category", "text", "other"]

# What pandas' infer_dtype says of a column of objects, in our words; anything else is "other".
_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("string", "empty"), "text"),
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal", "boolean"), "number"),
    **dict.fromkeys(("datetime", "datetime64", "date", "timedelta", "timedelta64"), "time"),
}
_MANY_VALUES = 1000  # more categories than that are left to the text encoder, which has a cap
_MAX_WORDS = 20_000
_RARE_WORDS_FROM = 1000  # rows; in smaller tables a word that occurs once may still matter

# Parts are compared one by one; the others say what is learnt, not what is done with it.
_ONLY_FOR_FITTING = {"transformers", "steps", "min_df", "max_features", "force_int_remainder_cols"}
_FOREIGN = "encoder.skops must be of proptrain's making, but is not, and is not used"


@dataclass(frozen=True, eq=False)
class EncodedColumns:
    """Features of shape (n, f), the fitted encoder, and what was done to each column."""

    features: sp.csr_array
    encoder: ColumnTransformer | None
    """None if there was nothing to learn from."""
    kinds: dict[str, Kind]
    notes: tuple[str, ...]


def encode_columns(
    table: pd.DataFrame,
    *,
    kinds: Mapping[str, Kind] | None = None,
    encoder: ColumnTransformer | None = None,
    may_be_none: bool = False,
) -> EncodedColumns:
    """Turn a table into sparse float32 features, one row for each of its rows.

    ``kinds`` says what some columns are, the others are guessed by `guess_kinds`. A fitted
    ``encoder`` is applied as it is: its columns must be there with the same kinds, others are
    left out. If there ``may_be_none`` to learn from, the features are then a column of zeros.
    """
    wanted = dict(kinds or {})
    _check_kinds(wanted, table)
    if encoder is None:
        others = table[[name for name in table.columns if name not in wanted]]
        guessed = guess_kinds(others)
        settled: dict[str, Kind] = {c: wanted.get(c) or guessed[c] for c in table.columns}
        notes = [
            f"column {c!r} left out: it tells nothing" for c in guessed if guessed[c] == "drop"
        ]
    else:
        settled, notes = _fitted_kinds(encoder, table, wanted), []
    if may_be_none and encoder is None and all(kind == "drop" for kind in settled.values()):
        nothing = sp.csr_array((len(table), 1), dtype=np.float32)
        return EncodedColumns(nothing, None, settled, tuple(notes))
    prepared, filled = _prepare(table, settled)
    if encoder is None:
        encoder = make_encoder(settled, min_df=2 if len(table) >= _RARE_WORDS_FROM else 1)
        features = _fit(encoder, prepared)
    else:
        features = _transform(encoder, prepared)
    matrix = sp.csr_array(features, dtype=np.float32)
    return EncodedColumns(matrix, encoder, settled, (*notes, *filled))


def _transform(encoder: ColumnTransformer, table: pd.DataFrame) -> Any:
    """Apply an encoder that may come from a file, and may not be what it seems."""
    try:
        return encoder.transform(table)
    except Exception as error:
        raise TableError(
            f"The encoder of the columns cannot turn this table into features "
            f"({type(error).__name__}: {error}). Is it the one that was fitted?"
        ) from error


def guess_kinds(table: pd.DataFrame) -> dict[str, Kind]:
    """Guess from its values what each column is.

    Numbers, booleans and times are numeric. Text of more than three words on average is text,
    and so is text with very many values; single codes that hardly repeat are dropped, like empty
    and constant columns. Everything else is categorical.
    """
    return {name: _guess_kind(table[name]) for name in table.columns}


def make_encoder(kinds: Mapping[str, Kind], *, min_df: int = 1) -> ColumnTransformer:
    """Make the unfitted encoder of these columns, of scikit-learn's own parts throughout.

    That keeps a saved model free of our code, so that it can be loaded without running any.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    by_kind = {k: [c for c in kinds if kinds[c] == k] for k in get_args(Kind)}
    numbers = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    categories = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
    parts: list[tuple[str, Any, Any]] = []
    if by_kind["numeric"]:
        parts.append(("numeric", numbers, by_kind["numeric"]))
    if by_kind["categorical"]:
        parts.append(("categorical", categories, by_kind["categorical"]))
    for column in by_kind["text"]:
        words = TfidfVectorizer(
            sublinear_tf=True,
            min_df=min_df,
            max_features=_MAX_WORDS,
            token_pattern=r"(?u)\b\w+\b",  # words of one letter count too
            dtype=np.float32,
        )
        parts.append((f"text {column}", words, column))
    return ColumnTransformer(parts, sparse_threshold=1.0)


def check_encoder(encoder: ColumnTransformer) -> None:
    """Raise unless an encoder from a file is one of `make_encoder`, but for what it has learnt.

    Settings of scikit-learn's own parts can do harm: a pattern that never ends, texts that are
    taken for names of files to open.
    """
    own = make_encoder(_kinds_of(encoder))
    _check_part("the encoder", encoder, own)
    # What is applied is in transformers_, what was to be fitted in transformers.
    for parts in (encoder.transformers, encoder.transformers_):
        used = [(name, part) for name, part, _ in parts if (name, part) != ("remainder", "drop")]
        if [name for name, _ in used] != [name for name, _, _ in own.transformers]:
            raise FileFormatError(f"{_FOREIGN}: its parts are {[name for name, _ in used]}.")
        for (name, part), (_, expected, _) in zip(used, own.transformers, strict=True):
            _check_part(name, part, expected)


def _check_part(name: str, part: Any, own: Any) -> None:
    """Raise unless a part of an encoder is of the type and the settings of our own."""
    if type(part) is not type(own):
        raise FileFormatError(f"{_FOREIGN}: {name} is a {type(part).__name__}.")
    for setting, expected in own.get_params(deep=False).items():
        # By their text: NaN is not equal to itself. What another release lacks is not compared.
        found = getattr(part, setting, expected)
        if setting not in _ONLY_FOR_FITTING and repr(found) != repr(expected):
            raise FileFormatError(f"{_FOREIGN}: {name} has {setting}={found!r}.")
    if hasattr(own, "steps"):
        if [step for step, _ in part.steps] != [step for step, _ in own.steps]:
            raise FileFormatError(f"{_FOREIGN}: {name} has other steps.")
        for (step, inner), (_, expected) in zip(part.steps, own.steps, strict=True):
            _check_part(f"{name}, {step}", inner, expected)


def as_text(column: pd.Series) -> pd.Series:
    """Write a column's values as text, missing ones as ""; 3.0 and 3 are both "3".

    Integers become floats as soon as pandas meets a gap, so the two must read alike.
    """
    import pandas as pd

    if pd.api.types.is_integer_dtype(column.dtype) or pd.api.types.is_string_dtype(column):
        text = column.astype("string").fillna("").astype(object)
        return pd.Series(text.to_numpy(), index=column.index, name=column.name, dtype=object)
    codes, distinct = pd.factorize(column)
    names = np.array([*(_plain_text(value) for value in distinct), ""], dtype=object)
    return pd.Series(names[codes], index=column.index, name=column.name, dtype=object)


def _plain_text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _family(column: pd.Series) -> Family:
    from pandas.api import types

    if isinstance(column.dtype, types.CategoricalDtype):
        return "category"
    if types.is_numeric_dtype(column.dtype):
        return "number"
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        return "time"
    family = _FAMILIES.get(types.infer_dtype(column, skipna=True), "other")
    if family == "other" and column.map(types.is_list_like).any():
        raise TableError(
            f"A cell must hold one value, but column {column.name!r} holds lists or the like. "
            "Spread them over columns of their own, join them into text, or leave the column out "
            f'with kinds={{{column.name!r}: "drop"}} (--kind {column.name}=drop).'
        )
    return family


def _guess_kind(column: pd.Series) -> Kind:
    family = _family(column)
    if family in ("number", "time"):
        return "numeric" if column.nunique() > 1 else "drop"
    text = as_text(column).str.strip()
    given = text[text != ""]
    n_distinct = given.nunique()
    # One value and gaps is a mark on some rows; one value in every row tells nothing.
    if n_distinct == 0 or (n_distinct == 1 and len(given) == len(text)):
        return "drop"
    return "categorical" if family != "text" else _guess_text_kind(given, n_distinct)


def _guess_text_kind(given: pd.Series, n_distinct: int) -> Kind:
    n_words = given.str.count(r"\w+").mean()
    hardly_repeats = n_distinct > 20 and n_distinct > len(given) / 2
    if n_words > 3:
        return "text"
    if hardly_repeats:
        return "text" if n_words >= 1.5 else "drop"
    return "text" if n_distinct > _MANY_VALUES else "categorical"


def _check_kinds(wanted: Mapping[str, Kind], table: pd.DataFrame) -> None:
    for name, kind in wanted.items():
        if kind not in get_args(Kind):
            raise TableError(
                f"The kind of a column must be one of {', '.join(get_args(Kind))}; "
                f"got {kind!r} for column {name!r}."
            )
        if name not in table.columns:
            raise TableError(
                f"kinds names a column {name!r} that is not among the feature columns: "
                f"{', '.join(map(str, table.columns)) or 'there are none'}."
            )


def _fitted_kinds(
    encoder: ColumnTransformer, table: pd.DataFrame, wanted: Mapping[str, Kind]
) -> dict[str, Kind]:
    """Read off a fitted encoder what it takes each column for."""
    fitted = _kinds_of(encoder)
    missing = [name for name in fitted if name not in table.columns]
    if missing:
        raise TableError(
            "The table must have every column that the encoder was fitted on; missing: "
            f"{', '.join(missing)}. Add them (empty cells are allowed)."
        )
    settled: dict[str, Kind] = {name: fitted.get(name, "drop") for name in table.columns}
    for name, kind in wanted.items():
        if settled[name] != kind:
            raise InvalidInputError(
                f"Column {name!r} is {settled[name]!r} in the fitted encoder, kinds says {kind!r}. "
                "Leave kinds out, or fit anew."
            )
    return settled


def _kinds_of(encoder: ColumnTransformer) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for part, _, columns in encoder.transformers:
        kind: Kind = part.partition(" ")[0]
        kinds |= dict.fromkeys([columns] if kind == "text" else columns, kind)
    return kinds


def _prepare(table: pd.DataFrame, kinds: Mapping[str, Kind]) -> tuple[pd.DataFrame, list[str]]:
    """Bring every used column into the form that the encoder takes, and note gaps."""
    import pandas as pd

    prepared: dict[str, Any] = {}
    notes: list[str] = []
    for name, kind in kinds.items():
        if kind == "drop":
            continue
        column = table[name]
        _family(column)  # refuses lists
        values = _numbers(column) if kind == "numeric" else as_text(column).str.strip().to_numpy()
        prepared[name] = values
        n_empty = int(np.count_nonzero(np.isnan(values) if kind == "numeric" else values == ""))
        if n_empty:
            notes.append(_note_on_gaps(name, kind, n_empty))
    if not prepared:
        raise TableError(
            "The node table must have at least one column to learn from besides ids and labels; "
            f"of {len(table.columns)} columns none is left. Add features, or say what a column is "
            'with kinds={"name": "categorical"} (--kind name=categorical). Label propagation '
            "needs none: LabelPropagationClassifier (--method LP)."
        )
    return pd.DataFrame(prepared, index=table.index), notes


def _note_on_gaps(name: str, kind: Kind, n_empty: int) -> str:
    cells = f"{n_empty:,} empty cell{'s' if n_empty > 1 else ''} in column {name!r}"
    if kind == "numeric":
        return f"{cells} filled with the median"
    return f"{cells} taken as {'a category of their own' if kind == 'categorical' else 'no words'}"


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    if _family(column) == "time":
        column = _seconds(column)
    elif _family(column) != "number":
        text = as_text(column).str.strip()
        column = text.where(text != "", None)
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    unread = np.isnan(numbers) & column.notna().to_numpy()
    # Not only infinity: features are float32.
    bad = unread | (np.abs(numbers) > np.finfo(np.float32).max)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        held = column.iloc[[row]].tolist()[0]
        raise TableError(
            f"A numeric column must hold finite numbers, but column {column.name!r} holds "
            f"{held!r} in row {row + 1}. Correct or empty that cell, or say what the "
            f'column is with kinds={{{column.name!r}: "categorical"}} '
            f"(--kind {column.name}=categorical)."
        )
    return np.asarray(numbers, dtype=np.float64)


def _seconds(column: pd.Series) -> pd.Series:
    """Count seconds, for points in time since 1970."""
    import pandas as pd

    if "timedelta" in pd.api.types.infer_dtype(column, skipna=True):
        return pd.to_timedelta(column).dt.total_seconds()
    return (pd.to_datetime(column, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()


def _fit(encoder: ColumnTransformer, prepared: pd.DataFrame) -> Any:
    try:
        return encoder.fit_transform(prepared)
    except ValueError as error:
        if "vocabulary" not in str(error) and "no terms remain" not in str(error):
            raise
        words = [columns for part, _, columns in encoder.transformers if part.startswith("text ")]
        raise TableError(
            f"A text column must hold words that occur more than once; of {', '.join(words)} "
            'at least one does not. Leave it out with kinds={"name": "drop"} (--kind name=drop).'
        ) from error
