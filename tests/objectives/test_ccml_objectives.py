"""Both objectives of CCML against loops written from the paper's equations."""

from math import exp, log

import numpy as np
import pytest
import torch

from ccml import objectives
from ccml.objectives import Pool
from ccml.objectives._neighbors import mean_squared_distance

OBJECTIVES = {"per-class": objectives.per_class, "local": objectives.local}


@pytest.fixture
def points():
    """Seeded points of five classes: two of ordinary size, one smaller than k, a pair, a single."""
    rng = np.random.default_rng(0)
    labels = np.repeat([3, 7, 1, 0, 9], [8, 6, 3, 2, 1])
    order = rng.permutation(len(labels))
    return rng.normal(size=(len(labels), 3)), labels[order]


def mean_of_nearest(z, candidates, k):
    """(1/k) sum_j ||z - NN_j||^2 over those of the candidates that there are."""
    distances = sorted(sum((z - x) ** 2) for x in candidates)[:k]
    return sum(distances) / len(distances)


def probability_per_class(i, Z, y, pool, pool_y, k):
    """Eq. `org_cne` for point i and its own class; None where the class has no other member."""
    weights = {}
    for c in set(pool_y):
        members = [
            x
            for x, label in zip(pool, pool_y, strict=True)
            if label == c and not np.array_equal(x, Z[i])
        ]
        if members:
            weights[c] = exp(-mean_of_nearest(Z[i], members, k))
    return weights[y[i]] / sum(weights.values()) if y[i] in weights else None


def probability_local(i, Z, y, pool, pool_y, k):
    """Eq. `new_cne` for point i."""
    same = [
        x for x, c in zip(pool, pool_y, strict=True) if c == y[i] and not np.array_equal(x, Z[i])
    ]
    other = [x for x, c in zip(pool, pool_y, strict=True) if c != y[i]]
    if not same:
        return None
    same_weight = exp(-mean_of_nearest(Z[i], same, k))
    other_weight = exp(-mean_of_nearest(Z[i], other, k)) if other else 0.0
    return same_weight / (same_weight + other_weight)


LOOPS = {"per-class": probability_per_class, "local": probability_local}


def loss_by_loop(name, Z, y, k, loss, weight=None, pool=None, pool_y=None):
    pool, pool_y = (Z, y) if pool is None else (pool, pool_y)
    weight = np.ones(len(Z)) if weight is None else weight
    gains, weights = [], []
    for i in range(len(Z)):
        p = LOOPS[name](i, Z, y, pool, pool_y, k)
        if p is not None:
            gains.append(p if loss == "expected-accuracy" else log(p))
            weights.append(weight[i])
    return -np.dot(gains, weights) / sum(weights)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("loss", objectives.LOSSES)
