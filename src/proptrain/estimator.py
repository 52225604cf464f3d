"""scikit-learn's face of the three steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from proptrain.classifier import (
    GraphClassifier,
    Layout,
    is_reached,
    needed,
    watched_nodes,
)
from proptrain.data.dataset import UNLABELLED, Features
from proptrain.ensemble.predictions import (
    ensemble_predictions,
    spread_or_own,
)
from proptrain.errors import InvalidInputError
from proptrain.problem import Problem, pose_problem, random_of
from proptrain.propagate.engine import Engine
from proptrain.propagate.labels import equal_labels
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import Scheme
from proptrain.propagate.torch_engine import engine_on
from proptrain.system.devices import torch_device
from proptrain.train.loop import OnEpoch, predict_probabilities
from proptrain.train.stopping import StoppingNodes
from proptrain.train.weighting import Adaptive, Weighting, dynamic, static

if TYPE_CHECKING:
    from proptrain.data.splits import Tell

_AUDIT_EPOCHS = 100


class PTAClassifier(GraphClassifier):
    """Propagate labels, train on them with adaptive weights, propagate the predictions.

    With no argument this is the paper's PTA with the paper's settings. PTS and PTD differ in the
    weighting: ``PTAClassifier(weighting="static")`` and
    ``PTAClassifier(weighting="dynamic", loss_weight=10)``. PTA(F) is ``fast=True``.

    Parameters
    ----------
    weighting : {"adaptive", "static", "dynamic"} or callable
        How much a soft label counts: f^gamma with gamma = log(1 + epoch/epsilon), 0 or 1; or a
        function (confidence, epoch) -> weights.
    epsilon : float
        How slowly the adaptive gamma grows.
    alpha : float
        Weight of the restart in the propagation of labels and predictions. (Some libraries call
        the weight of the *neighbours* alpha.)
    steps : int
        Number of steps of both propagations.
    scheme : Scheme or None
        Another propagation than ``PPR(alpha, steps)``: `Power`, `Mean`, `Heat`, `Exact`.
    normalisation : {"symmetric", "symmetric-no-loops", "row"}
        How the adjacency matrix is scaled.
    clamp : bool
        Put the known labels back after every step of label propagation.
    equal_hops : int or None
        A number: instead of propagation, every known label counts the same for all nodes within
        that many hops (our reading of the paper's APPNP-noa-nof).
    n_hidden : int
        Width of the network's hidden layer.
    dropout : float
        Share of the features and of the hidden layer that is dropped in a step of training.
    learning_rate : float
        Adam's.
    loss_weight : float
        The paper's lambda1, the factor of the soft-label loss.
    weight_decay : float
        Factor of ||W1||² / 2, on the first layer only.
    max_epochs : int
        Most epochs that are trained.
    patience : int
        Epochs that are trained on after the last that was as good as the best.
    batch_size : int or None
        Train in steps for so many nodes at a time, shuffled; None is one step for all of them, as
        in the paper. For data that do not fit into memory see `fit_from_disk`.
    stopping_fraction : float
        Share of each class's labels that is kept from training and decides when to stop;
        ``fit(..., stopping=nodes)`` names the nodes instead. With no stopping nodes at all, the
        training nodes are watched themselves.
    fast : bool
        Early stopping looks at f(X) itself, without the ensemble; the prediction still ensembles.
    n_neighbors : int
        Neighbours of a node in ``graph="knn"``.
    device : str or torch.device
        Where to fit: "auto" is a GPU if torch can use one, else the CPU; "cpu"; or what torch
        calls a device, such as "cuda:1". A fitted model predicts on the CPU.
    unlabelled : object
        Value of y that means unlabelled, beside None, NaN and "".
    random_state : int, RandomState or None
        Decides the stopping nodes, the initial weights and the dropout.

    Attributes
    ----------
    classes_ : (C,) the class labels
    label_distributions_ : (n, C) probabilities of the fitted nodes; rows sum to 1
    transduction_ : (n,) the likeliest class of each fitted node
    reached_ : (n,) whether a training label reached the node over the graph
    soft_labels_ : (n, C) the propagated training labels, step 1
    probabilities_ : (n, C) the network's own predictions, step 2
    history_ : losses, accuracies and gamma of each epoch
    n_iter_ : number of epochs run
    best_epoch_ : the epoch whose weights were kept
    stopping_ : indices of the stopping nodes

    Examples
    --------
    Two pairs of friends, one label in each:

    >>> import numpy as np
    >>> clf = PTAClassifier(random_state=0)
    >>> X = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])
    >>> clf.fit(X, ["left", None, "right", None], graph=[(0, 1), (2, 3), (3, 2)]).transduction_
    array(['left', 'left', 'right', 'right'], dtype='<U5')
    """

    def __init__(
        self,
        *,
        weighting: Literal["adaptive", "static", "dynamic"] | Weighting = "adaptive",
        epsilon: float = 100.0,
        alpha: float = 0.1,
        steps: int = 10,
        scheme: Scheme | None = None,
        normalisation: Normalisation = "symmetric",
        clamp: bool = True,
        equal_hops: int | None = None,
        n_hidden: int = 64,
        dropout: float = 0.0,
        learning_rate: float = 0.1,
        loss_weight: float = 0.05,
        weight_decay: float = 0.005,
        max_epochs: int = 2000,
        patience: int = 100,
        batch_size: int | None = None,
        stopping_fraction: float = 0.2,
        fast: bool = False,
        n_neighbors: int = 10,
        device: Any = "auto",
        unlabelled: Any = -1,
        random_state: Any = None,
    ) -> None:
        self.weighting = weighting
        self.epsilon = epsilon
        self.alpha = alpha
        self.steps = steps
        self.scheme = scheme
        self.normalisation = normalisation
        self.clamp = clamp
        self.equal_hops = equal_hops
        self.n_hidden = n_hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.loss_weight = loss_weight
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.stopping_fraction = stopping_fraction
        self.fast = fast
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
        """Fit to the features X (n, f), labels y (n,) and graph of all nodes.

        ``y`` has -1, None, NaN or "" for unlabelled nodes. ``graph`` is an adjacency matrix, an
        edge list, a NetworkX or PyTorch Geometric graph; "knn" builds one from X; None means no
        edges. ``stopping`` names the labelled nodes (indices or mask) that only decide when to
        stop: the model never sees their labels. ``on_epoch`` is called with the number and the
        stopping accuracy of each epoch, for a progress bar.

        A path of four nodes with a label at each end:

        >>> import numpy as np
        >>> clf = PTAClassifier(max_epochs=30, random_state=0)
        >>> _ = clf.fit(np.eye(4), ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> clf.transduction_
        array(['left', 'left', 'right', 'right'], dtype='<U5')
        """
        self._check_switches("clamp", "fast")
        device = torch_device(self.device)
        features = self._features_of(X, reset=True)
        random = random_of(self.random_state)
        problem = pose_problem(features, y, graph, stopping, random=random, **self._posing())
        engine, scheme = engine_on(device, problem.graph, self.normalisation), self._scheme()
        soft_labels = self._soft_labels(problem.codes, problem.train, problem.n_classes, engine)
        trained = self._train(
            features,
            soft_labels,
            self._stopping_nodes(problem, engine, scheme),
            random,
            weighting=self._weighting(),
            settings=self._settings(self.loss_weight),
            device=device,
            on_epoch=on_epoch,
        )
        self._keep_trained(trained, features)
        self.soft_labels_ = soft_labels
        self.reached_ = is_reached(soft_labels)
        self.probabilities_ = predict_probabilities(self.weights_, features)
        scores = ensemble_predictions(self.probabilities_, engine, scheme)
        return self._finish(problem, spread_or_own(scores, self.probabilities_))

    def _auditor(self) -> PTAClassifier:
        """Return what learns from other labels for an audit, not trained yet."""
        # Without nodes to stop by: every label is learnt from, and for too short a time to fit
        # single wrong ones.
        n_epochs = min(self.max_epochs, _AUDIT_EPOCHS)
        return clone(self).set_params(  # type: ignore[no-any-return]
            stopping_fraction=0.0,
            max_epochs=n_epochs,
            patience=n_epochs,
            unlabelled=UNLABELLED,
        )

    def _teller(self, features: Features, seed: int) -> Tell:
        """Return what trains a model like this one on other labels, and says what it tells."""
        untrained = self._auditor()
        random = np.random.RandomState(seed)

        def tell(learnt: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.float64]:
            drawn = clone(untrained).set_params(random_state=random.randint(2**31 - 1))
            fitted = drawn.fit(features, learnt, graph=self.graph_)
            told: NDArray[np.float64] = fitted.label_distributions_[nodes]
            return told

        return tell

    def _from_edges(self, features: Features | None, edges: Any) -> NDArray[np.float64]:
        return self._ensembled_with(predict_probabilities(self.weights_, needed(features)), edges)

    def _soft_labels(
        self,
        codes: NDArray[np.int64],
        known: NDArray[np.int64],
        n_classes: int,
        engine: Engine,
    ) -> NDArray[np.float32]:
        if self.equal_hops is None:
            return super()._soft_labels(codes, known, n_classes, engine)
        if not (isinstance(self.equal_hops, int | np.integer) and self.equal_hops >= 0):
            raise InvalidInputError(
                f"equal_hops must be None or a whole number, 0 or more, got {self.equal_hops!r}."
            )
        return equal_labels(codes, known, n_classes, engine, self.equal_hops)

    def _stopping_nodes(self, problem: Problem, engine: Engine, scheme: Scheme) -> StoppingNodes:
        watched = watched_nodes(problem)
        return StoppingNodes(
            watched,
            problem.codes[watched],
            self._soft_labels(problem.codes, watched, problem.n_classes, engine),
            None if self.fast else lambda f: ensemble_predictions(f, engine, scheme),
        )

    def _layout(self) -> Layout:
        of_nodes = super()._layout()
        told = of_nodes["label_distributions_"]
        return {**of_nodes, **self._trained_layout(), "soft_labels_": told, "probabilities_": told}

    def _weighting(self) -> Weighting:
        if callable(self.weighting):
            return self.weighting
        known: dict[str, Weighting] = {
            "adaptive": Adaptive(self.epsilon),
            "static": static,
            "dynamic": dynamic,
        }
        if not isinstance(self.weighting, str) or self.weighting not in known:
            raise InvalidInputError(
                f"weighting must be one of {', '.join(known)}, or a function (confidence, epoch) "
                f"-> weights; got {self.weighting!r}."
            )
        return known[self.weighting]
