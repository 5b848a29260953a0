"""Priors of the latent θ ∈ R^D: what a context is about. Both are scaled so that E|θ|² = 1."""

import torch
from torch import Generator, Tensor

from fvbook import _check


class _Value:
    """Two priors are equal if they are of one kind, with the same numbers, dtype and device."""

    dtype: torch.dtype
    device: torch.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, torch.dtype, torch.device]:
        return repr(self), self.dtype, self.device


class GaussianPrior(_Value):
    """The isotropic Gaussian prior θ ~ N(0, I/D).

    Parameters
    ----------
    dim : int
        D ≥ 1, the dimension of θ.
    dtype, device
        Of every tensor the prior returns.

    Raises
    ------
    ValueError
        If `dim` is not an integer ≥ 1.
    """

    def __init__(
        self, dim: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        self.dim = _check.integer("dim", dim, 1)
        self.dtype = dtype
        self.device = torch.empty(0, device=device).device  # as tensors name it: "cuda" is cuda:0

    def __repr__(self) -> str:
        return f"GaussianPrior(dim={self.dim})"

    def to(self, device: torch.device | str) -> "GaussianPrior":
        """The same prior on another device."""
        return GaussianPrior(self.dim, dtype=self.dtype, device=device)

    @property
    def variances(self) -> Tensor:
        """Prior variance of each coordinate of θ, (D,); they sum to 1."""
        return torch.full((self.dim,), 1 / self.dim, dtype=self.dtype, device=self.device)

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        """Draw n independent θ, (n, D). ValueError if n < 1."""
        n = _check.integer("n", n, 1)
        shape = (n, self.dim)
        normal = torch.randn(shape, generator=generator, dtype=self.dtype, device=self.device)
        return normal / self.dim**0.5


class TreePrior(_Value):
    """The tree prior: θ is the code of a uniformly drawn leaf of a balanced binary tree.

    The tree has K levels of internal nodes, D = 2^K − 1 nodes in all, one orthonormal coordinate each, in
    heap order: node n has the children 2n + 1 (left) and 2n + 2 (right), the root is 0. A leaf is a path of
    signs σ ∈ {±1}^K, σ_k = +1 going left at level k, and θ has the entry σ_k a_k at the k-th node of the path
    and 0 elsewhere, where a_k² = α^(k−1) (1 − α) / (1 − α^K). So |θ| = 1 for every leaf. [Chapter
    "A tree prior"; the tree prior of Raj and Reddy, arXiv 2606.16694, in our scaling.]

    Parameters
    ----------
    levels : int
        K, from 1 to 12 (the table of leaves has 2^K (2^K − 1) entries).
    decay : float
        α in (0, 1): the share of |θ|² at a level, relative to the level above.
    dtype, device
        Of every tensor the prior returns.

    Attributes
    ----------
    dim : int
        D = 2^K − 1.
    amplitudes : Tensor
        a_k, (K,), decreasing; their squares sum to 1.
    paths : Tensor
        (2^K, K) integers: the node that each leaf's path visits at each level. A leaf's index in binary, most
        significant bit first, is its path: bit 0 = left = +1.
    signs : Tensor
        (2^K, K), σ_k of each leaf.
    leaves : Tensor
        (2^K, D): θ of each leaf, unit rows.
    node_levels : Tensor
        (D,) integers: the level 1..K of each node.

    Raises
    ------
    ValueError
        If `levels` is not an integer from 1 to 12 or `decay` not in (0, 1).
    """

    def __init__(
        self,
        levels: int,
        decay: float,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.levels = _check.integer("levels", levels, 1, 12)
        self.decay = _check.real("decay", decay, 0, 1, open_=True)
        self.dtype = dtype
        self.device = torch.empty(0, device=device).device  # as tensors name it: "cuda" is cuda:0
        self.dim = 2**self.levels - 1

        level = torch.arange(self.levels, dtype=torch.float64)
        shares = self.decay**level
        self.amplitudes = (shares / shares.sum()).sqrt().to(self.device, dtype)

        leaf = torch.arange(2**self.levels, device=self.device)[:, None]
        depth = torch.arange(self.levels, device=self.device)
        bits = leaf >> (self.levels - 1 - depth) & 1
        self.signs = (1 - 2 * bits).to(dtype)
        self.paths = 2**depth - 1 + (leaf >> (self.levels - depth))
        self.leaves = torch.zeros(2**self.levels, self.dim, dtype=dtype, device=self.device)
        self.leaves.scatter_(1, self.paths, self.signs * self.amplitudes)
        node = torch.arange(1, self.dim + 1, device=self.device)
        self.node_levels = torch.floor(torch.log2(node.double())).long() + 1

    def __repr__(self) -> str:
        return f"TreePrior(levels={self.levels}, decay={self.decay})"

    def to(self, device: torch.device | str) -> "TreePrior":
        """The same prior on another device."""
        return TreePrior(self.levels, self.decay, dtype=self.dtype, device=device)

    @property
    def variances(self) -> Tensor:
        """Prior variance of each coordinate of θ, (D,); the covariance is diagonal.

        A node at level k has a_k² / 2^(k−1).
        """
        level = self.node_levels - 1
        return self.amplitudes[level] ** 2 / 2.0**level

    def sample_leaves(self, n: int, *, generator: Generator | None = None) -> Tensor:
        """Draw the indices of n independent uniform leaves, (n,) integers. ValueError if n < 1."""
        n = _check.integer("n", n, 1)
        return torch.randint(2**self.levels, (n,), generator=generator, device=self.device)

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        """Draw n independent θ, (n, D). ValueError if n < 1."""
        return self.leaves[self.sample_leaves(n, generator=generator)]


Prior = GaussianPrior | TreePrior
"""A prior of the book, with `dim`, `variances` (of a diagonal covariance) and `sample`."""