@pytest.mark.parametrize("k", [1, 2, 5, 30])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loop(points, name, loss, k, weighted):
    Z, y = points
    weight = np.random.default_rng(1).uniform(0, 2, len(Z)) if weighted else None
    result = OBJECTIVES[name](
        torch.tensor(Z),
        torch.tensor(y),
        k,
        loss=loss,
        sample_weight=None if weight is None else torch.tensor(weight),
    )
    assert result.item() == pytest.approx(loss_by_loop(name, Z, y, k, loss, weight), rel=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("n_pool", [40, 1500])  # the larger one takes the folded selection
def test_neighbours_come_from_the_pool(points, name, n_pool):
    Z, y = points
    rng = np.random.default_rng(2)
    pool = np.concatenate([rng.normal(size=(n_pool, 3)), Z])
    pool_y = np.concatenate([rng.choice([3, 7, 1], n_pool), y])
    rows = torch.arange(n_pool, n_pool + len(Z))
    result = OBJECTIVES[name](
        torch.tensor(Z), torch.tensor(y), 4,
        pool=Pool(torch.tensor(pool), torch.tensor(pool_y), rows),
    )  # fmt: skip
    expected = loss_by_loop(name, Z, y, 4, "expected-accuracy", pool=pool, pool_y=pool_y)
    assert result.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("loss", objectives.LOSSES)
def test_gradient_by_finite_differences(points, name, loss):
    Z, y = points
    pool_Z = np.random.default_rng(3).normal(size=(12, 3))
    pool_y = torch.tensor(np.resize([3, 7, 1], 12))

    def alone(z):
        return OBJECTIVES[name](z, torch.tensor(y), 3, loss=loss)

    def pooled(z, p):
        pool = Pool(p, pool_y, torch.full((len(y),), -1))
        return OBJECTIVES[name](z, torch.tensor(y), 3, loss=loss, pool=pool)

    z = torch.tensor(Z, requires_grad=True)
    assert torch.autograd.gradcheck(alone, z)
    assert torch.autograd.gradcheck(pooled, (z, torch.tensor(pool_Z, requires_grad=True)))


@pytest.mark.parametrize("n_pool", [30, 3000])  # few of many pairs: by a sparse matrix
def test_gradient_of_chosen_distances(n_pool):
    rng = torch.Generator().manual_seed(0)
    queries = torch.randn(6, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    pool = torch.randn(n_pool, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    chosen = torch.randint(n_pool, (6, 2, 4), generator=rng)
    exists = torch.rand(6, 2, 4, generator=rng) < 0.8
    exists[..., 0] = True
    ours = mean_squared_distance(queries, pool, chosen, exists)
    squared = (queries[:, None, None] - pool[chosen]).square().sum(-1)
    by_autograd = (squared * exists).sum(-1) / exists.sum(-1)
    torch.testing.assert_close(ours, by_autograd)
    weights = torch.randn(6, 2, generator=rng, dtype=torch.float64)
    for found, expected in zip(
        torch.autograd.grad((ours * weights).sum(), (queries, pool)),
        torch.autograd.grad((by_autograd * weights).sum(), (queries, pool)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


def test_gradient_is_the_closed_form_of_the_paper(points):
    """Eq. `grad_ccml` with (x_i - x_j)^T for its x_i^T, so that the neighbours move too."""
    _, y = points
    X = np.random.default_rng(4).normal(size=(len(y), 5))
    A = np.random.default_rng(5).normal(size=(2, 5)) / 2
    k, E, queries = 3, np.zeros_like(A), 0
    for i in range(len(y)):
        weight, beta = {}, {}
        for c in set(y):
            members = [j for j in range(len(y)) if y[j] == c and j != i]
            members = sorted(members, key=lambda j: sum((A @ X[i] - A @ X[j]) ** 2))[:k]
            if members:
                differences = [X[i] - X[j] for j in members]
                weight[c] = exp(-np.mean([sum((A @ d) ** 2) for d in differences]))
                beta[c] = sum(np.outer(A @ d, d) for d in differences) / len(members)
        if y[i] not in weight:
            continue
        queries += 1
        total = sum(weight.values())
        mean_beta = sum(beta[c] * weight[c] for c in weight) / total
        E -= 2 * weight[y[i]] / total * (beta[y[i]] - mean_beta)
    map_ = torch.tensor(A, requires_grad=True)
    loss = objectives.per_class(torch.tensor(X) @ map_.T, torch.tensor(y), k)
    (gradient,) = torch.autograd.grad(-queries * loss, map_)  # the paper sums and maximises
    np.testing.assert_allclose(gradient, E, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_point_is_never_its_own_neighbour(name):
    """Were it, the pair at distance 2 would have p = 1 / (1 + e^-100)."""
    Z = torch.tensor([[0.0], [2.0], [10.0], [12.0]], dtype=torch.float64)
    loss = OBJECTIVES[name](Z, torch.tensor([0, 0, 1, 1]), 1, loss="log-likelihood")
    others = [100.0, 64.0, 64.0, 100.0]
    assert loss.item() == pytest.approx(np.mean([np.log1p(exp(4 - d)) for d in others]))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_duplicates_are_neighbours_of_each_other(name):
    Z = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    loss = OBJECTIVES[name](Z, torch.tensor([0, 0, 1, 1]), 1)
    assert loss.item() == pytest.approx(-0.5)
    assert torch.autograd.grad(loss, Z)[0].abs().max() == 0


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("loss", objectives.LOSSES)
@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 0, 1]])
def test_degenerate_batches_have_finite_gradients(name, loss, labels):
    Z = torch.randn(4, 2, generator=torch.manual_seed(0), requires_grad=True)
    value = OBJECTIVES[name](Z, torch.tensor(labels), 2, loss=loss)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, Z)[0]).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_no_point_is_lost_to_underflow(name):
    """At these distances every probability is below the smallest float32."""
    Z = torch.tensor([[0.0], [200.0], [100.0], [300.0]], requires_grad=True)
    loss = OBJECTIVES[name](Z, torch.tensor([0, 0, 1, 1]), 1, loss="log-likelihood")
    assert loss.item() == pytest.approx(30000.0, rel=1e-5)
    assert (torch.autograd.grad(loss, Z)[0] != 0).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_invariances(points, name):
    Z, y = points
    objective = OBJECTIVES[name]
    expected = objective(torch.tensor(Z), torch.tensor(y), 3).item()
    rotation = np.linalg.qr(np.random.default_rng(6).normal(size=(3, 3)))[0]
    order = np.random.default_rng(7).permutation(len(y))
    for moved, labels in [
        (Z @ rotation, y),
        (Z + 100.0, y),
        (Z[order], y[order]),
        (Z, (10 - y) ** 2),
    ]:
        assert objective(torch.tensor(moved), torch.tensor(labels), 3).item() == pytest.approx(
            expected, rel=1e-9
        )


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_the_dtype(points, name, dtype):
    Z, y = points
    assert OBJECTIVES[name](torch.tensor(Z, dtype=dtype), torch.tensor(y), 2).dtype == dtype


def test_an_unknown_loss_is_named(points):
    Z, y = points
    with pytest.raises(ValueError, match="did you mean 'log-likelihood'"):
        objectives.local(torch.tensor(Z), torch.tensor(y), 2, loss="log_likelihood")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_nan_is_not_hidden(points, name):
    Z, y = points
    Z = torch.tensor(Z)
    Z[3] = float("nan")
    assert torch.isnan(OBJECTIVES[name](Z, torch.tensor(y), 2))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_k_has_to_be_positive(points, name):
    Z, y = points
    with pytest.raises(ValueError, match="n_neighbors=0"):
        OBJECTIVES[name](torch.tensor(Z), torch.tensor(y), 0)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_float32_gradients_far_from_the_origin(points, name):
    Z, y = points
    far = (torch.tensor(Z) + 1e3).float()

    def gradient(z):
        z = z.clone().requires_grad_()
        return torch.autograd.grad(OBJECTIVES[name](z, torch.tensor(y), 3), z)[0].double()

    torch.testing.assert_close(gradient(far), gradient(far.double()), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("objective", [objectives.local, objectives.per_class])
def test_torch_finds_the_same_neighbours_as_the_compiled_search(objective, monkeypatch):
    """Elsewhere than on the CPU, and where numba is off, torch searches."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(300, 6, generator=generator, requires_grad=True)
    labels = torch.randint(5, (300,), generator=generator)
    results = []
    for switch in ("1", "0"):
        monkeypatch.setenv("CCML_NUMBA", switch)
        loss = objective(z, labels, 4)
        results.append((loss, *torch.autograd.grad(loss, z)))
    for compiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(compiled, plain)


def test_half_precision_on_the_cpu():
    """What autocast gives: numpy doesn't know it, torch does."""
    z = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert objectives.local(z, torch.arange(40) % 3, 3).isfinite()
