"""What a training step costs, and how much of it is matrix products: run `python benchmarks/step.py`.

On one thread, for models A, B and C with the default width and batch, alone and five at once: the processor
time of a step, the floating-point operations of its matrix products per second, and that rate as a share of
the rate at which the same machine multiplies the matrices of a hidden layer, measured in the same run. What
is missing from 100 % goes into all the rest: activations, norms, contexts, the optimiser.
"""

import time

import torch
from torch import nn
from torch.utils.benchmark import Timer

from fvbook.models import ConstrainedTransformer, model_a, model_b, model_c
from fvbook.priors import TreePrior
from fvbook.training import TrainConfig, train_ensemble

STEPS, REPEATS, BATCH = 30, 3, TrainConfig().batch_size


def milliseconds(models: list[ConstrainedTransformer], prior: TreePrior, steps: int) -> float:
    """Processor time of a step of these models, the best of a few runs."""
    config, times = TrainConfig(steps=steps, held_out=2), []
    for _ in range(REPEATS):
        start = time.process_time()
        train_ensemble(models, prior, config, progress=False)
        times.append(time.process_time() - start)
    return 1e3 * min(times) / steps


def operations(model: ConstrainedTransformer) -> int:
    """Floating-point operations of the matrix products of a step of one model.

    Each weight of a product costs a multiplication and an addition for each context, and as much again for
    its own gradient and for that of its input. A first layer's constant keys only meet b: no product.
    """
    weights = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
    return 3 * 2 * BATCH * (weights + model.decoder.linear.numel())


def matmul_rate(width: int, count: int) -> float:
    """Operations per second of a batched product of a hidden layer, forward."""
    h, weight = torch.randn(count, BATCH, width), torch.randn(count, width, width)
    names = {"torch": torch, "h": h, "weight": weight}
    timer = Timer("torch.bmm(h, weight)", globals=names, timer=time.process_time)
    best = min(timer.blocked_autorange(min_run_time=0.2).times)
    return 2 * h.numel() * width / best


def main() -> None:
    """Print one line for each model, size and number of models."""
    torch.set_num_threads(1)
    print("model  K  M  models   ms/step   GFLOP/s   of matmul")
    for name, make in [("A", model_a), ("B", model_b), ("C", model_c)]:
        for levels, budget in [(5, 5), (8, 8)]:
            prior = TreePrior(levels, 0.8)
            for count in [1, 5]:
                models = [
                    make(prior.dim, budget, generator=torch.Generator().manual_seed(s)) for s in range(count)
                ]
                time_ms = milliseconds(models, prior, STEPS)
                rate = count * operations(models[0]) / (1e-3 * time_ms)
                share = rate / matmul_rate(64, count)
                print(
                    f"{name:>5} {levels:2d} {budget:2d} {count:7d} {time_ms:9.2f} {rate / 1e9:9.1f} "
                    f"{share:10.0%}"
                )


if __name__ == "__main__":
    main()
