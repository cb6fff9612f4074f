"""NCA, KNCA, LMNN, NCMC and the contrastive objective against loops from their equations."""

from functools import partial
from itertools import combinations, pairwise
from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from ccml import objectives
from ccml.objectives import Pool, _pairs


@pytest.fixture
def points():
    """Seeded points of five classes: two of ordinary size, one of three, a pair, a single."""
    rng = np.random.default_rng(0)
    labels = np.repeat([3, 7, 1, 0, 9], [5, 4, 3, 2, 1])
    return rng.normal(size=(len(labels), 3)), rng.permutation(labels)


def squared(a, b):
    return sum((a - b) ** 2)


def others_of(i, rows):
    """The pool without the query; ``rows`` says where each query stands in it."""
    return [j for j in range(rows.n) if j != rows.own[i]]


class Rows:
    """A pool in which query i is row ``own[i]``."""

    def __init__(self, X, y, own):
        self.X, self.y, self.own, self.n = X, y, own, len(y)


def probability_nca(i, z, label, rows):
    weights = {j: exp(-squared(z, rows.X[j])) for j in others_of(i, rows)}
    same = [j for j in weights if rows.y[j] == label]
    return sum(weights[j] for j in same) / sum(weights.values()) if same else None


def probability_knca(i, z, label, rows, k, selection):
    """By enumeration of all subsets of k rows; None if no subset is won."""
    total, won = 0.0, []
    for subset in combinations(others_of(i, rows), k):
        weight = exp(-sum(squared(z, rows.X[j]) for j in subset))
        votes = {c: sum(rows.y[j] == c for j in subset) for c in set(rows.y)}
        mine = votes.pop(label, 0)
        total += weight
        if mine == k if selection == "all" else mine > max(votes.values(), default=0):
            won.append(weight)
    return sum(won) / total if won else None


def loss_from(probability, loss):
    def value(i, z, label, rows):
        p = probability(i, z, label, rows)
        if p is None:
            return None
        return -p if loss == "expected-accuracy" else -log(p)

    return value


def lmnn(i, z, label, rows, k, margin, push):
    """The triple loop."""
    distances = {j: squared(z, rows.X[j]) for j in others_of(i, rows)}
    targets = sorted((j for j in distances if rows.y[j] == label), key=distances.get)[:k]
    if not targets:
        return None
    pull, hinge = 0.0, 0.0
    for j in targets:
        pull += distances[j]
        for impostor in distances:
            if rows.y[impostor] != label:
                hinge += max(0.0, margin + distances[j] - distances[impostor])
    return ((1 - push) * pull + push * hinge) / len(targets)


def drlim(i, z, label, rows, margin):
    same = [squared(z, rows.X[j]) for j in others_of(i, rows) if rows.y[j] == label]
    other = [sqrt(squared(z, rows.X[j])) for j in others_of(i, rows) if rows.y[j] != label]
    if not same:
        return None
    push = [max(0.0, margin - d) ** 2 for d in other]
    return (np.mean(same) + (np.mean(push) if push else 0)) / 2


# name -> the function, and its loop
CASES = {
    **{
        f"NCA, {loss}": (
            partial(objectives.nca, loss=loss), loss_from(probability_nca, loss),
        )
        for loss in objectives.LOSSES
    },
    **{
        f"KNCA, {selection}, k={k}, {loss}": (
            partial(objectives.knca, n_neighbors=k, selection=selection, loss=loss),
            loss_from(partial(probability_knca, k=k, selection=selection), loss),
        )
        for selection in objectives.SELECTIONS for k in (1, 2, 3, 5) for loss in objectives.LOSSES
    },
    **{
        f"LMNN, k={k}, margin={margin}, push={push}": (
            partial(objectives.large_margin, n_neighbors=k, margin=margin, push=push),
            partial(lmnn, k=k, margin=margin, push=push),
        )
        for k, margin, push in [(1, 1.0, 0.5), (3, 1.0, 0.5), (3, 0.3, 1.0), (20, 4.0, 0.2)]
    },
    **{
        f"contrastive, margin={margin}": (
            partial(objectives.contrastive, margin=margin), partial(drlim, margin=margin),
        )
        for margin in (1.0, 3.0)
    },
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES)
# One of each for the properties that don't depend on the parameters.
FEW = ["NCA, log-likelihood", "KNCA, majority, k=3, log-likelihood",
       "LMNN, k=3, margin=1.0, push=0.5", "contrastive, margin=3.0"]  # fmt: skip
few_cases = pytest.mark.parametrize("case", FEW)


def by_loop(loop, Z, y, rows, weight):
    values = [loop(i, Z[i], y[i], rows) for i in range(len(Z))]
    counted = [i for i, value in enumerate(values) if value is not None]
    if not counted:
        return 0.0
    return np.average([values[i] for i in counted], weights=weight[counted])


