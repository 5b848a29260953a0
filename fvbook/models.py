"""The constrained transformer, in one file that reads from top to bottom.

One network, two forms. On tokens it is a transformer with linear attention: `predict`. Linear attention with
values y_i and keys k_i = K x_i sees the context only through the moment b = (1/N) Σ_i y_i x_i, so the same
network is a sequence of linear measurements of b, each chosen in the light of those before: `forward` and
`trace`. The chapter "The transformer" derives the one from the other.

The models of the book, for θ ∈ R^D and a budget of M numbers: A is deep (M layers of one channel) with MLPs
in routers and decoder; B has one layer of M channels and the same MLPs; C has one layer of M channels and no
MLP; D is deep (M layers of one channel) without MLPs.
"""

from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from fvbook import _check


class Trace(NamedTuple):
    """What each layer did with a batch of B contexts.

    Attributes
    ----------
    keys : list of Tensor
        The key matrix K_ℓ of each layer ℓ = 1..L, (B, d, D), with rows of unit norm.
    function_vector : Tensor
        Φ_L, (B, M). Its first ℓ d entries are Φ_ℓ, the function vector after ℓ layers.
    theta_hat : Tensor
        θ̂, the estimate decoded from Φ_L, (B, D).
    """

    keys: list[Tensor]
    function_vector: Tensor
    theta_hat: Tensor


def _linear(n_in: int, n_out: int, generator: Generator | None) -> nn.Linear:
    """A linear layer with weights N(0, 1/n_in) and no bias at first, drawn from the generator."""
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")  # takes no random numbers
    with torch.no_grad():
        layer.weight.normal_(0, n_in**-0.5, generator=generator)
        layer.bias.zero_()
    return layer


def _mlp(n_in: int, n_out: int, width: int, generator: Generator | None) -> nn.Sequential:
    """A map (..., n_in) → (..., n_out) with two hidden layers of `width` GELU units."""
    return nn.Sequential(
        _linear(n_in, width, generator),
        nn.GELU(),
        _linear(width, width, generator),
        nn.GELU(),
        _linear(width, n_out, generator),
    )


class Router(nn.Module):
    """Makes the key matrix of one layer from the function vector: Φ_ℓ (..., ℓd) → K_{ℓ+1}(Φ_ℓ) (..., d, D).

    The rows are a constant matrix plus, with a `width`, an MLP of Φ_ℓ, scaled to unit norm. Before the first
    layer Φ_0 is empty, so the first router is constant with or without an MLP.
    """

    def __init__(self, n_in: int, channels: int, dim: int, width: int, generator: Generator | None) -> None:
        super().__init__()
        self.constant = nn.Parameter(torch.randn(channels, dim, generator=generator) / dim**0.5)
        self.mlp = _mlp(n_in, channels * dim, width, generator) if n_in and width else None

    def forward(self, phi: Tensor) -> Tensor:
        """K(Φ), (..., d, D), from Φ, (..., n_in)."""
        keys = self.constant  # (d, D)
        if self.mlp is not None:
            keys = keys + self.mlp(phi).unflatten(-1, self.constant.shape)  # (..., d, D)
        scale = 1 / keys.norm(dim=-1, keepdim=True).clamp_min(1e-12)  # division has a dearer gradient
        return (keys * scale).expand(*phi.shape[:-1], *self.constant.shape)


class Decoder(nn.Module):
    """Reads the estimate from the function vector: Φ_L (..., M) → θ̂ (..., D).

    A linear map plus, with a `width`, an MLP.
    """

    def __init__(self, budget: int, dim: int, width: int, generator: Generator | None) -> None:
        super().__init__()
        self.linear = nn.Parameter(torch.randn(budget, dim, generator=generator) / dim**0.5)
        self.mlp = _mlp(budget, dim, width, generator) if width else None

    def forward(self, phi: Tensor) -> Tensor:
        """θ̂, (..., D), from Φ_L, (..., M)."""
        theta_hat = phi @ self.linear
        return theta_hat if self.mlp is None else theta_hat + self.mlp(phi)


