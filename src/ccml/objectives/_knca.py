"""NCA with k neighbours: exact sums over all subsets of k rows, by dynamic programming."""

import torch
from torch import Tensor

from ccml._validation import check_count, check_option
from ccml.objectives._losses import LOSSES, loss_of, query_shares
from ccml.objectives._pairs import by_autograd, sum_over_blocks
from ccml.objectives._search import Pool

SELECTIONS = ("majority", "all")

# Log of a sum without terms. Finite, so that no difference of two of them is NaN.
_NOTHING = -1e30

# Log coefficients of polynomials with constant term 1: one tensor (n, b) for each degree from 1 on.
Polynomials = list[Tensor]


def knca(
    embeddings: Tensor,
    labels: Tensor,
    n_neighbors: int,
    *,
    selection: str = "majority",
    loss: str = "expected-accuracy",
    sample_weight: Tensor | None = None,
    pool: Pool | None = None,
) -> Tensor:
    """Loss of stochastic k-neighbourhood selection; with ``n_neighbors=1`` that of `nca`.

    A query chooses a set S of ``n_neighbors`` rows with probability ∝ exp(-sum of the squared
    distances to them). It is right if its class has more rows in S than any other
    ("majority"), or all of them ("all"). The probability of that is a ratio of sums over subsets:
    elementary symmetric polynomials in exp(-d_ij), class by class.

    A query whose class has too few rows in the pool to win doesn't count. The other parameters
    are those of `local`.

    Examples
    --------
    >>> import torch
    >>> from ccml import objectives
    >>> z, labels = torch.tensor([[0.0], [1.0], [1.5], [2.0]]), torch.tensor([0, 0, 0, 1])
    >>> objectives.knca(z, labels, 1), objectives.knca(z, labels, 2)
    (tensor(-0.7505), tensor(-0.4428))
    """
    check_count("objective", "n_neighbors", n_neighbors)
    check_option("objective", "selection", selection, SELECTIONS)
    check_option("objective", "loss", loss, LOSSES)
    pool = Pool.of(embeddings, labels, pool)
    classes, codes, counts = pool.labels.unique(return_inverse=True, return_counts=True)
    order = torch.argsort(codes, stable=True)  # sorted, a class is a range
    own = torch.searchsorted(classes, labels).clamp_max(len(classes) - 1)
    k = min(n_neighbors, len(order) - int((pool.rows >= 0).any()))
    others = torch.where(classes == labels[:, None], 0, counts)  # (B, C)
    company = counts[own] * (classes[own] == labels) - (pool.rows >= 0).long()
    if k == 0 or not (is_query := _can_win(company, others, k, selection)).any():
        return 0 * embeddings.sum()
    shares = query_shares(is_query, sample_weight, embeddings.dtype)

    @by_autograd
    def loss_of_block(distances: Tensor, block: slice) -> Tensor:
        weights = (-distances[:, order]).clamp_min(_NOTHING).T  # logs, (P, b)
        of_classes = _products([weights], counts, k)
        of_all = _products(of_classes, torch.tensor([len(classes)]), k)
        mine = own[block][None]
        chances = [of_class.gather(0, mine) for of_class in of_classes]
        if selection == "majority":
            rest = [of_class.scatter(0, mine, _NOTHING) for of_class in of_classes]
            chances = [
                chance + _coefficient(rest[: won - 1], k - won)
                for won, chance in enumerate(chances, start=1)
            ]
        else:
            chances = chances[k - 1 :]
        log_probability = torch.logsumexp(torch.cat(chances), 0) - of_all[k - 1][0]
        log_probability = torch.where(shares[block] > 0, log_probability, 0)
        return (loss_of(log_probability, loss) * shares[block]).sum()

    return sum_over_blocks(loss_of_block, embeddings, pool, arrays=k)


def _can_win(company: Tensor, others: Tensor, k: int, selection: str) -> Tensor:
    """Say which queries have any subset in which their class wins, by the sizes of the classes."""
    if selection == "all":
        return company >= k
    # With `won` rows of the own class, no other may give more than `won` - 1 of the k - won left.
    ways = [
        (company >= won) & (others.clamp_max(won - 1).sum(1) >= k - won) for won in range(1, k + 1)
    ]
    return torch.stack(ways).any(0)


def _coefficient(polynomials: Polynomials, degree: int) -> Tensor:
    """Coefficient of the product of ``polynomials`` over their first axis, (1, b) or a number."""
    if degree == 0:
        return torch.zeros(())
    if not polynomials:
        return torch.tensor(_NOTHING)
    n = torch.tensor([len(polynomials[0])])
    product = _products(polynomials, n, degree)
    return product[degree - 1] if degree <= len(product) else torch.tensor(_NOTHING)


def _products(polynomials: Polynomials, counts: Tensor, degree: int) -> Polynomials:
    """Multiply polynomials over consecutive ranges of ``counts``, up to ``degree``.

    Two neighbours at a time, so it takes log2 of the largest count steps.
    """
    polynomials, counts = polynomials[:degree], counts.to(polynomials[0].device)
    while counts.max() > 1:
        halves = (counts + 1) // 2
        of = torch.repeat_interleave(halves)  # which range
        rank = torch.arange(len(of), device=of.device) - (halves.cumsum(0) - halves)[of]
        left = (counts.cumsum(0) - counts)[of] + 2 * rank
        alone = 2 * rank + 1 == counts[of]
        right = torch.where(alone, left, left + 1)
        polynomials = _multiply(
            [p[left] for p in polynomials],
            [p[right].masked_fill(alone[:, None], _NOTHING) for p in polynomials],
            degree,
        )
        counts = halves
    return polynomials


def _multiply(left: Polynomials, right: Polynomials, degree: int) -> Polynomials:
    product = []
    for m in range(1, min(len(left) + len(right), degree) + 1):
        terms = [
            left[i - 1] + right[m - i - 1] for i in range(1, m) if i <= len(left) >= m - i
        ]  # both have as many degrees
        if m <= len(left):
            terms += [left[m - 1], right[m - 1]]
        product.append(terms[0] if len(terms) == 1 else torch.logsumexp(torch.stack(terms), 0))
    return product
