"""The paper in dense, loop-by-loop NumPy, float64: the oracle that the package is held against.

Written from the paper and the notes alone; imports nothing from proptrain. Slow on purpose: a
loop for each sum that the paper writes, so that it can be read beside the equations.
"""

from __future__ import annotations

import math

import numpy as np

KINDS = ("symmetric", "symmetric-no-loops", "row")


# --- the operator Â and Ā = Σ beta_k Â^k ------------------------------------------------------


def operator(adjacency, kind):
    """D~^-1/2 (A+I) D~^-1/2, D^-1/2 A D^-1/2 or D^-1 A; rows of nodes without degree are empty."""
    matrix = np.array(adjacency, dtype=np.float64)
    n = len(matrix)
    if kind == "symmetric":
        for i in range(n):
            matrix[i, i] += 1
    degrees = [sum(matrix[i, j] for j in range(n)) for i in range(n)]
    result = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if matrix[i, j] == 0:
                continue
            if kind == "row":
                result[i, j] = matrix[i, j] / degrees[i]
            else:
                result[i, j] = matrix[i, j] / math.sqrt(degrees[i] * degrees[j])
    return result


def ppr_coefficients(alpha, steps):
    """beta_k = alpha (1-alpha)^k for k < K, beta_K = (1-alpha)^K (appendix A)."""
    return np.array([alpha * (1 - alpha) ** k for k in range(steps)] + [(1 - alpha) ** steps])


def power_coefficients(steps):
    """Â^K alone (SGCN)."""
    return np.array([0.0] * steps + [1.0])


def mean_coefficients(steps):
    """The uniform mean of Â^0 … Â^K (LightGCN)."""
    return np.full(steps + 1, 1 / (steps + 1))


def heat_coefficients(t, steps):
    """t^k / k!, cut off after K and scaled to sum to 1."""
    terms = np.array([t**k / math.factorial(k) for k in range(steps + 1)])
    return terms / terms.sum()


def combine(step, coefficients):
    """Ā = Σ beta_k Â^k, power by power."""
    power, total = np.eye(len(step)), np.zeros_like(step)
    for beta in coefficients:
        total += beta * power
        power = step @ power
    return total


def exact(step, alpha):
    """Ā = alpha (I - (1-alpha) Â)^-1 (PPNP)."""
    identity = np.eye(len(step))
    return alpha * np.linalg.solve(identity - (1 - alpha) * step, identity)


# --- the recursion, with rows held fixed ------------------------------------------------------


def mixing(coefficients):
    """The numbers c_k with which H <- c_k Â H + (1 - c_k) S arrives at Σ beta_k Â^k S.

    The last step leaves beta_0 of the signal, the one before it beta_1 / c_K, and so on: c is a
    quotient of what is left of Σ beta after and before that coefficient.
    """
    left = [float(sum(coefficients[k:])) for k in range(len(coefficients) + 1)]
    backwards = [left[k + 1] / left[k] if left[k] else 0.0 for k in range(len(coefficients) - 1)]
    return backwards[::-1]


def clamped(step, signal, coefficients, fixed):
    """The recursion of these coefficients; after each step the fixed rows are put back."""
    state = np.array(signal, dtype=np.float64)
    start = state.copy()
    for c in mixing(coefficients):
        state = c * (step @ state) + (1 - c) * start
        for row in fixed:
            state[row] = start[row]
    return state


def clamped_exact(step, signal, alpha, fixed):
    """The limit of the clamped recursion: a linear system for the rows that are free."""
    signal = np.asarray(signal, dtype=np.float64)
    free = [i for i in range(len(step)) if i not in set(fixed)]
    held = sorted(set(fixed))
    state = signal.copy()
    if free:
        system = np.eye(len(free)) - (1 - alpha) * step[np.ix_(free, free)]
        inflow = (1 - alpha) * step[np.ix_(free, held)] @ signal[held] + alpha * signal[free]
        state[free] = np.linalg.solve(system, inflow)
    return state


def appnp(step, signal, alpha, steps):
    """H <- (1-alpha) Â H + alpha H0, K times, entry by entry (appendix A)."""
    n, c = signal.shape
    state = np.array(signal, dtype=np.float64)
    for _ in range(steps):
        new = np.zeros((n, c))
        for i in range(n):
            for k in range(c):
                neighbours = sum(step[i, j] * state[j, k] for j in range(n))
                new[i, k] = (1 - alpha) * neighbours + alpha * signal[i, k]
        state = new
    return state


def one_hot(labels, known, n_classes):
    """Y0: one-hot rows of the known nodes, zero elsewhere."""
    result = np.zeros((len(labels), n_classes))
    for i in known:
        result[i, labels[i]] = 1
    return result


def propagate_labels(step, labels, known, n_classes, alpha, steps, clamp):
    """Label propagation by personalised PageRank (section 2.4, appendix D)."""
    start = one_hot(labels, known, n_classes)
    state = start.copy()
    for _ in range(steps):
        state = (1 - alpha) * (step @ state) + alpha * start
        if clamp:
            for i in known:
                state[i] = start[i]
    return state


