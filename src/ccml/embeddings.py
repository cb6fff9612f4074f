"""Embeddings: torch modules that map a row to a point where distances mean something."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


class Linear(nn.Module):
    """The map z = Ax, so that squared distances are Mahalanobis distances with M = A^T A.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The matrix A to start from.

    Examples
    --------
    >>> import torch
    >>> from ccml.embeddings import Linear
    >>> Linear([[1.0, 1.0]])(torch.tensor([[2.0, 3.0]])).tolist()
    [[5.0]]
    """

    def __init__(self, components: ArrayLike) -> None:
        super().__init__()
        self.components = nn.Parameter(torch.tensor(np.asarray(components), dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Map rows of shape (n, n_features) to (n, n_components)."""
        return x @ self.components.T
