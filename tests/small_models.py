"""The networks that tests run through, by name, and how to draw one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fvbook.models import ConstrainedTransformer, model_a, model_b, model_c, model_d

Make = Callable[..., ConstrainedTransformer]


def deep(
    dim: int, budget: int, router_mlp: bool, decoder_mlp: bool, **options: Any
) -> ConstrainedTransformer:
    """A deep model at any corner of the two-by-two."""
    return ConstrainedTransformer(
        dim, layers=budget, channels=1, router_mlp=router_mlp, decoder_mlp=decoder_mlp, **options
    )


def blocks(dim: int, budget: int, **options: Any) -> ConstrainedTransformer:
    """Two layers of M/2 channels where M is even, else one of M, with MLPs."""
    layers = 2 - budget % 2
    return ConstrainedTransformer(
        dim, layers=layers, channels=budget // layers, router_mlp=True, decoder_mlp=True, **options
    )


MODELS: dict[str, Make] = {
    "A": model_a,
    "B": model_b,
    "C": model_c,
    "D": model_d,
    "router only": partial(deep, router_mlp=True, decoder_mlp=False),
    "decoder only": partial(deep, router_mlp=False, decoder_mlp=True),
    "blocks": blocks,
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small(name: str, dtype: torch.dtype = torch.float32) -> ConstrainedTransformer:
    """One of them for D = 7, M = 4 and width 16, with random weights."""
    return MODELS[name](7, 4, width=16, generator=seeded(0), dtype=dtype)
