"""Correct and smooth: the paper's closest relative among earlier methods."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from proptrain.classifier import GraphClassifier, Layout, is_reached, needed
from proptrain.data.dataset import Features
from proptrain.data.mapped import row_sums
from proptrain.ensemble.predictions import spread_or_own
from proptrain.problem import pose_problem, random_of
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import one_hot
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import PPR, Scheme
from proptrain.system.devices import check_cpu
from proptrain.train.loop import OnEpoch, predict_probabilities


class CorrectAndSmoothClassifier(GraphClassifier):
    """Train a network without the graph, spread its errors, then spread its predictions.

    After "Combining Label Propagation and Simple Models Out-performs Graph Neural Networks"
    (ICLR 2021): the network learns from the labelled nodes alone; what it gets wrong there is
    propagated and added, scaled to the mean error (correct); then the result, with the known
    labels put in, is propagated (smooth). Stopping nodes only stop: their labels are not put in.

    With f(X) (n, C), one-hot labels Y and training nodes L: E_i = Y_i - f_i in L and 0 elsewhere;
    Ê = Ā E with the rows of L held; G_i = f_i + σ Ê_i / ‖Ê_i‖₁ with σ = mean over L of ‖E_i‖₁, and
    G_i = Y_i in L; told is Ā G, negative numbers as 0, each row divided by its sum.

    All parameters that are not listed here are those of `PTAClassifier`.

    Parameters
    ----------
    alpha : float
        Weight of the restart, for errors and predictions alike.
    steps : int
        Number of steps of each propagation.
    device : {"auto", "cpu"}
        Both are the CPU, where the network is trained.

    Examples
    --------
    >>> import numpy as np
    >>> clf = CorrectAndSmoothClassifier(random_state=0)
    >>> X = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])
    >>> clf.fit(X, ["left", None, "right", None], graph=[(0, 1), (2, 3), (3, 2)]).transduction_
    array(['left', 'left', 'right', 'right'], dtype='<U5')
    """

    clamp = True  # the known labels stay what they are
    _on_cpu_alone = True

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        steps: int = 10,
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
        self.alpha = alpha
        self.steps = steps
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
        features = self._features_of(X, reset=True)
        random = random_of(self.random_state)
        problem = pose_problem(features, y, graph, stopping, random=random, **self._posing())
        codes, train = problem.codes, problem.train
        engine = LocalEngine(problem.graph, self.normalisation)
        self.reached_ = is_reached(self._soft_labels(codes, train, problem.n_classes, engine))
        self._train_on_labels(features, problem, random, on_epoch=on_epoch)
        self.probabilities_ = predict_probabilities(self.weights_, features)
        told = self._correct_and_smooth(self.probabilities_, codes, train, engine)
        return self._finish(problem, told)

    def _scheme(self) -> Scheme:
        return PPR(self.alpha, self.steps)

    def _correct_and_smooth(
        self,
        probabilities: NDArray[Any],
        codes: NDArray[np.int64],
        train: NDArray[np.int64],
        engine: LocalEngine,
    ) -> NDArray[np.float64]:
        f = np.asarray(probabilities, dtype=np.float32)
        truth = one_hot(codes, train, f.shape[1])
        errors = np.zeros_like(f)
        errors[train] = truth[train] - f[train]
        spread = engine.propagate(errors, self._scheme(), fixed=train)
        size = row_sums(np.abs(spread))[:, None]
        mean_size = size[train].mean()  # those of the known nodes are the errors themselves
        # What is next to nothing is not an error; scaled up it would leave the finite numbers.
        told = size > 1e-30
        corrected = f + np.divide(mean_size, size, out=np.zeros_like(size), where=told) * spread
        corrected[train] = truth[train]
        smoothed = engine.propagate(corrected, self._scheme())
        return spread_or_own(np.maximum(smoothed, 0), f)

    def _from_edges(self, features: Features | None, edges: Any) -> NDArray[np.float64]:
        new = predict_probabilities(self.weights_, needed(features))
        codes, train = self._known_among(len(new))
        together = np.concatenate([self.probabilities_, new])
        engine = self._enlarged(edges, len(new))
        return self._correct_and_smooth(together, codes, train, engine)[self.graph_.n_nodes :]

    def _layout(self) -> Layout:
        of_nodes = super()._layout()
        told = of_nodes["label_distributions_"]
        return {**of_nodes, **self._trained_layout(), "probabilities_": told}
