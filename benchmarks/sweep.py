"""What a second process saves on a sweep: run `python benchmarks/sweep.py`.

The same sweep by one worker process and by two, each on one thread, start-up included, in a fresh store each
time. Six ensembles of equal size, so that two processes can share them evenly; on two idle cores the ratio
is to be at least 1.8. (`run_sweep` with `workers=1` trains in its own process and starts no other, so both
counts are given a pool of the same kind here.)
"""

import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from fvbook.experiments import Experiment
from fvbook.priors import TreePrior
from fvbook.store import Store
from fvbook.sweeps import run_sweep
from fvbook.training import TrainConfig

ENSEMBLES, SEEDS, STEPS, REPEATS = 6, 5, 400, 2


def sweep() -> list[Experiment]:
    """Ensembles of equal cost: they differ in the noise alone."""
    return [
        Experiment(TreePrior(5, 0.8), "A", 3, 64, TrainConfig(steps=STEPS, noise_std=noise / 10, seed=seed))
        for noise in range(ENSEMBLES)
        for seed in range(SEEDS)
    ]


def seconds(experiments: list[Experiment], workers: int) -> float:
    """Time of the sweep by so many processes."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
            report = run_sweep(experiments, Store(Path(folder)), executor=pool, device="cpu", progress=False)
        assert report.computed == len(experiments)
        return time.perf_counter() - start


def main() -> None:
    """Print the best times of a few runs, taken in turn, and their ratio."""
    experiments = sweep()
    runs = [(seconds(experiments, 1), seconds(experiments, 2)) for _ in range(REPEATS)]
    one, two = (min(times) for times in zip(*runs, strict=True))
    print(f"one process {one:6.1f} s   two processes {two:6.1f} s   ratio {one / two:.2f}")


if __name__ == "__main__":
    main()
