"""Bregman projections of a metric onto one pair's constraint after the other, as in ITML."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccml.neighbors import backend

Doubles = NDArray[np.float64]


class Constraints(NamedTuple):
    """Squared distances v^T M v of pairs, at most (similar) or at least a bound."""

    differences: Doubles  # (n, d)
    similar: NDArray[np.bool_]
    bounds: Doubles  # (n,)


def project(M: Doubles, constraints: Constraints, gamma: float) -> Iterator[tuple[float, float]]:
    """Change the metric ``M`` in place, by round after round through the constraints.

    After each it yields by how much constraints were missed, relative to their bounds and on
    average, and how much the metric has changed, relatively.
    """
    n_pairs = len(constraints.bounds)
    slack_bounds = constraints.bounds.copy()
    multipliers = np.zeros(n_pairs)
    sweep = _sweep()
    while True:
        before = M.copy()
        missed = sweep(M, *constraints, slack_bounds, multipliers, gamma)
        M[:] = (M + M.T) / 2  # rounding
        change = np.linalg.norm(M - before) / np.linalg.norm(M)
        yield missed / max(n_pairs, 1), float(change)


@cache
def _compiled() -> Callable[..., Any]:
    import numba

    return numba.njit(cache=True)(_go_through)


def _sweep() -> Callable[..., Any]:
    return _compiled() if backend() == "numba" else _go_through


def _go_through(
    M: Doubles,
    differences: Doubles,
    similar: NDArray[np.bool_],
    bounds: Doubles,
    slack_bounds: Doubles,
    multipliers: Doubles,
    gamma: float,
) -> float:
    """Project onto each constraint once, in place; return the sum of what was missed."""
    missed = 0.0
    for i in range(len(differences)):
        v = differences[i]
        Mv = M @ v
        distance = v @ Mv
        sign = 1.0 if similar[i] else -1.0
        missed += max(0.0, sign * (distance - bounds[i]) / bounds[i])
        # The projection makes 1 / distance smaller by a step, the slack makes 1 / bound larger by
        # step / gamma, and they meet: 1/d - a = 1/b + a/gamma. A multiplier never gets negative.
        step = gamma / (gamma + 1) * sign * (1 / distance - 1 / slack_bounds[i])
        step = min(multipliers[i], step)
        if step == 0:  # it holds, and nothing holds it
            continue
        multipliers[i] -= step
        slack_bounds[i] = 1 / (1 / slack_bounds[i] + sign * step / gamma)
        update = sign * step / (1 - sign * step * distance) * Mv
        for row in range(len(M)):
            M[row] += update[row] * Mv
    return missed
