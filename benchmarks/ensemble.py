"""What training five seeds at once saves: run `python benchmarks/ensemble.py`.

On one thread, for the tree prior of the book (K = 5, N = 32) and the default batch: the time of a step of
five models trained as one ensemble against five times the step of one model trained alone.
"""

import torch
from step import milliseconds

from fvbook.models import model_a, model_b, model_c
from fvbook.priors import TreePrior

SEEDS, STEPS = 5, 50


def main() -> None:
    """Print one line for each model and budget."""
    torch.set_num_threads(1)
    prior = TreePrior(5, 0.8)
    print("model  M   one model x 5   five at once   ratio")
    for name, make in [("A", model_a), ("B", model_b), ("C", model_c)]:
        for budget in [3, 5]:
            models = [
                make(prior.dim, budget, generator=torch.Generator().manual_seed(s)) for s in range(SEEDS)
            ]
            alone = SEEDS * milliseconds(models[:1], prior, STEPS)
            together = milliseconds(models, prior, STEPS)
            print(f"{name:>5} {budget:2d} {alone:12.1f} ms {together:11.1f} ms {alone / together:7.2f}")


if __name__ == "__main__":
    main()