@every_case
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loop(points, case, weighted):
    Z, y = points
    objective, loop = CASES[case]
    weight = np.random.default_rng(1).uniform(0, 2, len(Z))
    ours = objective(
        torch.tensor(Z), torch.tensor(y), sample_weight=torch.tensor(weight) if weighted else None
    )
    expected = by_loop(
        loop, Z, y, Rows(Z, y, range(len(y))), weight if weighted else weight * 0 + 1
    )
    assert ours.item() == pytest.approx(expected, rel=1e-10)


@every_case
def test_neighbours_come_from_the_pool(points, case, monkeypatch):
    """Some queries are in the pool, others aren't; blocks of two queries."""
    Z, y = points
    objective, loop = CASES[case]
    rng = np.random.default_rng(2)
    pool = np.concatenate([rng.normal(size=(4, 3)), Z[:10]])
    pool_y = np.concatenate([[3, 7, 7, 5], y[:10]])
    own = np.where(np.arange(len(y)) < 10, np.arange(len(y)) + 4, -1)
    monkeypatch.setattr(_pairs, "_BLOCK_ELEMENTS", 2 * len(pool))
    ours = objective(
        torch.tensor(Z), torch.tensor(y),
        pool=Pool(torch.tensor(pool), torch.tensor(pool_y), torch.tensor(own)),
    )  # fmt: skip
    expected = by_loop(loop, Z, y, Rows(pool, pool_y, own), np.ones(len(y)))
    assert ours.item() == pytest.approx(expected, rel=1e-10)


@every_case
def test_gradient_by_finite_differences(points, case, monkeypatch):
    Z, y = points
    objective, _ = CASES[case]
    pool_y = torch.tensor(np.resize([3, 7, 1], 12))
    pool_Z = torch.tensor(np.random.default_rng(3).normal(size=(12, 3)), requires_grad=True)
    z = torch.tensor(Z, requires_grad=True)
    monkeypatch.setattr(_pairs, "_BLOCK_ELEMENTS", 60)
    assert torch.autograd.gradcheck(lambda z: objective(z, torch.tensor(y)), z)
    assert torch.autograd.gradcheck(
        lambda z, p: objective(
            z, torch.tensor(y), pool=Pool(p, pool_y, torch.full((len(y),), -1))
        ),
        (z, pool_Z),
    )  # fmt: skip


@pytest.mark.parametrize("selection", objectives.SELECTIONS)
def test_knca_of_one_neighbour_is_nca(points, selection):
    Z, y = (torch.tensor(part) for part in points)
    for loss in objectives.LOSSES:
        knca = objectives.knca(Z, y, 1, selection=selection, loss=loss)
        torch.testing.assert_close(knca, objectives.nca(Z, y, loss=loss), rtol=1e-13, atol=1e-13)


