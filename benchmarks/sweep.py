"""A sweep by one process and by two, start-up included, each time into an empty store.

Six ensembles of equal size, so that two processes can share them evenly. `run_sweep` with `workers=1` trains
in its own process and starts no other, so both counts are given a pool of the same kind here.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from benchmarks.common import Part, Result, cell, markdown, ratio, rounds, spread
from fvbook.experiments import Experiment
from fvbook.priors import TreePrior
from fvbook.store import Store
from fvbook.sweeps import run_sweep
from fvbook.training import TrainConfig


def _processes(workers: int) -> Executor:
    """So many processes, each on one thread; a forked torch may hang, so they are spawned."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,))


def _seconds(experiments: list[Experiment], pool: Callable[[int], Executor], workers: int) -> float:
    """Time of the sweep by so many workers."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with pool(workers) as executor:
            report = run_sweep(
                experiments, Store(Path(folder)), executor=executor, device="cpu", progress=False
            )
        if report.failures:
            raise RuntimeError(str(report.failures[0]))
        return time.perf_counter() - start


def run(quick: bool) -> Result:
    """Measure both; to see that it works, threads do, which start sooner."""
    config = TrainConfig(steps=2, batch_size=16, held_out=50) if quick else TrainConfig(steps=300)
    experiments = [
        Experiment(TreePrior(5, 0.8), "A", 3, train=replace(config, noise_std=noise / 10, seed=seed))
        for noise in range(2 if quick else 6)
        for seed in range(1 if quick else 5)
    ]
    pool = ThreadPoolExecutor if quick else _processes
    actions = {workers: partial(_seconds, experiments, pool, workers) for workers in (1, 2)}
    times = rounds(actions, 1 if quick else 2, warm_up=False)
    return {
        "rows": [
            {"workers": workers, "seconds": spread(samples), "speedup": ratio(times[1], samples)}
            for workers, samples in times.items()
        ]
    }


def table(result: Result) -> str:
    """Both counts."""
    rows = [[row["workers"], cell(row["seconds"]), cell(row["speedup"])] for row in result["rows"]]
    return markdown(["processes", "seconds", "times as fast as one"], rows)


PART = Part("A sweep in several processes", run, table)
