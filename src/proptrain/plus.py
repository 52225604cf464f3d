"""PTA with more out of the same three steps: the recipe that we recommend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from proptrain.classifier import (
    GraphClassifier,
    Layout,
    checksum,
    is_reached,
    needed,
)
from proptrain.data.dataset import UNLABELLED, Features
from proptrain.ensemble.predictions import spread_or_own
from proptrain.errors import InvalidInputError
from proptrain.estimator import PTAClassifier
from proptrain.problem import Problem, pose_problem, random_of
from proptrain.propagate.engine import Engine
from proptrain.propagate.labels import one_hot
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import Scheme
from proptrain.propagate.shaping import (
    balance_classes,
    evenness,
    next_soft_labels,
    temper_mass,
    with_total,
)
from proptrain.propagate.torch_engine import engine_on
from proptrain.propagate.trust import told_by_others, trust_labels
from proptrain.rounds import Round, RoundLearner, joined, mean_of, told_or
from proptrain.system.devices import torch_device
from proptrain.train.loop import OnEpoch, predict_probabilities
from proptrain.train.scaling import Scaling, no_scaling, to_ordinary_size
from proptrain.train.weighting import Adaptive

if TYPE_CHECKING:
    from proptrain.data.splits import Codes, Tell

MASS_PER_CLASS = 70.0
"""Total mass of the soft labels for each class: what 20 labels spread on the paper's graphs."""
LARGEST = 1e30
"""Of its numbers; squares of larger ones leave what can be computed with."""