def test_knca_of_large_classes():
    """Many steps of the tree, against the recurrence E_m += w_j E_(m-1) row by row."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(203, 2)), np.repeat([0, 1, 2], [101, 70, 32])
    expected = []
    for i in range(len(y)):
        sums = np.zeros((3, 4))
        sums[:, 0] = 1
        for j in range(len(y)):
            if j != i:
                sums[y[j], 1:] += exp(-squared(Z[i], Z[j])) * sums[y[j], :-1]
        a, b, c = sums[[y[i], (y[i] + 1) % 3, (y[i] + 2) % 3]]
        total = sum(
            a[p] * b[q] * c[3 - p - q] for p in range(4) for q in range(4) if 0 <= 3 - p - q <= 3
        )
        expected.append((a[3] + a[2] * (b[1] + c[1])) / total)
    ours = objectives.knca(torch.tensor(Z), torch.tensor(y), 3)
    assert ours.item() == pytest.approx(-np.mean(expected), rel=1e-10)


def test_nca_is_scikit_learns(points):
    Z, y = points
    A = np.random.default_rng(4).normal(size=(2, 3))
    same = y[:, None] == y
    peer = NeighborhoodComponentsAnalysis()
    peer.n_iter_ = 0
    theirs, gradient = peer._loss_grad_lbfgs(A.ravel(), Z, same, -1.0)
    n_queries = sum((y == label).sum() > 1 for label in y)  # a single one adds nothing to the sum
    map_ = torch.tensor(A, requires_grad=True)
    ours = n_queries * objectives.nca(torch.tensor(Z) @ map_.T, torch.tensor(y))
    assert ours.item() == pytest.approx(theirs, rel=1e-10)
    np.testing.assert_allclose(torch.autograd.grad(ours, map_)[0].ravel(), gradient, rtol=1e-8)


def test_without_impostors_nothing_is_pushed():
    Z = torch.tensor([[0.0], [1.0], [50.0], [51.0]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1])
    loss = objectives.large_margin(Z, labels, 3, push=1.0)
    assert loss == 0
    assert (torch.autograd.grad(loss, Z)[0] == 0).all()
    assert objectives.large_margin(Z, labels, 3, push=0.5) == 0.5  # the pull is left


@few_cases
@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 0, 1]])
def test_degenerate_batches_have_finite_gradients(case, labels):
    objective, _ = CASES[case]
    random = torch.randn(4, 2, generator=torch.manual_seed(0))
    for Z in (random, torch.zeros(4, 2), random[:1].clone()):
        value = objective(Z.requires_grad_(), torch.tensor(labels[: len(Z)]))
        assert torch.isfinite(value)
        assert torch.isfinite(torch.autograd.grad(value, Z)[0]).all()


@pytest.mark.parametrize("case", FEW[:2])
def test_no_point_is_lost_to_underflow(case):
    """At these distances every weight is below the smallest float32."""
    objective, _ = CASES[case]
    Z = 60 * torch.arange(8.0)[:, None].requires_grad_()
    Z.retain_grad()
    loss = objective(Z, torch.arange(8) % 2)
    assert loss.isfinite()
    assert (torch.autograd.grad(loss, Z)[0] != 0).all()


@few_cases
def test_invariances(points, case):
    Z, y = points
    objective, _ = CASES[case]
    expected = objective(torch.tensor(Z), torch.tensor(y)).item()
    rotation = np.linalg.qr(np.random.default_rng(6).normal(size=(3, 3)))[0]
    order = np.random.default_rng(7).permutation(len(y))
    for moved, labels in [
        (Z @ rotation, y), (Z + 100.0, y), (Z[order], y[order]), (Z, (10 - y) ** 2),
    ]:  # fmt: skip
        value = objective(torch.tensor(moved), torch.tensor(labels)).item()
        assert value == pytest.approx(expected, rel=1e-9)


@few_cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_the_dtype(points, case, dtype):
    Z, y = points
    assert CASES[case][0](torch.tensor(Z, dtype=dtype), torch.tensor(y)).dtype == dtype


@few_cases
def test_nan_is_not_hidden(points, case):
    Z, y = points
    Z[3] = np.nan
    assert torch.isnan(CASES[case][0](torch.tensor(Z), torch.tensor(y)))


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (partial(objectives.nca, loss="log"), "loss='log'"),
        (partial(objectives.knca, n_neighbors=0), "n_neighbors=0"),
        (partial(objectives.knca, n_neighbors=2, selection="most"), "selection='most'"),
        (partial(objectives.large_margin, n_neighbors=0), "n_neighbors=0"),
        (partial(objectives.large_margin, n_neighbors=1, margin=-1), "margin=-1.*at least 0"),
        (partial(objectives.large_margin, n_neighbors=1, push=2), "push=2.*at most 1"),
        (partial(objectives.contrastive, margin=0), "margin=0.*above 0"),
    ],
)
def test_bad_parameters(points, objective, message):
    Z, y = points
    with pytest.raises(ValueError, match=message):
        objective(torch.tensor(Z), torch.tensor(y))


@pytest.mark.parametrize("loss", objectives.LOSSES)
@pytest.mark.parametrize("n_centroids", [1, 2])
def test_nearest_mean_equals_the_loop(points, loss, n_centroids):
    Z, y = points
    rng = np.random.default_rng(0)
    centroid_y = np.repeat([3, 7, 1, 0], n_centroids)  # none for class 9
    centroids = rng.normal(size=(len(centroid_y), 3))
    weight = rng.uniform(0, 2, len(y))
    values, weights = [], []
    for z, label, w in zip(Z, y, weight, strict=True):
        near = np.array([exp(-squared(z, m) / 2) for m in centroids])
        p = near[centroid_y == label].sum() / near.sum()
        if label != 9:
            values.append(-p if loss == "expected-accuracy" else -log(p))
            weights.append(w)

    def objective(z, m):
        return objectives.nearest_mean(
            z, torch.tensor(y), m, torch.tensor(centroid_y), loss=loss,
            sample_weight=torch.tensor(weight),
        )  # fmt: skip

    z, m = (torch.tensor(part, requires_grad=True) for part in (Z, centroids))
    expected = np.average(values, weights=weights)
    assert objective(z, m).item() == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(objective, (z, m))


def test_nearest_mean_of_two_classes_is_a_logistic_of_the_projection():
    """The closed form: log p / (1 - p) is linear, (m1 - m0)(z - (m0 + m1) / 2)."""
    rng = np.random.default_rng(0)
    z, means = rng.normal(size=(7, 3)), rng.normal(size=(2, 3))
    odds = (z - means.mean(axis=0)) @ (means[1] - means[0])
    ours = objectives.nearest_mean(
        torch.tensor(z), torch.ones(7, dtype=torch.long), torch.tensor(means), torch.arange(2)
    )
    assert ours.item() == pytest.approx(np.mean(np.log1p(np.exp(-odds))), rel=1e-12)


@few_cases
def test_blocks_do_not_matter(points, case, monkeypatch):
    Z, y = (torch.tensor(part) for part in points)
    results = []
    for elements in (1, 40, 10**6):
        monkeypatch.setattr(_pairs, "_BLOCK_ELEMENTS", elements)
        z = Z.clone().requires_grad_()
        loss = CASES[case][0](z, y)
        results.append((loss, *torch.autograd.grad(loss, z)))
    for one, other in pairwise(results):
        for ours, theirs in zip(one, other, strict=True):
            torch.testing.assert_close(ours, theirs)
