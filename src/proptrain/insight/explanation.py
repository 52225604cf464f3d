"""Why a node is told what it is told: the exact parts that its prediction is a sum of.

Two sums stand behind a prediction. The ensemble Ŷ_i = Σ_j Ā_ij f_j adds up what the network says of
the nodes around it. The soft label Ȳ_i = Σ_j w_ij y_j adds up the labels that came to it over the
graph; unclamped, w is Ā, and clamped, w_ij is what comes from label j before any other label is
met. Both are linear, so a part is what would be missing if its node's signal were zero, and the
parts are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError
from proptrain.insight.adjoint import received_weights
from proptrain.propagate.labels import one_hot
from proptrain.propagate.normalisation import normalise
from proptrain.text import visible

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier

Role = Literal["training", "stopping", "unlabelled"]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a sum over nodes, the largest first.

    >>> parts = Parts(np.array([7]), sp.csr_array([[0.5, 0.25]]), np.array([[0.0, 1.0]]))
    >>> parts.weights, parts.total, parts.mean_steps.round(2)
    (array([0.75]), array([0.  , 0.75]), array([0.33]))
    """

    nodes: NDArray[np.int64]
    """(m,) whose signals they are."""
    by_steps: sp.csr_array
    """(m, K+1) the weight of each, split by the number of steps it took."""
    signal: NDArray[np.float64]
    """(m, C) what each of them sends: its one-hot label, or what is averaged of it."""
    factors: NDArray[np.float64] | float = 1.0
    """(C,) by which the classes are multiplied once signals are summed, as PTA+ may do."""

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each, over all steps, (m,)."""
        return np.asarray(self.by_steps.sum(axis=1), dtype=np.float64)

    @cached_property
    def weight_shares(self) -> NDArray[np.float64]:
        """The weight of each, of all weights, (m,); they sum to 1."""
        return np.asarray(self.weights / self.weights.sum())

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """What each adds to each class, (m, C)."""
        return np.asarray(self.weights[:, None] * self.signal * self.factors)

    @cached_property
    def total(self) -> NDArray[np.float64]:
        """Their sum, (C,)."""
        return np.asarray(self.values.sum(axis=0))

    @cached_property
    def over_steps(self) -> NDArray[np.float64]:
        """The same sum split by the number of steps instead, (K+1, C)."""
        return np.asarray(self.by_steps.T @ self.signal) * self.factors

    @cached_property
    def mean_steps(self) -> NDArray[np.float64]:
        """The mean number of steps that each took, (m,)."""
        steps = np.arange(self.by_steps.shape[1])
        return np.asarray((self.by_steps @ steps) / self.weights)

    @property
    def shares(self) -> NDArray[np.float64]:
        """What each adds to each class, of the whole, (m, C); they sum to 1."""
        whole = self.total.sum()
        return self.values / whole if whole > 0 else self.values


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a fitted node is told, and the parts that make it up; in float64.

    ``probabilities`` (C,) are one for each of the ``classes`` (C,), and each `Parts` has ``nodes``
    (m,) and what they add to each class, ``values`` (m, C).

    ``labels`` are the parts of the soft label, one for each label that reached the node. A label's
    part is what the soft label loses if that label alone becomes zero. In a clamped model its node
    then still holds its place, so that labels behind it get no further than before; what the
    soft label is when the label is taken away altogether is told by ``explain(node, without=[…])``.

    A clamped training node holds its own label, which is then all of its soft label. ``others`` are
    the parts that it would have without that label: what the other labels say.

    ``neighbours`` are the parts of the ensemble, one for each node whose prediction was averaged;
    None for label propagation, whose prediction is the soft label.

    Of PTA+, the soft label is that of the first round, where each label counts as far as it is
    trusted, and before classes are balanced and masses scaled; further rounds learn from
    predictions. Its neighbours' parts are multiplied by the factors of the classes. If it has
    fallen back on labels (``by_labels``), its neighbours send balanced soft labels, and no network
    has a say, unless in those that no label reaches.

    >>> from proptrain import LabelPropagationClassifier
    >>> y = ["left", None, None, "right"]
    >>> clf = LabelPropagationClassifier().fit(None, y, graph=[(0, 1), (1, 2), (2, 3)])
    >>> told = clf.explain(1)
    >>> told.told, told.labels.nodes.tolist(), told.labels.shares.sum(axis=1).round(2).tolist()
    ('left', [0, 3], [0.7, 0.3])
    >>> bool(np.allclose(told.sums.total / told.sums.total.sum(), told.probabilities))
    True
    >>> told.code, told.sums is told.labels, told.sources is told.labels  # no network, no own label
    (0, True, True)
    >>> held = clf.explain(0)  # whose soft label is its own label, and what the other would say
    >>> held.holds_label, held.labels.nodes.tolist(), held.sources.nodes.tolist()
    (True, [0], [3])
    """

    node: int
    classes: NDArray[Any]
    """(C,) the class labels."""
    probabilities: NDArray[np.float64]
    """(C,) what the model tells."""
    given: Any
    """The label that the node was given, or None."""
    role: Role
    labels: Parts
    neighbours: Parts | None
    without: tuple[int, ...] = ()
    """Nodes whose labels were left out of `labels` and `others`."""
    others: Parts | None = None
    """What `labels` would be without the node's own label; None if that is in no soft label."""
    clamped: bool = True
    """Whether labelled nodes hold their labels, so that labels stop each other."""
    rounds: int | None = None
    """How many rounds PTA+ learnt after the first, whose soft label this is; None if not PTA+."""
    by_labels: bool = False
    """Whether soft labels of the neighbours were averaged, not what a network says of them."""

    @property
    def holds_label(self) -> bool:
        """Whether its soft label is its own label, and no other counts."""
        return self.clamped and self.others is not None

    @property
    def sources(self) -> Parts:
        """The labels worth a look: those of the soft label, or the others if it is its own."""
        return self.others if self.clamped and self.others is not None else self.labels

    @property
    def code(self) -> int:
        """The code of the class that is told: where it stands in `classes`."""
        return int(self.probabilities.argmax())

    @property
    def told(self) -> Any:
        """The class that is told."""
        return self.classes[self.code].item()

    @property
    def sums(self) -> Parts:
        """The parts of what is told: the neighbours', or for label propagation the labels'."""
        return self.labels if self.neighbours is None else self.neighbours

    def __str__(self) -> str:
        """Tell it in a short table, nodes by their numbers; text is shown, never acted upon."""
        from proptrain.insight.telling import tell

        # Class by class, not at the end: a line break in a name must not become one of the table's.
        names = np.array([visible(str(name)) for name in self.classes])
        given = None if self.given is None else visible(str(self.given))
        return tell(replace(self, classes=names, given=given))


