"""A training step of models A, B and C, against the matrix products in it.

The products are those of a batch with weights: forward, and backward for the gradients of the weights and of
the input. The machine's own rate is measured in the same rounds on the same sizes, as bare calls of
`torch.bmm` for as many models. The share is that of a step's time which these calls would take; activations,
norms, contexts and the optimiser take the rest.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from benchmarks.common import (
    CPUS,
    Part,
    Result,
    build,
    cell,
    markdown,
    ratio,
    rounds,
    seconds,
    spread,
    step_seconds,
    threads,
)
from fvbook.models import ConstrainedTransformer
from fvbook.priors import TreePrior
from fvbook.training import TrainConfig

SETTINGS = [(5, 5, 64, 512), (8, 8, 64, 512), (5, 5, 64, 4096)]  # K, M, width, batch


class Product(NamedTuple):
    """A product of a batch of inputs with weights, and whether the input needs a gradient."""

    inputs: int
    outputs: int
    backward: bool


def products(model: ConstrainedTransformer) -> list[Product]:
    """The products of a step. The constant keys of the first layer meet b, which needs no gradient.

    Where keys depend on the context, a measurement is an inner product for each context: none of these.
    """
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    return [
        Product(model.dim, model.channels, False),
        *(Product(layer.in_features, layer.out_features, True) for layer in linear),
        Product(model.budget, model.dim, True),
    ]


def operations(sizes: Sequence[Product], batch: int) -> int:
    """Floating-point operations: a multiplication and an addition for each weight, context and direction."""
    return sum(2 * batch * size.inputs * size.outputs * (2 + size.backward) for size in sizes)


class Bare:
    """The products alone, for so many models."""

    def __init__(self, sizes: Sequence[Product], batch: int, count: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(count, *shape, generator=generator)

        self.tensors = [
            (normal(batch, n), normal(n, m), normal(batch, m), backward) for n, m, backward in sizes
        ]

    def __call__(self) -> None:
        """Compute them."""
        for inputs, weights, gradient, backward in self.tensors:
            torch.bmm(inputs, weights)
            torch.bmm(inputs.mT, gradient)
            if backward:
                torch.bmm(gradient, weights.mT)


def run(quick: bool) -> Result:
    """Measure each model and size, one model and five at once, on one thread and on all."""
    settings = [(3, 2, 8, 16)] if quick else SETTINGS
    rows = []
    for count_threads in [1] if quick else sorted({1, CPUS}):
        with threads(count_threads):
            for levels, budget, width, batch in settings:
                for name in "ABC":
                    for seeds in [1, 5]:
                        times = _times(name, (levels, budget, width, batch), seeds, quick)
                        rows.append(
                            {
                                "model": name,
                                "levels": levels,
                                "budget": budget,
                                "width": width,
                                "batch": batch,
                                "seeds": seeds,
                                "threads": count_threads,
                            }
                            | times
                        )
    return {"rows": rows}


def _times(name: str, setting: tuple[int, int, int, int], seeds: int, quick: bool) -> Result:
    levels, budget, width, batch = setting
    prior = TreePrior(levels, 0.8)
    models = build(name, prior, budget, range(seeds), width)
    sizes = products(models[0])
    steps = 1 if quick else max(2, 15 * 512 // (batch * seeds))
    step = partial(step_seconds, models, prior, TrainConfig(batch_size=batch), steps)
    bare = partial(seconds, Bare(sizes, batch, seeds), 0.0 if quick else 0.03)
    times = rounds({"step": step, "bare": bare}, 1 if quick else 5)
    work = seeds * operations(sizes, batch) / 1e9
    return {
        "step_s": spread(times["step"]),
        "gflop_per_s": spread(work / time for time in times["step"]),
        "matmul_gflop_per_s": spread(work / time for time in times["bare"]),
        "share": ratio(times["bare"], times["step"]),
    }


def table(result: Result) -> str:
    """Each model, size, number of models and number of threads."""
    rows = [
        [
            row["model"],
            f"{row['levels']}, {row['budget']}, {row['width']}, {row['batch']}",
            row["seeds"],
            row["threads"],
            cell(row["step_s"], 1e3),
            cell(row["gflop_per_s"]),
            cell(row["matmul_gflop_per_s"]),
            cell(row["share"], 100),
        ]
        for row in result["rows"]
    ]
    header = ["model", "K, M, width, batch", "models at once", "threads", "ms a step", "GFLOP/s"]
    return markdown([*header, "GFLOP/s of bare products", "share, %"], rows)


PART = Part("A training step and the matrix products in it", run, table)
