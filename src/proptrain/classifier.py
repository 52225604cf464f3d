"""What all classifiers share: reading features, predicting old and new nodes, saving."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from proptrain.data.dataset import Features, check_features
from proptrain.data.extend import count_new_nodes, extend_graph
from proptrain.data.graph import Graph
from proptrain.data.indices import off_torch
from proptrain.data.sound import sound_matrix
from proptrain.ensemble.predictions import (
    ensemble_predictions,
    spread_or_own,
    to_distributions,
)
from proptrain.errors import InvalidInputError, WrongTypeError
from proptrain.problem import Problem, accuracy_on
from proptrain.propagate.engine import Engine, LocalEngine
from proptrain.propagate.labels import one_hot, propagate_labels
from proptrain.propagate.schemes import PPR, Scheme
from proptrain.train.backend import KERNELS
from proptrain.train.loop import (
    History,
    NewNetwork,
    OnEpoch,
    Trained,
    TrainSettings,
    predict_probabilities,
    train_predictor,
)
from proptrain.train.predictor import Network, Predictor
from proptrain.train.stopping import StoppingNodes
from proptrain.train.torch_backend import torch_backend
from proptrain.train.weighting import Weighting, static

if TYPE_CHECKING:
    from proptrain.insight.audit import Audit
    from proptrain.insight.explanation import Explanation

Layout: TypeAlias = dict[str, tuple[str, tuple[int | None, ...]]]
"""Dtype kind and shape of each array of a saved model, by its name there; None is any length."""


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the classifiers share: reading features, training, predicting, saving.

    >>> from proptrain import PTAClassifier
    >>> isinstance(PTAClassifier(), GraphClassifier)
    True
    """

    # The whole numbers that a fitted classifier has without fail.
    _numbers: tuple[str, ...] = ("n_features_in_", "features_checksum_", "n_iter_", "best_epoch_")
    _on_cpu_alone = False  # whether no other device can fit it

    def predict_proba(
        self, X: Any = None, edges: Any = None, *, calibrated: bool = False
    ) -> NDArray[np.float64]:
        """Return class probabilities, shape (m, C); rows sum to 1, columns follow ``classes_``.

        Without ``X``: of the fitted nodes, with the graph. With ``X``: of new nodes, with their
        ``edges`` to the fitted graph (see `proptrain.data.extend.extend_graph`), or from features
        alone. ``calibrated`` sharpens or softens all rows alike, by the temperature that fits the
        stopping nodes best: of the nodes told with 80 %, about four in five are then right. It
        changes no prediction. X has shape (m, f).

        A path of four nodes with a label at each end, then a fifth node beside the last:

        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> clf.predict_proba().round(2)
        array([[1. , 0. ],
               [0.7, 0.3],
               [0.3, 0.7],
               [0. , 1. ]])
        >>> clf.predict_proba(edges=[(4, 3)]).round(2)
        array([[0., 1.]])
        """
        check_is_fitted(self)
        if X is None and edges is None:
            told = np.array(self.label_distributions_)
            return self._calibrated(told) if calibrated else told
        features = None if X is None else self._features_of(X)
        if edges is None:
            self._warn_if_fitted_nodes(features)
        told = self._from_features(features) if edges is None else self._from_edges(features, edges)
        return self._calibrated(told, alone=edges is None) if calibrated else told

    def predict(
        self,
        X: Any = None,
        edges: Any = None,
        *,
        min_probability: float | None = None,
        calibrated: bool = False,
    ) -> NDArray[Any]:
        """Return class labels, shape (m,), of what `predict_proba` is given.

        A node whose likeliest class has a probability below ``min_probability`` (calibrated, if
        you say so) is left unlabelled, in a way that `fit` takes for unlabelled again: with the
        marker ``unlabelled``, -1 by default, among numbers, with "" among text (unless the marker
        is a text), with None among booleans, and with NaN where numbers have no marker. X has
        shape (m, f).

        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> clf.predict()
        array(['left', 'left', 'right', 'right'], dtype='<U5')
        >>> clf.predict(min_probability=0.8)
        array(['left', '', '', 'right'], dtype='<U5')
        """
        told = self.predict_proba(X, edges)
        likeliest = told.argmax(axis=1)
        if min_probability is None:
            return np.asarray(self.classes_[likeliest])
        if not 0 <= min_probability <= 1:  # nor NaN
            raise InvalidInputError(
                f"min_probability must be between 0 and 1, got {min_probability!r}."
            )
        if calibrated:
            told = self._calibrated(told, alone=X is not None and edges is None)
        answers = with_unlabelled(self.classes_, self.unlabelled)
        return np.asarray(answers[np.where(told.max(axis=1) < min_probability, -1, likeliest)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict` for X (m, f) on the labelled nodes of y (m,) alone.

        Labels are read as `fit` reads them, and nodes without one do not count. The fitted nodes
        themselves, with the graph, are scored with None as X.

        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> clf.score(None, [None, "left", "left", None])
        0.5
        """
        return accuracy_on(y, self.predict(X), self.unlabelled, sample_weight)

    def find_reached(self, edges: Any, n_new: int | None = None) -> NDArray[np.bool_]:
        """Return which new nodes a training label reaches, shape (m,): their `reached_`.

        ``edges`` are those of `predict`; ``n_new`` counts the new nodes where the edges alone do
        not, as pairs that leave out a last node without edges.

        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> clf.find_reached([(4, 3)], n_new=2)  # nodes 4, and 5 without an edge
        array([ True, False])
        """
        check_is_fitted(self)
        if n_new is None:
            n_new = count_new_nodes(edges, self.graph_.n_nodes)
        return is_reached(self._spread_to_new(edges, n_new))

    def explain(self, node: int, *, without: Iterable[int] = ()) -> Explanation:
        """Take the prediction of a fitted node apart: which labels and which nodes made it.

        ``without`` names training nodes whose labels are taken away first, to see what the soft
        label would be. Only of PTA, PTA+ and label propagation, whose predictions are sums: Ŷ_i =
        Σ_j Ā_ij f_j and Ȳ_i = Σ_j w_ij y_j; see `Explanation`.

        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> told = clf.explain(1)
        >>> told.told, told.labels.nodes, told.labels.shares.sum(axis=1).round(2)
        ('left', array([0, 3]), array([0.7, 0.3]))
        """
        from proptrain.insight.explanation import explain_node

        check_is_fitted(self)
        return explain_node(self, node, without=without)

    def audit(self, X: Any, *, seed: int = 0, on_fit: Callable[[], object] | None = None) -> Audit:
        """Rank the labels given to `fit`, the likeliest to be wrong first; see `Audit`.

        ``X`` are the features that it was fitted to, which a model does not keep. Ten more models
        are trained, each without a fifth of the labels, for 100 epochs or as many as were set, if
        fewer; ``seed`` decides on the fifths and the initial weights, and ``on_fit`` is called
        after each, for a progress bar. Labels of stopping nodes are evidence, and ranked, like all
        others. The only label of a class cannot be judged and comes last. Only of PTA and PTA+;
        the ten models are PTA's in both. X has shape (n, f).

        Two groups of five by their features; the last label is that of the wrong one:

        >>> from proptrain import PTAClassifier
        >>> X = np.repeat(np.eye(2), 5, axis=0)
        >>> y = ["a", "a", "a", "a", None, "b", "b", "b", "a", None]
        >>> clf = PTAClassifier(max_epochs=30, random_state=0).fit(X, y, graph=None)
        >>> found = clf.audit(X)
        >>> found.nodes[:1], found.given[:1], found.suggested[:1]
        (array([8]), array(['a'], dtype='<U1'), array(['b'], dtype='<U1'))
        """
        from proptrain.insight.audit import audit_model

        check_is_fitted(self)
        return audit_model(self, X, seed=seed, on_fit=on_fit or (lambda: None))

    def find_temperature(self, *, alone: bool = False) -> float:
        """Return the temperature that `predict_proba` calibrates with.

        It is the T at which the labels of the stopping nodes are likeliest, where a row p becomes
        p^(1/T) / Σ_c p_c^(1/T), and found anew from what a model keeps: a loaded model has the
        same. ``alone`` is the one for new nodes that are told from features alone.

        >>> from proptrain import PTAClassifier
        >>> y, path = ["left"] * 20 + ["right"] * 20 + [None], [(i, i + 1) for i in range(40)]
        >>> clf = PTAClassifier(max_epochs=30, random_state=0)
        >>> _ = clf.fit(np.eye(41), y, graph=path, stopping=range(10, 30))
        >>> T = clf.find_temperature()
        >>> p = clf.predict_proba() ** (1 / T)
        >>> bool(np.allclose(p / p.sum(axis=1, keepdims=True), clf.predict_proba(calibrated=True)))
        True
        """
        from proptrain.insight.calibration import fit_temperature

        check_is_fitted(self)
        held_out = getattr(self, "probabilities_", None) if alone else self.label_distributions_
        if held_out is None:
            raise InvalidInputError(
                "New nodes cannot be calibrated from features alone by this kind of model: give "
                "their edges, or leave calibrated out."
            )
        stop = self.stopping_
        if not stop.size:
            raise InvalidInputError(
                "Calibration needs stopping nodes, labels that the model has not learnt from, and "
                "this model has none. Fit it with stopping_fraction=0.2 (--stopping 0.2), or with "
                "fit(..., stopping=nodes)."
            )
        return fit_temperature(held_out[stop], self.given_[stop])

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to a folder: safetensors and JSON, nothing pickled.

        >>> import tempfile
        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(f"{folder}/model")
        ...     LabelPropagationClassifier.load(f"{folder}/model").predict()
        array(['left', 'left', 'right', 'right'], dtype='<U5')
        """
        from proptrain.saving.persistence import save_model

        check_is_fitted(self)
        save_model(folder, self, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` wrote.

        >>> import tempfile
        >>> from proptrain import LabelPropagationClassifier
        >>> clf = LabelPropagationClassifier()
        >>> _ = clf.fit(None, ["left", None, None, "right"], graph=[(0, 1), (1, 2), (2, 3)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(f"{folder}/model")
        ...     LabelPropagationClassifier.load(f"{folder}/model")
        LabelPropagationClassifier()
        """
        from proptrain.saving.persistence import load_model

        estimator = load_model(folder).estimator
        if not isinstance(estimator, cls):
            raise InvalidInputError(
                f"{folder} holds a {type(estimator).__name__}, not a {cls.__name__}. "
                f"Load it with {type(estimator).__name__}.load."
            )
        return estimator

    def _calibrated(self, told: NDArray[np.float64], *, alone: bool = False) -> NDArray[np.float64]:
        from proptrain.insight.calibration import FEWEST, with_temperature

        temperature, n_held_out = self.find_temperature(alone=alone), len(self.stopping_)
        if n_held_out < FEWEST:
            warnings.warn(
                f"Calibration by {n_held_out} held-out labels is mostly chance: at least {FEWEST} "
                "are needed for a temperature to believe. Give more labels, or hold more of them "
                "back: stopping_fraction (--stopping).",
                UserWarning,
                stacklevel=3,
            )
        return with_temperature(told, temperature)

    def _features_of(self, X: Any, *, reset: bool = False) -> Features:
        X = sound_matrix(off_torch(X), "Features")  # before scikit-learn computes with it
        try:
            with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused
                checked = validate_data(
                    self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
                )
        except (TypeError, ValueError) as error:
            raise _unusable(error) from error
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

    def _check_switches(self, *names: str) -> None:
        for name in names:
            if not isinstance(value := getattr(self, name), bool | np.bool_):
                raise InvalidInputError(f"{name} must be True or False, got {value!r}.")

    def _posing(self) -> dict[str, Any]:
        """Return the parameters that `pose_problem` asks for."""
        return {
            # What trains nothing has nothing to stop.
            "stopping_fraction": getattr(self, "stopping_fraction", 0.0),
            "n_neighbors": self.n_neighbors,
            "unlabelled": self.unlabelled,
        }

    def _soft_labels(
        self,
        codes: NDArray[np.int64],
        known: NDArray[np.int64],
        n_classes: int,
        engine: Engine,
    ) -> NDArray[np.float32]:
        return propagate_labels(codes, known, n_classes, engine, self._scheme(), clamp=self.clamp)

    def _train_on_labels(
        self,
        features: Features,
        problem: Problem,
        random: np.random.RandomState,
        *,
        network: NewNetwork | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> None:
        """Train by cross entropy, a mean over the training nodes; no label is spread before."""
        codes, n_classes, watched = problem.codes, problem.n_classes, watched_nodes(problem)
        trained = self._train(
            features,
            one_hot(codes, problem.train, n_classes),
            StoppingNodes(watched, codes[watched], one_hot(codes, watched, n_classes)),
            random,
            weighting=static,
            # The loss is divided by the number of classes; this makes it a mean over the nodes.
            settings=self._settings(n_classes / len(problem.train)),
            network=network,
            on_epoch=on_epoch,
        )
        self._keep_trained(trained, features)

    def _train(
        self,
        features: Features,
        soft_labels: NDArray[np.float32],
        stop: StoppingNodes,
        random: np.random.RandomState,
        *,
        weighting: Weighting,
        settings: TrainSettings,
        network: NewNetwork | None = None,
        device: torch.device | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Trained:
        """Train a network, the two layers of step 2 if no other is given."""
        return train_predictor(
            features,
            soft_labels,
            stop,
            weighting=weighting,
            settings=settings,
            seed=random.randint(2**31 - 1),
            network=network,
            backend=KERNELS if device is None else torch_backend(device),
            batch_size=getattr(self, "batch_size", None),
            on_epoch=on_epoch,
        )

    def _keep_trained(self, trained: Trained, features: Features) -> None:
        self.weights_ = trained.weights
        self.history_ = trained.history
        self.best_epoch_ = trained.best_epoch
        self.n_iter_ = len(trained.history.train_loss)
        self.features_checksum_ = checksum(features)

    def _settings(self, loss_weight: float) -> TrainSettings:
        return TrainSettings(
            n_hidden=self.n_hidden,
            dropout=self.dropout,
            learning_rate=self.learning_rate,
            loss_weight=loss_weight,
            weight_decay=self.weight_decay,
            max_epochs=self.max_epochs,
            patience=self.patience,
        )

    def _network(
        self,
        engine: LocalEngine,  # noqa: ARG002 - other networks have the graph inside
        n_features: int,
        n_classes: int,
        generator: torch.Generator,
    ) -> Network:
        """Return the network that is trained, with initial weights."""
        return Predictor(n_features, n_classes, n_hidden=self.n_hidden, generator=generator)

    def _from_features(self, features: Features) -> NDArray[np.float64]:
        probabilities = predict_probabilities(self.weights_, features)
        return to_distributions(probabilities, probabilities)

    def _enlarged(self, edges: Any, n_new: int) -> LocalEngine:
        """Return the engine of the fitted graph with new nodes."""
        return LocalEngine(extend_graph(self.graph_, edges, n_new), self.normalisation)

    def _ensembled_with(
        self, new: NDArray[np.float32], edges: Any, factors: NDArray[np.float32] | float = 1.0
    ) -> NDArray[np.float64]:
        """Return what is told of new nodes (m, C): step 3 again, on the larger graph.

        ``factors`` (C,) multiply the classes of what is spread, not of a node's own prediction.
        """
        engine = self._enlarged(edges, len(new))
        told = np.concatenate([self._signal(), new])
        scores = ensemble_predictions(told, engine, self._scheme())
        return spread_or_own(scores[self.graph_.n_nodes :] * factors, new)

    def _signal(self) -> NDArray[np.float32]:
        """Return what is spread over the graph in step 3, shape (n, C)."""
        return np.asarray(self.probabilities_)

    def _known_among(self, n_new: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the class codes of the fitted and that many new nodes, and who of them trains."""
        codes = np.concatenate([self.given_, np.full(n_new, -1)])
        return codes, np.setdiff1d(np.flatnonzero(codes >= 0), self.stopping_)

    def _spread_to_new(self, edges: Any, n_new: int) -> NDArray[np.float32]:
        """Return the soft labels (n_new, C) of new nodes: step 1 again, on the larger graph."""
        codes, known = self._known_among(n_new)
        engine = self._enlarged(edges, n_new)
        soft_labels = self._soft_labels(codes, known, len(self.classes_), engine)
        return soft_labels[self.graph_.n_nodes :]

    def _layout(self) -> Layout:
        """Return what a fitted classifier is made of, told before any of its arrays is read.

        Names with a dot are parts of one attribute: weights.bias1 is weights_["bias1"].
        """
        n, C = self.graph_.n_nodes, len(self.classes_)
        return {
            "given_": ("i", (n,)),
            "stopping_": ("i", (None,)),
            "label_distributions_": ("f", (n, C)),
            "reached_": ("b", (n,)),
        }

    def _trained_layout(self) -> Layout:
        """Return the weights of the network that the parameters make, and its history."""
        anywhere = LocalEngine(Graph.without_edges(1))
        sizes = self.n_features_in_, len(self.classes_)
        with torch.device("meta"):  # shapes and no numbers: sizes that a stranger claims are free
            network = self._network(anywhere, *sizes, torch.Generator("cpu"))
        weights = network.state_dict()
        return {
            **{f"weights.{name}": ("f", tuple(weights[name].shape)) for name in weights},
            **{f"history.{field.name}": ("f", (self.n_iter_,)) for field in fields(History)},
        }

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


def with_unlabelled(classes: NDArray[Any], marker: Any) -> NDArray[Any]:
    """Return the classes and, as one more at the end, what `fit` takes for unlabelled.

    >>> with_unlabelled(np.array([3, 5]), -1), with_unlabelled(np.array(["a", "b"]), -1)
    (array([ 3,  5, -1]), array(['a', 'b', ''], dtype='<U1'))
    """
    if classes.dtype.kind == "U":
        return np.append(classes, marker if isinstance(marker, str) else "")
    if classes.dtype.kind not in "iuf":
        return np.array([*classes.tolist(), None], dtype=object)
    is_number = isinstance(marker, int | float | np.number) and not isinstance(marker, bool)
    return np.asarray(np.append(classes, marker if is_number else np.nan))


def watched_nodes(problem: Problem) -> NDArray[np.int64]:
    """Return the nodes that decide when to stop: those that train, if there are no others."""
    return problem.stop if problem.stop.size else problem.train


def needed(features: Features | None) -> Features:
    """Return the features of new nodes, or say that their edges do not do alone."""
    if features is None:
        raise InvalidInputError("edges belong to new nodes: give their features as X.")
    return features


def is_reached(soft_labels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the nodes that any mass of a label came to, shape (n,)."""
    return np.asarray(soft_labels.sum(axis=1) > 0)


def _unusable(error: TypeError | ValueError) -> InvalidInputError:
    """Return our error for features that scikit-learn refuses, with what to do about it."""
    told = str(error)
    if any(sign in told for sign in ("contains NaN", "contains infinity", "Complex data")):
        told = told.partition("\n")[0]  # without the numbers, or who else would take them
    kind = WrongTypeError if isinstance(error, TypeError) else InvalidInputError
    told = " ".join(told.split()).rstrip(".")  # in one line, as all of our messages
    if "is expecting" in told:
        return kind(f"{told}. Give the columns that it was fitted to, in the same order.")
    return kind(
        f"{told}. Features must be a matrix of finite numbers, dense or sparse, with a "
        "row for each node: fill or drop what is missing, and turn text into numbers."
    )


def checksum(features: Features) -> int:
    """Return a number by which features that were seen before are known again."""
    if isinstance(features, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(features).tobytes())
    return zlib.crc32(features.indices.tobytes(), zlib.crc32(features.data.tobytes()))