def explain_node(
    classifier: GraphClassifier,
    node: int,
    *,
    without: Iterable[int] = (),
    name_of: Callable[[int], Any] = int,
) -> Explanation:
    """Take the prediction of a fitted node apart; see `Explanation`.

    With f and Y the rows of predictions and known labels: Ŷ_i = Σ_j Ā_ij f_j, a part for each node
    j, and Ȳ_i = Σ_j Ā_ij Y_j, a part for each label; clamped, Ā is that of the held rows.

    ``without`` names training nodes whose labels are taken away before labels are propagated; the
    network is not trained anew, so this changes the soft label only. ``name_of`` is what errors
    call a node.
    """
    _check_is_a_sum(classifier)
    n_nodes = classifier.graph_.n_nodes
    node = _checked_node(node, n_nodes)
    codes, train = classifier._known_among(0)
    left_out = _checked_sources(without, train, n_nodes, name_of)
    operator, mixing = normalise(classifier.graph_, classifier.normalisation), _mixing(classifier)
    known = np.setdiff1d(train, left_out)
    labels = _label_parts(classifier, operator, node, known)
    others = None
    if node in known:
        others = _label_parts(classifier, operator, node, np.setdiff1d(known, [node]))
    neighbours = None
    probabilities = classifier.label_distributions_[node]
    if (f := neighbours_signal(classifier)) is not None:
        told = int(probabilities.argmax())
        arrived = _parts(received_weights(operator, mixing, node), f, first=told)
        neighbours = replace(arrived, factors=class_factors(classifier))
    code = int(codes[node])
    return Explanation(
        node=node,
        classes=classifier.classes_,
        probabilities=probabilities,
        given=classifier.classes_[code].item() if code >= 0 else None,
        role="unlabelled" if code < 0 else "training" if node in train else "stopping",
        labels=labels,
        neighbours=neighbours,
        without=tuple(left_out.tolist()),
        others=others,
        clamped=bool(classifier.clamp),
        rounds=rounds_after_first(classifier),
        by_labels=is_by_labels(classifier),
    )


def _label_parts(
    classifier: GraphClassifier, operator: sp.csr_array, node: int, known: NDArray[np.int64]
) -> Parts:
    """Return the parts of a node's soft label if only the nodes `known` had a label."""
    codes, train = classifier._known_among(0)
    held = known if classifier.clamp else None
    sent = one_hot(codes, known, len(classifier.classes_)).astype(np.float64)
    sent[train] *= trust_in_labels(classifier, train)[:, None]
    return _parts(received_weights(operator, _mixing(classifier), node, held), sent, known)


