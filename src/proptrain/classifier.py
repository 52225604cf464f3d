"""What all classifiers share: reading features, predicting old and new nodes, saving."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from proptrain.data.dataset import Features, check_features
from proptrain.data.extend import count_new_nodes, extend_graph
from proptrain.errors import InvalidInputError
from proptrain.problem import Problem
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import PPR, Scheme


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the classifiers share: reading features, predicting, saving."""

    def predict_proba(self, X: Any = None, edges: Any = None) -> NDArray[np.float64]:
        """Return class probabilities, shape (m, C); rows sum to 1, columns follow ``classes_``.

        Without ``X``: of the fitted nodes, with the graph. With ``X``: of new nodes, with their
        ``edges`` to the fitted graph (see `proptrain.data.extend.extend_graph`), or from features
        alone.
        """
        check_is_fitted(self)
        if X is None and edges is None:
            return np.array(self.label_distributions_)
        features = None if X is None else self._features_of(X)
        if edges is None:
            self._warn_if_fitted_nodes(features)
        told: NDArray[np.float64] = (
            self._from_features(features) if edges is None else self._from_edges(features, edges)
        )
        return told

    def predict(self, X: Any = None, edges: Any = None) -> NDArray[Any]:
        """Return class labels, shape (m,), of what `predict_proba` is given."""
        check_is_fitted(self)
        likeliest: NDArray[Any] = self.classes_[self.predict_proba(X, edges).argmax(axis=1)]
        return likeliest

    def find_reached(self, edges: Any, n_new: int | None = None) -> NDArray[np.bool_]:
        """Return which new nodes a training label reaches, shape (m,): their `reached_`.

        ``edges`` are those of `predict`; ``n_new`` counts the new nodes where the edges alone do
        not, as pairs that leave out a last node without edges.
        """
        check_is_fitted(self)
        if n_new is None:
            n_new = count_new_nodes(edges, self.graph_.n_nodes)
        return is_reached(self._spread_to_new(edges, n_new))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to a folder: safetensors and JSON, nothing pickled."""
        from proptrain.persistence import save_model

        check_is_fitted(self)
        save_model(folder, self, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` wrote."""
        from proptrain.persistence import load_model

        estimator = load_model(folder).estimator
        if not isinstance(estimator, cls):
            raise InvalidInputError(
                f"{folder} holds a {type(estimator).__name__}, not a {cls.__name__}. "
                f"Load it with {type(estimator).__name__}.load."
            )
        return estimator

    def _features_of(self, X: Any, *, reset: bool = False) -> Features:
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        return check_features(checked)

    def _scheme(self) -> Scheme:
        if self.scheme is None:
            return PPR(self.alpha, self.steps)
        if isinstance(self.scheme, type) or not hasattr(self.scheme, "mixing"):
            raise InvalidInputError(
                "scheme must be None or one of PPR, Power, Mean, Heat and Exact with its numbers, "
                f"for example Heat(t=5.0); got {self.scheme!r}."
            )
        return self.scheme  # type: ignore[no-any-return]

    def _soft_labels(
        self, problem: Problem, nodes: NDArray[np.int64], engine: LocalEngine, scheme: Scheme
    ) -> NDArray[np.float32]:
        return propagate_labels(
            problem.codes, nodes, problem.n_classes, engine, scheme, clamp=self.clamp
        )

    def _spread_to_new(self, edges: Any, n_new: int) -> NDArray[np.float32]:
        """Return the soft labels (n_new, C) of new nodes: step 1 again, on the larger graph."""
        engine = LocalEngine(extend_graph(self.graph_, edges, n_new), self.normalisation)
        codes = np.concatenate([self.given_, np.full(n_new, -1)])
        training = np.setdiff1d(np.flatnonzero(codes >= 0), self.stopping_)
        soft_labels = propagate_labels(
            codes, training, len(self.classes_), engine, self._scheme(), clamp=self.clamp
        )
        return soft_labels[self.graph_.n_nodes :]

    def _finish(self, problem: Problem, distributions: NDArray[np.float64]) -> Self:
        self.classes_ = problem.classes
        self.graph_ = problem.graph
        self.given_ = problem.codes
        self.stopping_ = problem.stop
        self.label_distributions_ = distributions
        self.transduction_ = problem.classes[distributions.argmax(axis=1)]
        return self

    def _warn_if_fitted_nodes(self, features: Features) -> None:
        if self.graph_.n_edges and checksum(features) == self.features_checksum_:
            warnings.warn(
                "These are the features of the fitted nodes, and without their edges they are "
                "told from features alone. Use predict() without X, or transduction_, for the "
                "prediction with the graph.",
                UserWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def is_reached(soft_labels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the nodes that any mass of a label came to, shape (n,)."""
    return np.asarray(soft_labels.sum(axis=1) > 0)


def checksum(features: Features) -> int:
    """Return a number by which features that were seen before are known again."""
    if isinstance(features, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(features).tobytes())
    return zlib.crc32(features.indices.tobytes(), zlib.crc32(features.data.tobytes()))
