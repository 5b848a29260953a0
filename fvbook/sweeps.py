"""Sweeps: run many experiments at once, on any executor, and lose nothing when they are stopped.

Experiments that differ in the seed alone are grouped into ensembles. Each ensemble is one task: it takes a
lock, looks whether the store holds its results by now, trains from its checkpoint if there is one, and puts
the record into the store. So a sweep can be killed at any moment, started again, or run by several processes
at once, and each ensemble is trained once.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from typing import Any

import torch
from filelock import Timeout
from tqdm import tqdm

from fvbook import _check
from fvbook.experiments import Experiment, Result, pick_device, run_ensemble
from fvbook.store import Store

_LARGEST = 8  # seeds in one ensemble


@dataclass(frozen=True)
class Failure:
    """An ensemble that could not be run, and the exception."""

    experiments: tuple[Experiment, ...]
    error: BaseException

    def __str__(self) -> str:
        first, seeds = self.experiments[0], [experiment.seed for experiment in self.experiments]
        return f"{first.with_seed(seeds[0])} (seeds {seeds}): {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True)
class Report:
    """What a sweep gave.

    Attributes
    ----------
    results : list of Result or None
        In the order of the experiments; None where the run failed.
    failures : list of Failure
    computed : int
        How many results were computed now; the others lay in the store.
    """

    results: list[Result | None]
    failures: list[Failure]
    computed: int


def ensembles(experiments: Sequence[Experiment]) -> list[list[Experiment]]:
    """Group experiments into ensembles that train at once, the costly ones first.

    Those of an ensemble differ in the seed alone; there are at most 8. An experiment that is listed twice is
    kept once.
    """
    families: dict[Experiment, list[Experiment]] = {}
    for experiment in dict.fromkeys(experiments):
        families.setdefault(experiment.with_seed(0), []).append(experiment)
    groups = [
        members[start : start + _LARGEST]
        for members in families.values()
        for start in range(0, len(members), _LARGEST)
    ]
    return sorted(groups, key=_cost, reverse=True)


def run_sweep(
    experiments: Sequence[Experiment],
    store: Store,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> Report:
    """Run the experiments whose results are not in the store yet, and return all results.

    An interrupt (Ctrl-C, a notebook's stop button) lets each ensemble under way save its checkpoint and then
    raises KeyboardInterrupt. A second call goes on where the first stopped, also after a crash. In a script,
    call it below ``if __name__ == "__main__":`` unless `workers` is 1: the processes import the script.

    Parameters
    ----------
    experiments : sequence of Experiment
    store : Store
        If the executor's workers are on other machines, its folder must be the same on all of them.
    executor : concurrent.futures.Executor, optional
        Runs the ensembles: `dask.distributed`'s, say. It stays open. Ctrl-C cancels what has not begun.
    workers : int, optional
        Without an executor: how many processes share the work, each on one thread. With 1 the work is done
        in this process. By default the number of CPUs this process may use, and 1 on CUDA.
    device : str
        "cpu", "cuda", or "auto": CUDA where there is one.
    progress : bool
        Whether to show a bar: results at hand, the last loss, the time left as the work foreseen tells it.

    Raises
    ------
    ValueError
        If both an executor and workers are given, workers < 1, or the device is not there.
    KeyboardInterrupt
        After an interrupt.
    """
    if executor is not None and workers is not None:
        raise ValueError(f"workers = {workers}: must be left out when an executor is given")
    device = pick_device(device)
    default = 1 if device == "cuda" else _cpus()
    workers = _check.integer("workers", default if workers is None else workers, 1)
    store.tidy()
    at_hand = {experiment: store.get(experiment) for experiment in experiments}
    missing = [experiment for experiment, result in at_hand.items() if result is None]
    groups = ensembles(missing)
    silence: dict[str, Any] = {} if progress else {"disable": True}  # else as TQDM_DISABLE says
    with tqdm(
        total=sum(map(_cost, groups)),
        bar_format="{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}",
        **silence,
    ) as bar:
        count = len(at_hand) - len(missing)
        bar.set_postfix_str(f"{count} of {len(at_hand)} results")

        def note(group: list[Experiment], loss: float) -> None:
            nonlocal count
            count += len(group)
            bar.set_postfix_str(f"{count} of {len(at_hand)} results, loss {loss:.4f}", refresh=False)
            bar.update(_cost(group))

        if executor is not None:
            failures = _run(groups, partial(_train, store, device, False), executor, note)
        elif workers == 1:
            failures = _run_here(groups, partial(_train, store, device, progress), note)
        else:
            failures = _run_pool(groups, partial(_train_in_worker, store, device), workers, note)
    results = [at_hand[experiment] or store.get(experiment) for experiment in experiments]
    failed = sum(len(failure.experiments) for failure in failures)
    return Report(results, failures, len(missing) - failed)


def _train(store: Store, device: str, progress: bool, group: list[Experiment]) -> float:
    """The task: see to it that the store holds the results of an ensemble. Returns their mean loss."""
    lock = store.lock(group)
    try:
        while not lock.is_locked:  # another process may hold it for long
            with suppress(Timeout):
                lock.acquire(timeout=0.5)
            if _stopped.is_set():
                raise KeyboardInterrupt
        results = [result for experiment in group if (result := store.get(experiment))]
        if len(results) < len(group):
            checkpoint = store.checkpoint(group)
            results = run_ensemble(group, device=device, progress=progress, checkpoint=checkpoint)
            store.put(results)
            checkpoint.unlink(missing_ok=True)
    finally:
        lock.release()
    return sum(result.loss for result in results) / len(results)


def _run_here(
    groups: list[list[Experiment]],
    task: Callable[[list[Experiment]], float],
    note: Callable[[list[Experiment], float], None],
) -> list[Failure]:
    """Run the task on each group in this thread, note what is done, and return what failed."""
    failures = []
    for group in groups:
        try:
            note(group, task(group))
        except Exception as error:
            failures.append(Failure(tuple(group), error))
    return failures


def _run(
    groups: list[list[Experiment]],
    task: Callable[[list[Experiment]], float],
    executor: Executor,
    note: Callable[[list[Experiment], float], None],
) -> list[Failure]:
    """The same on an executor."""
    futures: dict[Future[float], list[Experiment]] = {}
    failures = []
    try:
        for group in groups:
            try:
                future = executor.submit(task, group)
            except BrokenExecutor as error:
                future = Future()
                future.set_exception(error)
            futures[future] = group
        for future in as_completed(futures):
            try:
                note(futures[future], future.result())
            except Exception as error:
                failures.append(Failure(tuple(futures[future]), error))
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()
        raise
    return failures


def _run_pool(
    groups: list[list[Experiment]],
    task: Callable[[list[Experiment]], float],
    workers: int,
    note: Callable[[list[Experiment], float], None],
) -> list[Failure]:
    """Run the task in processes of our own.

    When one dies (killed by the system for its memory, say) all that had not finished is run again, each
    ensemble in a process to itself, so that only the one that is to blame fails.
    """

    def attempt(part: list[list[Experiment]], workers: int) -> list[Failure]:
        strangers = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")  # a forked torch may hang
        pool = ProcessPoolExecutor(workers, context, initializer=_enter_worker)
        try:
            return _run(part, task, pool, note)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            while children := set(multiprocessing.active_children()) - strangers:
                for pid in [child.pid for child in children if child.pid]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGINT)  # and again: it goes unheard where no step is under way
                connection.wait([child.sentinel for child in children], timeout=0.5)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    failures: list[Failure] = []
    for failure in attempt(groups, min(workers, max(1, len(groups)))):
        broken = isinstance(failure.error, BrokenExecutor)
        failures += attempt([list(failure.experiments)], 1) if broken else [failure]
    return failures


_stopped = threading.Event()  # in a worker: an interrupt has been seen, begin nothing new


def _enter_worker() -> None:
    """Take one thread, note interrupts, and end when the parent does."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, lambda *_: _stopped.set())

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _train_in_worker(store: Store, device: str, group: list[Experiment]) -> float:
    if _stopped.is_set():
        raise KeyboardInterrupt
    try:
        return _train(store, device, False, group)
    except KeyboardInterrupt:
        _stopped.set()
        raise


def _cost(group: list[Experiment]) -> float:
    return sum(experiment.cost() for experiment in group)


def _cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