class PTAPlusClassifier(GraphClassifier):
    """PTA that learns a second and a third time, from what it predicted itself.

    The three steps are PTA's, and the graph stays out of training. What is added: the soft labels
    have a total mass that does not depend on how many labels there are; a label that the others
    contradict counts less; and the predictions, spread over the graph and sharpened, are the soft
    labels of a further round, the known labels put back in. What all rounds tell is averaged; if
    the first alone tells the stopping nodes better, it counts alone. Features are brought to
    ordinary size, and where spreading makes large classes swallow small ones, a factor
    for each class keeps their sizes. Where labels alone clearly tell more than networks that were
    trained on the features, they take the networks' place.

    Without stopping nodes no epoch can be chosen: every round trains for 150 epochs at most, keeps
    the mean of the later ones' weights, and the last round counts that still tells the training
    labels. By default that is how few labels are learnt from (see ``stopping_fraction``).

    With one-hot labels Y of the t training nodes, trust T_j of each, and M = C · mass_per_class the
    soft labels Z0 of the first round and Zr of further ones, and what is told at last, are::

        b = balance² / (balance² + (t/C)²)
        B(Z)_ic = Z_ic (mean_k m_k / m_c)^b with m_c = Σ_i Z_ic       classes of more even mass
        Z0 = M B(Ā T Y) / Σ B(Ā T Y)
        S = F Ā f(X) with f trained on Z(r-1) as in PTA               F = ``class_factors_``, or 1
        P_ic = S_ic^sharpness / Σ_k S_ik^sharpness
        Zr = M B(P) / Σ B(P), but for training nodes
        Zr_j = T_j m Y_j + (1 - T_j) Zr_j with m = max(M/n, min(1, M/t))
        Ŷ = F Ā (mean of f(X) over the rounds), each row divided by its sum

    gamma is that of PTA in the first round, and at most ``max_gamma`` further on. Ā in Z0 puts T Y
    back after every step. The equations are those of the defaults of ``clamp``, ``mass_power``,
    ``learnt_trust`` and ``average_rounds``, where labels do not take the networks' place.

    Parameters
    ----------
    n_rounds : int
        Rounds of self-training after the first training; 0 is none.
    sharpness : float
        Power of the predictions that make the next round's soft labels.
    average_rounds : bool
        Whether the mean of what all rounds tell counts, where there are stopping nodes, or the
        first alone if it tells more of these. Otherwise it is the last round that tells as many of
        them as the first. Without stopping nodes it makes no difference.
    max_gamma : float
        Limit of the adaptive gamma in further rounds, whose soft labels are no longer so wrong;
        ``math.inf`` is none.
    n_networks : int
        Networks with different initial weights whose predictions are averaged, in every round.
    trust : bool
        Whether a label counts less if the others contradict it.
    learnt_trust : bool
        Whether it counts less in a further round, too, if what was learnt contradicts it: if its
        accumulated weight, the paper's S_j, is less than that of another class.
    mass_power : float
        Power of the mass that a soft label has: 1 as propagated, 0 the same for all nodes.
    balance : float
        Labels per class with which the classes' masses are made equal half-way; with fewer more so,
        with more less, by their square. 0 is never.
    mass_per_class : float or None
        Total mass of the soft labels by the number of classes; None leaves it as it is.
    scale_features : bool
        Whether features are brought to ordinary size, column by column. Those that have it stay as
        they are, as rows that sum to 1 do.
    keep_sizes : bool
        Whether a factor for each class keeps large classes from swallowing small ones when
        predictions are spread; only where labels clearly say that they do.
    fall_back : bool
        Whether the soft labels of step 1 take the place of what networks tell, and are spread in
        step 3, where they clearly tell more labels: where features say little and the graph much.
        Without stopping nodes it can take five more fits to find out, which ``on_epoch`` is not
        told of: where labels seem to tell more, networks are trained again without a fifth of them.
    stopping_fraction : float or None
        Share of each class's labels that is kept from training and decides when to stop. None is a
        fifth where that makes 100 nodes or more, and else nothing: on citation graphs fewer mostly
        decided worse than none. Where classes are very unequal, 0.2 can be better.
    epsilon and the others
        As in `PTAClassifier`.

    Attributes
    ----------
    n_kept_ : number of networks that are averaged
    trust_ : (t,) how far each training label is trusted, in the order of the training nodes
    class_factors_ : (C,) by which the classes of the spread predictions are multiplied; mostly 1
    fell_back_ : whether labels alone tell more, so that their soft labels are what is spread. New
        nodes with edges are told by these as well, those without by the networks
    told_by_labels_ : (n, C) what is spread then, and None else: rows of the soft labels that the
        first round learnt from, and of ``probabilities_`` where no label comes
    history_ : that of all trainings, one after another; ``n_iter_`` epochs in all, of which
        ``best_epoch_`` gave the last network that is kept
    label_distributions_, transduction_, reached_, soft_labels_, probabilities_, classes_
        As in `PTAClassifier`; the soft labels are those of step 1.

    Examples
    --------
    >>> clf = PTAPlusClassifier(random_state=0)
    >>> X = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])
    >>> clf.fit(X, ["left", None, "right", None], graph=[(0, 1), (2, 3), (3, 2)]).transduction_
    array(['left', 'left', 'right', 'right'], dtype='<U5')
    """

    _numbers = (*GraphClassifier._numbers, "n_kept_")
    fell_back_: bool = False  # nor did models that were saved before one could
    told_by_labels_: NDArray[np.float32] | None = None

    def __init__(
        self,
        *,
        n_rounds: int = 2,
        sharpness: float = 2.5,
        average_rounds: bool = True,
        max_gamma: float = 0.3,
        n_networks: int = 1,
        trust: bool = True,
        learnt_trust: bool = False,
        mass_power: float = 1.0,
        balance: float = 10.0,
        mass_per_class: float | None = MASS_PER_CLASS,
        scale_features: bool = True,
        keep_sizes: bool = True,
        fall_back: bool = True,
        epsilon: float = 100.0,
        alpha: float = 0.1,
        steps: int = 10,
        scheme: Scheme | None = None,
        normalisation: Normalisation = "symmetric",
        clamp: bool = True,
        n_hidden: int = 64,
        dropout: float = 0.0,
        learning_rate: float = 0.1,
        loss_weight: float = 0.05,
        weight_decay: float = 0.005,
        max_epochs: int = 2000,
        patience: int = 100,
        stopping_fraction: float | None = None,
        n_neighbors: int = 10,
        device: Any = "auto",
        unlabelled: Any = -1,
        random_state: Any = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.sharpness = sharpness
        self.average_rounds = average_rounds
        self.max_gamma = max_gamma
        self.n_networks = n_networks
        self.trust = trust
        self.learnt_trust = learnt_trust
        self.mass_power = mass_power
        self.balance = balance
        self.mass_per_class = mass_per_class
        self.scale_features = scale_features
        self.keep_sizes = keep_sizes
        self.fall_back = fall_back
        self.epsilon = epsilon
        self.alpha = alpha
        self.steps = steps
        self.scheme = scheme
        self.normalisation = normalisation
        self.clamp = clamp
        self.n_hidden = n_hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.loss_weight = loss_weight
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
        """Fit to the features X (n, f), labels y (n,) and graph of all nodes.

        As `PTAClassifier.fit`; the epochs that ``on_epoch`` is told count on from round to round.
        """
        self._check_parameters()
        device = torch_device(self.device)
        features = self._features_of(X, reset=True)
        random = random_of(self.random_state)
        problem = pose_problem(features, y, graph, stopping, random=random, **self._posing())
        engine = engine_on(device, problem.graph, self.normalisation)
        self.trust_ = self._trusted(problem, engine, random)
        self.soft_labels_ = self._soft_labels(
            problem.codes, problem.train, problem.n_classes, engine
        )
        self.reached_ = is_reached(self.soft_labels_)
        scaling = self._scaling(features)
        learner = RoundLearner(self, scaling(features), problem, engine, random, device, on_epoch)
        soft_labels = self._first_targets(problem, engine)
        rounds = [learner.learn(soft_labels, Adaptive(self.epsilon))]
        for _ in range(self.n_rounds):
            targets = self._further_targets(rounds[-1].scores, problem)
            rounds.append(learner.learn(targets, Adaptive(self.epsilon, self.max_gamma)))
        kept = learner.choose(rounds)
        self._keep(rounds, kept, scaling)
        self.features_checksum_ = checksum(features)
        tell_anew = self._trained_anew(features, problem)
        spread = self._fall_back_from(kept, soft_labels, learner, engine, tell_anew)
        return self._finish(problem, spread_or_own(spread.scores, spread.probabilities))

    def _trusted(
        self, problem: Problem, engine: Engine, random: np.random.RandomState
    ) -> NDArray[np.float32]:
        """Return how far each training label is trusted, shape (t,)."""
        if not self.trust:
            return np.ones(len(problem.train), dtype=np.float32)
        told = told_by_others(
            problem.codes,
            problem.train,
            problem.n_classes,
            engine,
            self._scheme(),
            clamp=self.clamp,
            seed=random.randint(2**31 - 1),
        )
        return trust_labels(told, problem.codes[problem.train])

    def _first_targets(self, problem: Problem, engine: Engine) -> NDArray[np.float32]:
        """Return what the first round learns from: the labels, propagated and shaped."""
        start = one_hot(problem.codes, problem.train, problem.n_classes)
        start[problem.train] *= self.trust_[:, np.newaxis]
        shaped = temper_mass(self._balanced(start, problem.train, engine), self.mass_power)
        if self.mass_per_class is None:
            return shaped
        return with_total(shaped, self._total_mass(problem))

    def _balanced(
        self, start: NDArray[np.float32], known: NDArray[np.int64], engine: Engine
    ) -> NDArray[np.float32]:
        """Return labels that start (n, C) from the nodes ``known``, propagated and balanced."""
        spread = engine.propagate(start, self._scheme(), fixed=known if self.clamp else None)
        return balance_classes(spread, evenness(len(known) / start.shape[1], self.balance))

    def _fall_back_from(
        self,
        kept: Round,
        soft_labels: NDArray[np.float32],
        learner: RoundLearner,
        engine: Engine,
        tell_anew: Tell,
    ) -> Round:
        """Return what is told: by networks, or by labels where they alone clearly tell more."""
        self.fell_back_ = False
        self.__dict__.pop("told_by_labels_", None)  # of an earlier fit
        if not self.fall_back:
            return kept

        def tell(learnt: Codes, nodes: Codes) -> NDArray[Any]:
            known = np.flatnonzero(learnt != UNLABELLED)
            start = one_hot(learnt, known, soft_labels.shape[1])
            return learner.by_labels(self._balanced(start, known, engine)).scores[nodes]

        labels = learner.by_labels(soft_labels, kept.probabilities)
        if not learner.is_outdone(kept, labels, tell, tell_anew):
            return kept
        self.fell_back_, self.told_by_labels_ = True, labels.probabilities
        self.class_factors_ = labels.class_factors
        return labels

    def _trained_anew(self, features: Features, problem: Problem) -> Tell:
        """Return what fits networks like these to other labels, and says what they tell."""

        def tell(learnt: Codes, nodes: Codes) -> NDArray[Any]:
            # All rounds: after the first alone, good networks looked worse and useless ones better.
            alike = clone(self).set_params(
                fall_back=False, stopping_fraction=0.0, unlabelled=UNLABELLED, random_state=0
            )
            told = alike.fit(features, learnt, graph=problem.graph).label_distributions_[nodes]
            return np.asarray(told)

        return tell

    def _further_targets(self, scores: NDArray[Any], problem: Problem) -> NDArray[np.float32]:
        """Return what a further round learns from, by what the one before told."""
        codes, train, trust = problem.codes, problem.train, self.trust_
        if self.learnt_trust:
            # What the ensemble tells of node j, before it is scaled, is S_j for each class, but for
            # the factors that keep their sizes.
            trust = trust * trust_labels(scores[train], codes[train])
        return next_soft_labels(
            scores,
            codes,
            train,
            trust,
            total=self._total_mass(problem),
            sharpness=self.sharpness,
            evenness=evenness(len(train) / problem.n_classes, self.balance),
        )

    def _scaling(self, features: Features) -> Scaling:
        if self.scale_features:
            return to_ordinary_size(features)
        return no_scaling(features.shape[1])

    def _total_mass(self, problem: Problem) -> float:
        if self.mass_per_class is None:
            return float(self.soft_labels_.sum(dtype=np.float64))
        return self.mass_per_class * problem.n_classes

    def _keep(self, rounds: list[Round], kept: Round, scaling: Scaling) -> None:
        trainings = [trained for done in rounds for trained in done.trained]
        lengths = [len(trained.history.gamma) for trained in trainings]
        last = kept.trained[-1]
        self.history_ = joined([trained.history for trained in trainings])
        self.n_iter_ = sum(lengths)
        self.best_epoch_ = sum(lengths[: trainings.index(last)]) + last.best_epoch
        self.n_kept_ = len(kept.trained)
        weights = {
            name: np.stack([one.weights[name] for one in kept.trained]) for name in last.weights
        }
        self.weights_ = scaling.unscaled(weights)
        self.probabilities_ = kept.probabilities
        self.class_factors_ = kept.class_factors

    def _teller(self, features: Features, seed: int) -> Tell:
        """Return what trains PTA on other labels, and says what it tells: see `audit`."""
        pta = self._auditor()
        pta.graph_ = self.graph_
        return pta._teller(self._scaling(features)(features), seed)

    def _auditor(self) -> PTAClassifier:
        """Return PTA with the parameters that both have, to learn from other labels."""
        mine, known = self.get_params(deep=False), PTAClassifier().get_params(deep=False)
        return PTAClassifier(**{name: mine[name] for name in known if name in mine})._auditor()

    def _from_features(self, features: Features) -> NDArray[np.float64]:
        told = self._told_by_networks(features)
        return spread_or_own(told, told)

    def _from_edges(self, features: Features | None, edges: Any) -> NDArray[np.float64]:
        told = self._told_by_networks(needed(features))
        if self.fell_back_:
            told = told_or(self._soft_labels_of_new(edges, len(told)), told)
        return self._ensembled_with(told, edges, self.class_factors_)

    def _soft_labels_of_new(self, edges: Any, n_new: int) -> NDArray[np.float32]:
        """Return what the first round would have learnt of new nodes from, but for their mass."""
        codes, known = self._known_among(n_new)
        start = one_hot(codes, known, len(self.classes_))
        start[known] *= self.trust_[:, np.newaxis]
        return self._balanced(start, known, self._enlarged(edges, n_new))[self.graph_.n_nodes :]

    def _signal(self) -> NDArray[np.float32]:
        return super()._signal() if self.told_by_labels_ is None else self.told_by_labels_

    def _told_by_networks(self, features: Features) -> NDArray[np.float32]:
        """Return the mean of what the networks tell, shape (m, C)."""
        networks = [
            {name: stacked[place] for name, stacked in self.weights_.items()}
            for place in range(self.n_kept_)
        ]
        return mean_of([predict_probabilities(weights, features) for weights in networks])

    def _layout(self) -> Layout:
        of_nodes = super()._layout()
        told = of_nodes["label_distributions_"]
        trained = {
            name: (kind, (self.n_kept_, *shape) if name.startswith("weights.") else shape)
            for name, (kind, shape) in self._trained_layout().items()
        }
        own: Layout = {"soft_labels_": told, "probabilities_": told, "trust_": ("f", (None,))}
        own["class_factors_"] = ("f", (len(self.classes_),))
        if self.fell_back_:
            own["told_by_labels_"] = told
        return {**of_nodes, **trained, **own}

    def _check_parameters(self) -> None:
        self._check_switches("clamp", "trust", "learnt_trust", "scale_features", "keep_sizes")
        self._check_switches("average_rounds", "fall_back")
        for name, lowest in {"n_rounds": 0, "n_networks": 1}.items():
            value = getattr(self, name)
            is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (is_whole and value >= lowest):
                raise InvalidInputError(
                    f"{name} must be a whole number, {lowest} or more, got {value!r}."
                )
        mass = 1.0 if self.mass_per_class is None else self.mass_per_class
        limits = {
            "sharpness": (self.sharpness, "above 0"),
            "mass_per_class": (mass, "above 0"),
            "max_gamma": (self.max_gamma, "0 or more"),
            "mass_power": (self.mass_power, "0 or more"),
            "balance": (self.balance, "0 or more"),
        }
        for name, (value, wanted) in limits.items():
            is_number = isinstance(value, float | int | np.number) and not isinstance(value, bool)
            is_finite = is_number and (value < LARGEST or name == "max_gamma")  # no limit to gamma
            if not (is_finite and value >= 0 and (value > 0 or wanted == "0 or more")):
                raise InvalidInputError(f"{name} must be a finite number {wanted}, got {value!r}.")