class ConstrainedTransformer(nn.Module):
    """A linear-attention transformer whose layers each pass d numbers.

    Φ_{ℓ+1} = Φ_ℓ ⊕ K_{ℓ+1}(Φ_ℓ) b for ℓ = 0..L−1, Φ_0 empty, and θ̂ = decoder(Φ_L).

    Parameters
    ----------
    dim : int
        D ≥ 1, the dimension of θ and of the inputs x.
    layers, channels : int
        L ≥ 1 and d ≥ 1; the budget M = L d must not exceed D.
    router_mlp, decoder_mlp : bool
        The two switches of the book: may keys depend on Φ, may θ̂ be nonlinear in Φ?
    width : int
        Units in each hidden layer of the MLPs, ≥ 1.
    generator : Generator, optional
        Draws the initial weights, in float32 on the CPU, so that a seed means the same on every device.
        Without it they come from torch's global generator.
    dtype, device
        Of the parameters.

    Raises
    ------
    ValueError
        If a number is out of its range, or L d > D.
    """

    def __init__(
        self,
        dim: int,
        *,
        layers: int,
        channels: int,
        router_mlp: bool,
        decoder_mlp: bool,
        width: int = 64,
        generator: Generator | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.dim = _check.integer("dim", dim, 1)
        self.layers = _check.integer("layers", layers, 1)
        self.channels = _check.integer("channels", channels, 1)
        self.budget = _check.integer("layers * channels", layers * channels, 1, dim)
        width = _check.integer("width", width, 1)
        self.routers = nn.ModuleList(
            Router(layer * channels, channels, dim, width * router_mlp, generator) for layer in range(layers)
        )
        self.decoder = Decoder(self.budget, dim, width * decoder_mlp, generator)
        self.to(device=device, dtype=dtype)

    def extra_repr(self) -> str:
        """The sizes that the list of submodules does not tell."""
        return f"dim={self.dim}, layers={self.layers}, channels={self.channels}"

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters, and so of every moment and token the model takes."""
        return self.decoder.linear.dtype

    def forward(self, b: Tensor, *, checked: bool = False) -> Tensor:
        """θ̂ (B, D) from the moments b (B, D) of B contexts.

        Raises ValueError if b is not a finite tensor of that shape and of the model's dtype; `checked=True`
        says that it is known to be one.
        """
        return self.trace(b, checked=checked).theta_hat

    def trace(self, b: Tensor, *, checked: bool = False) -> Trace:
        """What each layer does with the moments b (B, D). Errors as in `forward`."""
        if not checked:
            _check.tensor("b", b, None, self.dim, dtype=self.dtype)
        phi = b[:, :0]  # Φ_0 is empty
        keys = []
        for router in self.routers:
            keys.append(router(phi))  # the MLP chooses: (B, d, D)
            measured = (keys[-1] * b[:, None]).sum(2)  # attention pools: (B, d)
            phi = torch.cat([phi, measured], dim=1)  # the workspace grows: (B, (ℓ+1)d)
        return Trace(keys, phi, self.decoder(phi))

    def predict(self, x: Tensor, y: Tensor, x_query: Tensor) -> Tensor:
        """The prediction of y at the query, by the same network run on tokens with linear attention.

        The sequence is the N tokens (x_i, y_i) and then the query. Each position carries its own copy of the
        workspace Φ_ℓ. In a layer, each token's router turns its workspace into a key matrix, and its key is
        k_i = K(Φ_ℓ) x_i ∈ R^d, one number for each of d heads; its value is y_i. The queries are constant,
        1 in each head.

        Parameters
        ----------
        x, y : Tensor
            The context: (B, N, D) and (B, N).
        x_query : Tensor
            (B, D).

        Returns
        -------
        Tensor
            x_query · θ̂, (B,). Equal to ``(x_query * model(moment(x, y))).sum(1)`` up to rounding.

        Raises
        ------
        ValueError
            If the shapes or dtypes do not fit or a value is not finite.
        """
        _check.tensor("x", x, None, None, self.dim, dtype=self.dtype)
        batch, n_tokens, _ = x.shape
        _check.tensor("y", y, batch, n_tokens, dtype=self.dtype)
        _check.tensor("x_query", x_query, batch, self.dim, dtype=self.dtype)
        queries = x.new_ones(batch, n_tokens + 1, self.channels)  # constant: (B, N+1, d)
        workspace = x.new_zeros(batch, n_tokens + 1, 0)  # (B, N+1, 0)
        for router in self.routers:
            key_matrices = router(workspace[:, :n_tokens])  # at each token: (B, N, d, D)
            token_keys = torch.einsum("bnhd,bnd->bnh", key_matrices, x)  # (B, N, d)
            scores = torch.einsum("bqh,bnh->bhqn", queries, token_keys) / n_tokens  # (B, d, N+1, N)
            pooled = torch.einsum("bhqn,bn->bqh", scores, y)  # (B, N+1, d)
            workspace = torch.cat([workspace, pooled], dim=2)  # (B, N+1, (ℓ+1)d)
        theta_hat = self.decoder(workspace[:, -1])  # at the query: (B, D)
        return (x_query * theta_hat).sum(1)


def _book_model(
    dim: int, budget: int, deep: bool, mlps: bool, options: dict[str, Any]
) -> ConstrainedTransformer:
    dim = _check.integer("dim", dim, 1)
    budget = _check.integer("budget", budget, 1, dim)
    layers, channels = (budget, 1) if deep else (1, budget)
    return ConstrainedTransformer(
        dim, layers=layers, channels=channels, router_mlp=mlps, decoder_mlp=mlps, **options
    )


def model_a(dim: int, budget: int, **options: Any) -> ConstrainedTransformer:
    """Model A, deep and adaptive: M layers of one channel, MLPs in routers and decoder.

    `dim` is D and `budget` is M, 1 ≤ M ≤ D; the options are `width`, `generator`, `dtype` and `device` of
    `ConstrainedTransformer`, as are the ValueErrors.
    """
    return _book_model(dim, budget, deep=True, mlps=True, options=options)


def model_b(dim: int, budget: int, **options: Any) -> ConstrainedTransformer:
    """Model B, shallow: one layer of M channels with the MLPs of model A.

    Its router sees the empty Φ_0, so its keys are the same for every context; its decoder is nonlinear.
    Arguments and errors as in `model_a`.
    """
    return _book_model(dim, budget, deep=False, mlps=True, options=options)


def model_c(dim: int, budget: int, **options: Any) -> ConstrainedTransformer:
    """Model C, linear attention alone: one layer of M channels, no MLP.

    Arguments and errors as in `model_a`.
    """
    return _book_model(dim, budget, deep=False, mlps=False, options=options)


def model_d(dim: int, budget: int, **options: Any) -> ConstrainedTransformer:
    """Model D, depth without MLPs: M layers of one channel; C in disguise.

    Arguments and errors as in `model_a`.
    """
    return _book_model(dim, budget, deep=True, mlps=False, options=options)
