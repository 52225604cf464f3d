"""Graph neural networks with the face of `PTAClassifier`, to compare it with."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.classifier import GraphClassifier, Layout, is_reached, needed
from proptrain.data.dataset import Features
from proptrain.data.graph import Graph
from proptrain.errors import InvalidInputError, unknown_name
from proptrain.models.networks import DAGNN, GCN, Decoupled, Linear
from proptrain.models.spread import Spread
from proptrain.problem import pose_problem, random_of
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import PPR, Exact, Mean, Power, Scheme
from proptrain.system.devices import check_cpu
from proptrain.train.loop import OnEpoch, probabilities_told
from proptrain.train.predictor import Network, Predictor

Architecture = Literal["MLP", "GCN", "SGCN", "DAGNN", "APPNP", "PPNP"]

_STEPS = {"MLP": 0, "GCN": 2, "SGCN": 2, "DAGNN": 10, "APPNP": 10}

_ONLY_FOR: dict[str, tuple[Any, tuple[Architecture, ...]]] = {
    "alpha": (0.1, ("APPNP", "PPNP")),
    "steps": (None, ("APPNP", "SGCN", "DAGNN")),
    "edge_dropout": (0.0, ("APPNP",)),
    "ensemble": (True, ("APPNP", "PPNP", "SGCN")),
}
"""Parameters that not every network heeds: the default, and who heeds other values."""


class GNNClassifier(GraphClassifier):
    """A network with the graph inside, trained on the labelled nodes alone.

    These are what the paper compares PTA with: every step of training spreads over the whole
    graph. They are trained by cross entropy, mean over the training nodes, and stop as PTA does.

    Parameters and attributes that are not listed here are those of `PTAClassifier`.

    Parameters
    ----------
    architecture : {"APPNP", "PPNP", "GCN", "SGCN", "DAGNN", "MLP"}
        With f(X) = ReLU(X W1 + b1) W2 + b2, all scores are (n, C), and their softmax is told.

        * APPNP: Z_K of Z_k = (1 - alpha) Â Z_(k-1) + alpha Z_0 with Z_0 = f(X), two layers first;
        * PPNP: alpha (I - (1 - alpha) Â)^-1 f(X), the same to convergence;
        * GCN: Â ReLU(Â X W1 + b1) W2 + b2, a step over the graph in each layer;
        * SGCN: Â^steps X W1, a single layer;
        * DAGNN: Σ_k s_k ⊙ Â^k f(X) with s_k = sigmoid(Â^k f(X) v + b), a learned mixture;
        * MLP: f(X), no graph.
    alpha : float
        Weight of the restart (APPNP, PPNP).
    steps : int or None
        Steps over the graph (APPNP, DAGNN, SGCN); None means 10, and 2 for SGCN. GCN always has 2.
    edge_dropout : float
        Share of Â's entries left out, drawn anew in each step of a training step (APPNP).
    ensemble : bool
        If False, nodes are told by the network without the graph, which then serves training
        alone (APPNP, PPNP, SGCN).
    device : {"auto", "cpu"}
        Both are the CPU, where these networks are trained.

    Examples
    --------
    >>> import numpy as np
    >>> clf = GNNClassifier(architecture="APPNP", random_state=0)
    >>> X = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])
    >>> clf.fit(X, ["left", None, "right", None], graph=[(0, 1), (2, 3), (3, 2)]).transduction_
    array(['left', 'left', 'right', 'right'], dtype='<U5')
    """

    clamp = False  # no row is held fixed in these networks
    _on_cpu_alone = True
    _with_biases: tuple[str, ...] = ("MLP", "DAGNN")

    def __init__(
        self,
        *,
        architecture: Architecture = "APPNP",
        alpha: float = 0.1,
        steps: int | None = None,
        edge_dropout: float = 0.0,
        ensemble: bool = True,
        normalisation: Normalisation = "symmetric",
        n_hidden: int = 64,
        dropout: float = 0.5,
        learning_rate: float = 0.01,
        weight_decay: float = 0.005,
        max_epochs: int = 2000,
        patience: int = 100,
        stopping_fraction: float = 0.2,
        n_neighbors: int = 10,
        device: Any = "auto",
        unlabelled: Any = -1,
        random_state: Any = None,
    ) -> None:
        self.architecture = architecture
        self.alpha = alpha
        self.steps = steps
        self.edge_dropout = edge_dropout
        self.ensemble = ensemble
        self.normalisation = normalisation
        self.n_hidden = n_hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.stopping_fraction = stopping_fraction
        self.n_neighbors = n_neighbors
        self.device = device
        self.unlabelled = unlabelled
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        graph: Any = None,
        stopping: Any = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Fit to the features X (n, f), labels y (n,) and graph; see `PTAClassifier.fit`."""
        check_cpu(self.device, type(self).__name__)
        self._check_parameters()
        self._warn_of_unheeded()
        features = self._features_of(X, reset=True)
        random = random_of(self.random_state)
        problem = pose_problem(features, y, graph, stopping, random=random, **self._posing())
        n_features, n_classes = features.shape[1], problem.n_classes
        engine = LocalEngine(problem.graph, self.normalisation)
        self._train_on_labels(
            features,
            problem,
            random,
            network=lambda generator: self._network(engine, n_features, n_classes, generator),
            on_epoch=on_epoch,
        )
        self.features_ = features
        reach = self._soft_labels(problem.codes, problem.train, n_classes, engine)
        self.reached_ = is_reached(reach)
        return self._finish(problem, self._tell(features, engine, n_classes))

    def _check_parameters(self) -> None:
        """Raise for what cannot be."""
        self._check_switches("ensemble")
        if self.architecture not in get_args(Architecture):
            raise unknown_name("architecture", self.architecture, get_args(Architecture))
        PPR(self.alpha, 0 if self.steps is None else self.steps)  # which says what they must be
        is_number = isinstance(self.edge_dropout, float | int | np.floating)
        if not (is_number and 0 <= self.edge_dropout < 1):
            raise InvalidInputError(
                f"edge_dropout must be at least 0 and below 1, got {self.edge_dropout!r}."
            )

    def _warn_of_unheeded(self) -> None:
        """Say what has no effect. No error: a search over networks varies all of them alike."""
        for name, (default, architectures) in _ONLY_FOR.items():
            if getattr(self, name) != default and self.architecture not in architectures:
                warnings.warn(
                    f"{name}={getattr(self, name)!r} has no effect on {self.architecture}, only on "
                    f"{', '.join(architectures)}.",
                    UserWarning,
                    stacklevel=3,
                )

    def _n_steps(self) -> int:
        is_heeded = self.architecture in _ONLY_FOR["steps"][1]
        return self.steps if is_heeded and self.steps is not None else _STEPS[self.architecture]

    def _scheme(self) -> Scheme:
        if self.architecture == "PPNP":
            return Exact(self.alpha)
        if self.architecture == "APPNP":
            return PPR(self.alpha, self._n_steps())
        if self.architecture == "DAGNN":  # weighs the powers itself; each of them may carry a label
            return Mean(self._n_steps())
        return Power(self._n_steps())

    def _network(
        self, engine: LocalEngine, n_features: int, n_classes: int, generator: torch.Generator
    ) -> Network:
        sizes, step = (n_features, n_classes), Spread(engine, Power(1))
        drawn: dict[str, Any] = {"dropout": self.dropout, "generator": generator}
        if self.architecture == "GCN":
            return GCN(*sizes, step, n_hidden=self.n_hidden, **drawn)
        if self.architecture == "SGCN":
            spread = Spread(engine, self._scheme())
            return Decoupled(Linear(*sizes, **drawn), spread, ensembles=self.ensemble)
        has_biases = self.architecture in self._with_biases
        f = Predictor(*sizes, n_hidden=self.n_hidden, bias=has_biases, **drawn)
        if self.architecture == "MLP":
            return f
        if self.architecture == "DAGNN":
            return DAGNN(f, step, self._n_steps(), n_classes=n_classes, generator=generator)
        edge_dropout = self.edge_dropout if self.architecture == "APPNP" else 0.0
        spread = Spread(engine, self._scheme(), edge_dropout)
        return Decoupled(f, spread, ensembles=self.ensemble)

    def _tell(self, features: Features, engine: LocalEngine, n_classes: int) -> NDArray[np.float64]:
        network = self._network(engine, features.shape[1], n_classes, torch.Generator())
        told = probabilities_told(network, self.weights_, features).astype(np.float64)
        return np.asarray(told / told.sum(axis=1, keepdims=True))

    def _from_features(self, features: Features) -> NDArray[np.float64]:
        alone = Graph.without_edges(features.shape[0])
        return self._tell(features, LocalEngine(alone, self.normalisation), len(self.classes_))

    def _from_edges(self, features: Features | None, edges: Any) -> NDArray[np.float64]:
        together = _stacked(self.features_, needed(features))
        n_old, n_all = self.graph_.n_nodes, together.shape[0]
        engine = self._enlarged(edges, n_all - n_old)
        return self._tell(together, engine, len(self.classes_))[n_old:]

    def _layout(self) -> Layout:
        self._check_parameters()  # they decide which network it is
        features = ("f", (self.graph_.n_nodes, self.n_features_in_))
        return {**super()._layout(), **self._trained_layout(), "features": features}


def _stacked(old: Features, new: Features) -> Features:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return np.concatenate([old, new])
    return sp.csr_array(sp.vstack([sp.csr_array(old), sp.csr_array(new)]))
