"""Label propagation by itself, what PTA is to be compared with first."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from proptrain.classifier import GraphClassifier, Layout, checksum, is_reached
from proptrain.data.dataset import Features
from proptrain.data.extend import count_new_nodes
from proptrain.data.knn import has_direction, in_range
from proptrain.ensemble.predictions import to_distributions
from proptrain.errors import InvalidInputError, check_count
from proptrain.problem import Problem, pose_problem, random_of
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import Scheme
from proptrain.propagate.torch_engine import engine_on
from proptrain.system.devices import torch_device
from proptrain.train.loop import OnEpoch


class LabelPropagationClassifier(GraphClassifier):
    """Plain label propagation: step 1 alone, its soft labels read as the prediction.

    Ȳ = Y_K with Y_0 = Y, the one-hot training labels (n, C), and Y_k = (1 - alpha) Â Y_(k-1) +
    alpha Y; with ``clamp`` the rows of training nodes are put back to Y after every step. What is
    told of a node is its row of Ȳ divided by its sum.

    Features serve only to build a graph where none is given, so ``graph`` is "knn" by default,
    and X may be None where a graph is. A new node is told by its edges, or without them by its
    nearest fitted nodes; one without any feature gets the probabilities of ``unreached``.

    The parameters alpha, steps, scheme, normalisation, clamp, n_neighbors, device, unlabelled and
    random_state are those of `PTAClassifier`.

    Parameters
    ----------
    unreached : {"prior", "uniform"}
        Probabilities of nodes that no label reaches: the classes' shares among the labels, or the
        same for all classes. ``reached_`` says which nodes these are, and one warning how many.

    Examples
    --------
    >>> clf = LabelPropagationClassifier()
    >>> clf.fit(None, ["left", None, "right", None], graph=[(0, 1), (2, 3), (3, 2)]).transduction_
    array(['left', 'left', 'right', 'right'], dtype='<U5')
    """

    _numbers = ("features_checksum_",)
    features_: Features | None = None  # those of the fitted nodes, if they had any

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        steps: int = 10,
        scheme: Scheme | None = None,
        normalisation: Normalisation = "symmetric",
        clamp: bool = True,
        unreached: Literal["prior", "uniform"] = "prior",
        n_neighbors: int = 10,
        device: Any = "auto",
        unlabelled: Any = -1,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.steps = steps
        self.scheme = scheme
        self.normalisation = normalisation
        self.clamp = clamp
        self.unreached = unreached
        self.n_neighbors = n_neighbors
        self.device = device
        self.unlabelled = unlabelled
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        graph: Any = "knn",
        stopping: Any = None,
        on_epoch: OnEpoch | None = None,  # noqa: ARG002 - for the same face; there are no epochs
    ) -> Self:
        """Propagate the labels y (n,) over the graph; see `PTAClassifier.fit`.

        ``stopping`` nodes are left out, so that both classifiers see the same labels.
        """
        self._check_switches("clamp")
        device = torch_device(self.device)
        features = None if X is None else self._features_of(X, reset=True)
        random = random_of(self.random_state)
        problem = pose_problem(features, y, graph, stopping, random=random, **self._posing())
        self.features_ = features
        self.features_checksum_ = -1 if features is None else checksum(features)
        self.fallback_ = self._fallback(problem)
        engine = engine_on(device, problem.graph, self.normalisation)
        scores = self._soft_labels(problem.codes, problem.train, problem.n_classes, engine)
        self.reached_ = is_reached(scores)
        n_unreached = int((~self.reached_).sum())
        if n_unreached:
            warnings.warn(
                f"No label reaches {n_unreached:,} of {len(scores):,} nodes within "
                f"{len(self._scheme().mixing)} steps; they get the {self.unreached} "
                "probabilities. See reached_.",
                UserWarning,
                stacklevel=2,
            )
        return self._finish(problem, to_distributions(scores, self.fallback_))

    def _fallback(self, problem: Problem) -> NDArray[np.float64]:
        if self.unreached == "uniform":
            return np.full(problem.n_classes, 1 / problem.n_classes)
        if self.unreached != "prior":
            raise InvalidInputError(
                f"unreached must be 'prior' or 'uniform', got {self.unreached!r}."
            )
        counts = np.bincount(problem.codes[problem.train], minlength=problem.n_classes)
        return np.asarray(counts / counts.sum())

    def _from_features(self, features: Features) -> NDArray[np.float64]:
        if self.features_ is None:
            raise InvalidInputError(
                "This model was fitted without features, so new nodes need their edges: "
                "predict(X, edges=...)."
            )
        check_count("n_neighbors", self.n_neighbors)
        n_neighbors = min(self.n_neighbors, self.graph_.n_nodes)
        nearest = NearestNeighbors(n_neighbors=n_neighbors, metric="cosine")
        nearest.fit(in_range(self.features_))
        neighbours = nearest.kneighbors(in_range(features), return_distance=False)  # (m, k)
        shares: NDArray[np.float64] = self.label_distributions_[neighbours].mean(axis=1)
        # To a row of zeros all nodes are equally far, and which came first would decide.
        return np.where(has_direction(features)[:, np.newaxis], shares, self.fallback_)

    def _from_edges(self, features: Features | None, edges: Any) -> NDArray[np.float64]:
        n_old = self.graph_.n_nodes
        n_new = count_new_nodes(edges, n_old) if features is None else features.shape[0]
        return to_distributions(self._spread_to_new(edges, n_new), self.fallback_)

    def _layout(self) -> Layout:
        layout = {**super()._layout(), "fallback_": ("f", (len(self.classes_),))}
        if self.features_checksum_ < 0:  # it was fitted without features
            return layout
        return {**layout, "features": ("f", (self.graph_.n_nodes, self.n_features_in_))}