def distances(adjacency):
    """Edges on the shortest way between every two nodes, breadth first; infinite without a way."""
    n = len(adjacency)
    result = np.full((n, n), np.inf)
    for start in range(n):
        result[start, start], queue = 0, [start]
        for node in queue:  # grows while it is walked through
            for other in range(n):
                if adjacency[node, other] != 0 and np.isinf(result[start, other]):
                    result[start, other] = result[start, node] + 1
                    queue.append(other)
    return result


def equal_labels(adjacency, labels, known, n_classes, hops):
    """Known nodes of each class within so many hops."""
    far = distances(adjacency)
    counts = np.zeros((len(labels), n_classes))
    for i in range(len(labels)):
        for j in known:
            counts[i, labels[j]] += far[i, j] <= hops
    return counts


def correct_and_smooth(step, f, labels, known, alpha, steps):
    """Spread the errors of f and add them, scaled to the mean error; put labels in; spread all."""
    f = np.array(f, dtype=np.float64)
    truth, errors = one_hot(labels, known, f.shape[1]), np.zeros_like(f)
    for i in known:
        errors[i] = truth[i] - f[i]
    spread = clamped(step, errors, ppr_coefficients(alpha, steps), known)
    mean_size = sum(abs(errors[i]).sum() for i in known) / len(known)
    corrected = f.copy()
    for i in range(len(f)):
        size = abs(spread[i]).sum()
        if i in set(known):
            corrected[i] = truth[i]
        elif size > 0:
            corrected[i] += mean_size * spread[i] / size
    smoothed = appnp(step, corrected, alpha, steps)
    result = f / f.sum(axis=1, keepdims=True)
    for i in range(len(f)):
        positive = np.maximum(smoothed[i], 0)
        if positive.sum() > 0:
            result[i] = positive / positive.sum()
    return result


# --- the network and the losses of PT ---------------------------------------------------------


def network(features, weight1, bias1, weight2, bias2):
    """f(X) = softmax(ReLU(X W1 + b1) W2 + b2), row by row."""
    rows = []
    for x in np.asarray(features, dtype=np.float64):
        hidden = [max(0.0, x @ weight1[:, h] + bias1[h]) for h in range(len(bias1))]
        scores = [
            sum(hidden[h] * weight2[h, k] for h in range(len(hidden))) + bias2[k]
            for k in range(len(bias2))
        ]
        exponentials = [math.exp(score - max(scores)) for score in scores]
        rows.append([value / sum(exponentials) for value in exponentials])
    return np.array(rows)


def pair_loss(weights, f, labels, known):
    """Σ_i Σ_j w_ij CE(f_i, y_j) over all nodes i and labelled nodes j (equation of section 3.1)."""
    total = 0.0
    for i in range(len(f)):
        for j in known:
            total += weights[i, j] * -math.log(f[i, labels[j]])
    return total


def pta_weights(propagation, f, labels, known, gamma):
    """w_ij = a_ji f_i,h(j)^gamma (section 4); gamma = 0 is PTS, gamma = 1 PTD."""
    weights = np.zeros_like(propagation)
    for i in range(len(f)):
        for j in known:
            weights[i, j] = propagation[j, i] * f[i, labels[j]] ** gamma
    return weights


def decoupled_gcn_weights(propagation, f, labels, known):
    """w_ij = a_ji f_i,h(j) / Σ_q a_jq f_q,h(j) (lemma 1)."""
    weights = np.zeros_like(propagation)
    for j in known:
        total = sum(propagation[j, q] * f[q, labels[j]] for q in range(len(f)))
        for i in range(len(f)):
            weights[i, j] = propagation[j, i] * f[i, labels[j]] / total
    return weights


def matrix_loss(soft_labels, f, gamma):
    """-SUM(Y_soft * f^gamma * log f), entry by entry (appendix C)."""
    total = 0.0
    for i in range(len(f)):
        for k in range(f.shape[1]):
            total -= soft_labels[i, k] * f[i, k] ** gamma * math.log(f[i, k])
    return total


# --- early stopping ---------------------------------------------------------------------------


def early_stopping(accuracies, losses, patience):
    """Return (epoch whose weights are kept, last epoch that is run).

    Patience is renewed when accuracy or loss is better than or equal to its best. Kept: best
    accuracy, ties by lower loss, then by the earlier epoch.
    """
    waited, last = 0, len(accuracies) - 1
    for epoch in range(len(accuracies)):
        before = range(epoch)
        accuracy_holds = all(accuracies[epoch] >= accuracies[e] for e in before)
        loss_holds = all(losses[epoch] <= losses[e] for e in before)
        waited = 0 if accuracy_holds or loss_holds else waited + 1
        if waited == patience:
            last = epoch
            break
    kept = min(range(last + 1), key=lambda e: (-accuracies[e], losses[e], e))
    return kept, last
