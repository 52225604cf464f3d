"""Search over parameters with scikit-learn, whose cross-validation cuts rows: labels, no graph.

`GridSearchCV` and its like give an estimator some rows of X and y and ask it for others. The rows
of a graph cannot be cut: every node's neighbours are needed. So the rows here are the nodes'
numbers, and to leave one out is to hide its label.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from proptrain.data.labels import encode_labels
from proptrain.data.splits import deal_folds
from proptrain.errors import InvalidInputError, LabelError, check_seed
from proptrain.problem import accuracy_on, one_column


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of this package whose X are node numbers: rows may be cut, the graph stays.

    `fit` gives the wrapped classifier all features, the whole graph and the labels of the nodes it
    is given; all other labels are hidden. `predict` tells any nodes of the graph. So every tool of
    scikit-learn that cuts rows hides labels.

    Parameters
    ----------
    estimator : classifier or Pipeline
        A classifier of this package, or a Pipeline that ends in one.
    features : (n, f) features of all nodes, or None for label propagation
    graph : graph of all nodes, whatever `PTAClassifier.fit` takes
        Features and graph are shared by all copies that scikit-learn makes, never copied.

    Attributes
    ----------
    estimator_ : the fitted classifier or Pipeline
    classes_ : (C,) the class labels

    Examples
    --------
    Six friends in a ring, four labels, two settings:

    >>> from sklearn.model_selection import GridSearchCV
    >>> from proptrain import LabelPropagationClassifier
    >>> ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    >>> y = ["left", "left", None, "right", "right", None]
    >>> on_ring = NodeClassifier(LabelPropagationClassifier(), None, ring)
    >>> search = GridSearchCV(on_ring, {"estimator__alpha": [0.1, 0.9]}, cv=LabelFolds(2))
    >>> search.fit(np.arange(6), y).best_params_, float(search.best_score_)
    ({'estimator__alpha': 0.1}, 1.0)
    >>> on_ring.fit([0, 4], ["left", "right"]).predict([1, 3])
    array(['left', 'right'], dtype='<U5')
    >>> on_ring.predict_proba([1, 3]).round(2)
    array([[0.83, 0.17],
           [0.17, 0.83]])
    """

    def __init__(self, estimator: Any, features: Any, graph: Any) -> None:
        self.estimator = estimator
        self.features = features
        self.graph = graph

    def fit(self, nodes: Any, y: Any) -> Self:
        """Fit to the labels y (m,) of the nodes with these numbers (m,); hide all others."""
        n_nodes = self._count_nodes()
        numbers, given = _checked_numbers(nodes, n_nodes), np.asarray(one_column(y), dtype=object)
        if given.shape != numbers.shape:
            raise LabelError(
                f"y must have one label for each of the {len(numbers):,} nodes, got shape "
                f"{given.shape}."
            )
        labels = np.full(n_nodes, None, dtype=object)
        labels[numbers] = given
        step = f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""
        fitted = clone(self.estimator).fit(self.features, labels, **{f"{step}graph": self.graph})
        self.estimator_ = fitted
        self.classes_ = fitted.classes_
        return self

    def predict_proba(self, nodes: Any) -> NDArray[np.float64]:
        """Return class probabilities (m, C) of the nodes with these numbers, by the graph."""
        check_is_fitted(self)
        told = _classifier_in(self.estimator_).label_distributions_
        return np.asarray(told[_checked_numbers(nodes, len(told))])

    def predict(self, nodes: Any) -> NDArray[Any]:
        """Return the likeliest classes (m,) of the nodes with these numbers."""
        return np.asarray(self.classes_[self.predict_proba(nodes).argmax(axis=1)])

    def score(self, nodes: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the labelled ones of the nodes with these numbers (m,).

        So scikit-learn's own splitters do for y (m,) with unlabelled nodes: these do not count.

        >>> from proptrain import LabelPropagationClassifier
        >>> path = NodeClassifier(LabelPropagationClassifier(), None, [(0, 1), (1, 2), (2, 3)])
        >>> path.fit([0, 3], ["left", "right"]).score([1, 2], [None, "left"])
        0.0
        """
        marker = _classifier_in(self.estimator).unlabelled
        return accuracy_on(y, self.predict(nodes), marker, sample_weight)

    def _count_nodes(self) -> int:
        if self.features is not None:
            return int(np.shape(self.features)[0])
        from proptrain.data.convert import as_graph

        return as_graph(self.graph).n_nodes

    def __sklearn_clone__(self) -> NodeClassifier:
        # scikit-learn would copy features and graph for each fit of a search.
        return type(self)(clone(self.estimator), self.features, self.graph)


class LabelFolds:
    """Cross-validation that hides a fold of the labels at a time, each class dealt evenly.

    A splitter for `cv=` of scikit-learn's tools. Unlabelled nodes are never tested, and always
    among those that are fitted to; so is the only label of a class.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    seed : int
        Decides who is in which.
    unlabelled : object
        Value of y that means unlabelled, beside None, NaN and "".

    Examples
    --------
    >>> LabelFolds(2).get_n_splits()
    2
    >>> for train, test in LabelFolds(2).split(None, ["a", "a", None, "b", "b"]):
    ...     print(train, test)
    [0 2 4] [1 3]
    [1 2 3] [0 4]
    """

    def __init__(self, n_splits: int = 5, *, seed: int = 0, unlabelled: Any = -1) -> None:
        is_whole = isinstance(n_splits, int | np.integer) and not isinstance(n_splits, bool)
        if not (is_whole and n_splits >= 2):
            raise InvalidInputError(
                f"n_splits must be a whole number, at least 2, got {n_splits!r}."
            )
        self.n_splits = int(n_splits)
        self.seed = seed
        self.unlabelled = unlabelled

    def split(
        self,
        X: Any,  # noqa: ARG002 - scikit-learn gives it
        y: Any,
        groups: Any = None,  # noqa: ARG002 - as above
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows to fit to and the rows to test, for each fold of the labels y (n,)."""
        codes, _ = encode_labels(one_column(y), unlabelled=self.unlabelled)
        known = np.flatnonzero(codes >= 0)
        check_seed(self.seed)
        folds = deal_folds(codes[known], self.n_splits, np.random.RandomState(self.seed))
        n_dealt = len(np.unique(folds[folds >= 0]))
        if n_dealt < self.n_splits:
            raise LabelError(
                f"Each of the {self.n_splits} folds must have a label, but there are labels for "
                f"{n_dealt} only. (The only label of a class is never hidden.) Ask for fewer folds."
            )
        for fold in range(self.n_splits):
            test = known[folds == fold]
            yield np.setdiff1d(np.arange(len(codes)), test), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return the number of folds, whatever X (n, 1) and y (n,) are."""
        return self.n_splits


def _classifier_in(estimator: Any) -> Any:
    """Return what a Pipeline ends in; what is none, itself."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _checked_numbers(nodes: Any, n_nodes: int) -> NDArray[np.int64]:
    numbers = np.asarray(nodes)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InvalidInputError(
            "X must be node numbers here, shape (m,), such as np.arange(n) or np.flatnonzero(m); "
            f"got an array of shape {numbers.shape} and dtype {numbers.dtype}. The features belong "
            "to NodeClassifier(estimator, features, graph)."
        )
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < n_nodes):
        raise InvalidInputError(
            f"Node numbers must lie between 0 and {n_nodes - 1:,}, got {numbers.min()} to "
            f"{numbers.max()}."
        )
    return numbers.astype(np.int64)