def _parts(
    weights: sp.csr_array,
    signal: NDArray[np.float64],
    senders: NDArray[np.int64] | None = None,
    *,
    first: int | None = None,
) -> Parts:
    """Return what arrived at a node, the largest first: for one class, or else for all."""
    by_node = sp.csr_array(weights.T)  # (n, K+1)
    arrived = np.flatnonzero(np.diff(by_node.indptr))
    nodes = arrived if senders is None else np.intersect1d(arrived, senders)
    mine, sent = by_node[nodes], signal[nodes]
    sizes = np.asarray(mine.sum(axis=1)) * (sent.sum(axis=1) if first is None else sent[:, first])
    order = np.argsort(-sizes, kind="stable")  # equals by their numbers
    return Parts(nodes[order].astype(np.int64), sp.csr_array(mine[order]), sent[order])


def trust_in_labels(classifier: GraphClassifier, train: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how far each training label is trusted, shape (t,): 1 unless the model doubts it."""
    trust = getattr(classifier, "trust_", None)
    if trust is None:
        return np.ones(len(train))
    if len(trust) != len(train):
        raise InvalidInputError(
            f"A model must have a trust for each of its {len(train):,} training labels, got "
            f"{len(trust):,}. Fit it again."
        )
    return np.asarray(trust, dtype=np.float64)


def neighbours_signal(classifier: GraphClassifier) -> NDArray[np.float64] | None:
    """Return what is spread of each node (n, C), or None if nothing was learnt.

    That is what the network says of it, or its soft label where PTA+ has fallen back on labels.
    """
    if not hasattr(classifier, "probabilities_"):
        return None
    return np.asarray(classifier._signal(), dtype=np.float64)


def class_factors(classifier: GraphClassifier) -> NDArray[np.float64]:
    """Return by what the classes of the summed predictions are multiplied, (C,); mostly 1."""
    factors = getattr(classifier, "class_factors_", np.ones(len(classifier.classes_)))
    return np.asarray(factors, dtype=np.float64)


def rounds_after_first(classifier: GraphClassifier) -> int | None:
    """Return how many rounds of PTA+ learnt from predictions; None for other models."""
    n_rounds = getattr(classifier, "n_rounds", None)
    return None if n_rounds is None else int(n_rounds)


def is_by_labels(classifier: GraphClassifier) -> bool:
    """Tell whether PTA+ has fallen back on labels, so that it spreads these and no predictions."""
    return bool(getattr(classifier, "fell_back_", False))


def _mixing(classifier: GraphClassifier) -> tuple[float, ...]:
    return classifier._scheme().mixing


def can_explain(classifier: Any) -> bool:
    """Tell whether the predictions of this classifier are sums that can be taken apart."""
    from proptrain.estimator import PTAClassifier
    from proptrain.models.label_propagation import LabelPropagationClassifier
    from proptrain.plus import PTAPlusClassifier

    sums = PTAClassifier | PTAPlusClassifier | LabelPropagationClassifier
    return isinstance(classifier, sums) and getattr(classifier, "equal_hops", None) is None


def _check_is_a_sum(classifier: Any) -> None:
    if can_explain(classifier):
        return
    kind = type(classifier).__name__
    given = f"{kind}(equal_hops=…)" if getattr(classifier, "equal_hops", None) is not None else kind
    raise InvalidInputError(
        "Only predictions that are sums of propagated parts can be explained: those of "
        "PTAClassifier without equal_hops, PTAPlusClassifier and LabelPropagationClassifier; got "
        f"{given}. Fit one of those (`proptrain fit --method PTA`, PTA+ or LP)."
    )


def _checked_node(node: Any, n_nodes: int) -> int:
    is_whole = isinstance(node, int | np.integer) and not isinstance(node, bool)
    if not (is_whole and 0 <= node < n_nodes):
        raise InvalidInputError(
            f"A node must be a whole number from 0 to {n_nodes - 1:,}, its row in X; got {node!r}."
        )
    return int(node)


def _checked_sources(
    without: Iterable[int],
    train: NDArray[np.int64],
    n_nodes: int,
    name_of: Callable[[int], Any],
) -> NDArray[np.int64]:
    nodes = np.unique(np.array([_checked_node(one, n_nodes) for one in without], dtype=np.int64))
    others = np.setdiff1d(nodes, train)
    if others.size:
        raise InvalidInputError(
            f"Only labels that were trained on can be left out, but node {name_of(others[0])!r} "
            "has none: it is unlabelled, or a stopping node."
        )
    if nodes.size == train.size:
        raise InvalidInputError(
            f"A label must be left to propagate, but all {train.size:,} are left out."
        )
    return nodes
