import json
import math
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tqdm import tqdm

from fvbook import sweeps
from fvbook.experiments import Experiment, Result, run_ensemble
from fvbook.priors import GaussianPrior, TreePrior
from fvbook.store import Store
from fvbook.sweeps import Failure, Report, ensembles, run_sweep
from fvbook.training import TrainConfig

SHORT = TrainConfig(n_tokens=8, steps=20, batch_size=16, held_out=50, warmup=5)
BASE = Experiment(TreePrior(2, 0.6), "A", 2, 8, SHORT)
SOME = [replace(BASE, model=model).with_seed(seed) for model in "ABC" for seed in range(2)]
GUILTY = replace(BASE, model="D", train=replace(SHORT, learning_rate=1e20, warmup=0))  # has no finite loss

LONG = TrainConfig(n_tokens=8, steps=300, batch_size=32, held_out=500)
GROUPS = 6  # ensembles of two
MANY = [
    Experiment(TreePrior(3, 0.6), model, budget, 8, replace(LONG, seed=seed))
    for model in "AB"
    for budget in [1, 2, 3]
    for seed in range(2)
]


def digits(results: list[Result | None]) -> list[object]:
    """All that must be the same bit for bit."""
    assert None not in results
    return [
        (
            result.experiment,
            result.loss,
            result.standard_error,
            result.history,
            {name: weight.tolist() for name, weight in sorted((result.weights or {}).items())},
        )
        for result in results
        if result is not None
    ]


def sweep(
    experiments: list[Experiment], store: Store, workers: int | None = 1, executor: Executor | None = None
) -> Report:
    return run_sweep(experiments, store, workers=workers, executor=executor, device="cpu", progress=False)


@pytest.fixture
def box(tmp_path: Path) -> Store:
    return Store(tmp_path / "a store")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """MANY, in this process."""
    report = sweep(MANY, Store(tmp_path_factory.mktemp("undisturbed")))
    assert report.failures == []
    return digits(report.results)


def test_ensembles_share_all_but_the_seed_and_the_costly_come_first() -> None:
    cheap, costly = replace(BASE, model="C"), replace(BASE, width=200)
    seeds = [5, 3, 8, 1, 9, 0, 2, 4, 7, 6]
    mixed = [e for seed in seeds for e in [cheap.with_seed(seed), costly.with_seed(seed)]]
    groups = ensembles([*mixed, BASE, *mixed])
    assert [[e.seed for e in group] for group in groups] == [seeds[:8], seeds[8:], [0], seeds[:8], seeds[8:]]
    assert [group[0].with_seed(0) for group in groups] == [costly, costly, BASE, cheap, cheap]
    assert ensembles([]) == []


@pytest.mark.parametrize("workers", [1, None])
def test_results_come_in_the_order_of_the_experiments(box: Store, workers: int | None) -> None:
    wanted = [*SOME[::-1], SOME[2]]
    first, second = sweep(wanted, box, workers), sweep(wanted, box, workers)
    assert [result and result.experiment for result in first.results] == wanted
    assert (first.failures, first.computed, second.failures, second.computed) == ([], 6, [], 0)
    assert digits(first.results) == digits(second.results)
    survey = box.survey()
    assert (len(survey.current), survey.unfinished) == (3, [])


def test_only_what_is_missing_is_computed(box: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Experiment]] = []

    def watch(group: list[Experiment], **options: Any) -> list[Result]:
        seen.append(group)
        return run_ensemble(group, **options)

    monkeypatch.setattr(sweeps, "run_ensemble", watch)
    sweep(SOME[:3], box)
    assert sweep(SOME, box).computed == 3
    assert seen == [SOME[:2], [SOME[2]], [SOME[3]], SOME[4:]]


@pytest.mark.parametrize(("workers", "progress"), [(1, True), (1, False), (2, True)])
def test_bar(
    workers: int,
    progress: bool,
    box: Store,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends at 100 % with all results, also when there is nothing to do."""
    monkeypatch.setattr(sweeps, "tqdm", partial(tqdm, disable=False, mininterval=0))
    for wanted in [SOME, SOME, []]:
        run_sweep(wanted, box, workers=workers, device="cpu", progress=progress)
        out, err = capsys.readouterr()
        assert out == ""
        if not progress:
            assert err == ""
        else:
            assert f"{len(wanted)} of {len(wanted)} results" in err
    run_sweep([BASE.with_seed(7), *SOME], box, workers=workers, device="cpu", progress=progress)
    if progress:
        err = capsys.readouterr().err
        assert "6 of 7 results" in err
        assert re.search(r"100%\|█+\| \d\d:\d\d<00:00, 7 of 7 results, loss \d\.\d{4}", err)


def test_bar_is_off_where_the_environment_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("progress=False", "progress=True"))
    environment = ENVIRONMENT | {"LOG": str(tmp_path / "log")}
    command = [sys.executable, str(script), str(tmp_path / "store"), "1", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"workers": 0}, "workers = 0: must be an integer ≥ 1"),
        ({"workers": 1.5}, "workers = 1.5: must be an integer ≥ 1"),
        ({"device": "gpu"}, "device = 'gpu': must be 'auto', 'cpu' or 'cuda'"),
        ({"workers": 2, "executor": ThreadPoolExecutor(1)}, "workers = 2: must be left out when an executor"),
    ],
)
def test_bad_input(options: dict[str, Any], complaint: str, box: Store) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        run_sweep(SOME, box, progress=False, **options)
    assert not box.root.exists()


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executor_of_the_caller_stays_open(kind: type[Executor], box: Store, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_workers": 2}
    if kind is ProcessPoolExecutor:
        options["mp_context"] = multiprocessing.get_context("spawn")
    with kind(**options) as executor:
        report = sweep([*SOME, GUILTY], box, None, executor)
        assert executor.submit(math.sqrt, 4.0).result() == 2
    assert digits(report.results[:-1]) == digits(sweep(SOME, Store(tmp_path / "other")).results)
    assert [failure.experiments for failure in report.failures] == [(GUILTY,)]
    assert report.computed == 6


class Cancelling(ThreadPoolExecutor):
    """Cancels what is submitted, as Dask does when its scheduler is gone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_cancelled_tasks_are_failures(box: Store) -> None:
    with Cancelling(1) as executor:
        report = sweep(SOME, box, None, executor)
    assert report.results == [None] * 6
    assert len(report.failures) == 3
    assert report.computed == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_failure_is_reported_and_the_others_complete(workers: int, box: Store) -> None:
    wanted = [SOME[0], GUILTY, GUILTY.with_seed(3), *SOME[1:]]
    report = sweep(wanted, box, workers)
    assert [result and result.experiment for result in report.results] == [SOME[0], None, None, *SOME[1:]]
    assert report.computed == 6
    (failure,) = report.failures
    assert failure.experiments == (GUILTY, GUILTY.with_seed(3))
    assert isinstance(failure.error, FloatingPointError)
    expected = (
        "D, M=2, TreePrior(levels=2, decay=0.6), width=8, n_tokens=8, steps=20, batch_size=16, "
        "learning_rate=1e+20, warmup=0, held_out=50 (seeds [0, 3]): "
        "FloatingPointError: the training loss is not finite at step "
    )
    assert str(failure).startswith(expected)
    again = sweep(wanted, box)
    assert (again.computed, len(again.failures)) == (0, 1)


def test_store_that_cannot_be_written(tmp_path: Path) -> None:
    """A file is where the folder should be."""
    (tmp_path / "file").write_text("")
    report = sweep(SOME, Store(tmp_path / "file"), 1)
    assert report.results == [None] * 6
    assert all(isinstance(failure.error, OSError) for failure in report.failures)


# A script of its own: what it is to run depends on the seed, so that worker processes, which begin anew, do
# the same. It prints the experiments each process trains.
SCRIPT = """
import os, signal, sys
import torch
from fvbook import sweeps
from fvbook.store import Store

torch.set_num_threads(1)
sys.path.insert(0, os.environ["TESTS"])
import test_sweeps

plain = sweeps.run_ensemble

def run_ensemble(group, **options):
    test_sweeps.log("begin", group)
    if group[0].seed == 66:
        os._exit(3)
    if group[0].seed == 67:
        os.kill(os.getpid(), signal.SIGKILL)
    results = plain(group, **options)
    test_sweeps.log("end", group)
    return results

sweeps.run_ensemble = run_ensemble

if __name__ == "__main__":
    store, workers, count = Store(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    wanted = test_sweeps.MANY[:count] + [test_sweeps.BASE.with_seed(int(seed)) for seed in sys.argv[4:]]
    report = sweeps.run_sweep(wanted, store, workers=workers, device="cpu", progress=False)
    for failure in report.failures:
        print(failure)
    print("computed", report.computed, "of", len(report.results))
"""
ENVIRONMENT = os.environ | {
    "TESTS": str(Path(__file__).parent),
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
    "OMP_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
}


def log(event: str, group: list[Experiment]) -> None:
    """Called in the script's processes: add a line to the log, whole or not at all."""
    line = json.dumps([event, os.getpid(), time.time(), str(group[0]), len(group)]) + "\n"
    handle = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)


class Script:
    """The script at work, in a process group of its own."""

    def __init__(self, folder: Path, *arguments: object, workers: int = 2) -> None:
        self.store, self.log = Store(folder / "the store"), folder / "log"
        script = folder / "script.py"
        script.write_text(SCRIPT)
        command = [sys.executable, script, self.store.root, workers, *arguments]
        environment = ENVIRONMENT | {"LOG": str(self.log)}
        self.process = subprocess.Popen(
            list(map(str, command)),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.group = self.process.pid  # and that of its children

    def events(self, *kinds: str) -> list[list[Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [event for event in map(json.loads, lines) if event[0] in kinds]

    def wait_for(self, count: int, *kinds: str) -> None:
        """Wait for so many lines in the log."""
        until(lambda: len(self.events(*kinds)) >= count or self.process.poll() is not None)

    def members(self) -> list[int]:
        """The living processes of the group."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rsplit(")", 1)[1].split()  # state, parent, group, ...
                if int(fields[2]) == self.group and fields[0] not in "ZX":
                    found.append(int(stat.parent.name))
        return sorted(found)

    def end(self) -> tuple[int, str, str]:
        """Wait for its end, and for that of all its children. Returns exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=60)
        until(lambda: not self.members())
        return self.process.returncode, out, err


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def script(*arguments: object, workers: int = 2, folder: Path) -> Iterator[Script]:
    started = Script(folder, *arguments, workers=workers)
    try:
        yield started
    finally:
        for pid in started.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.process.communicate()


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@needs_proc
def test_killed_at_random_moments_it_loses_nothing(tmp_path: Path, undisturbed: list[object]) -> None:
    """kill -9, again and again: no record is lost, wrong, or computed twice; no process stays behind."""
    chance, whole = random.Random(0), dict[Path, bytes]()
    for victim in ["parent", "group", "parent", "worker"]:
        with script(len(MANY), folder=tmp_path) as run:
            run.wait_for(len(run.events("begin")) + 1, "begin")
            time.sleep(chance.uniform(0, 0.5))
            if victim == "group":
                os.killpg(run.group, signal.SIGKILL)
            elif victim == "parent":
                run.process.kill()
            else:
                workers = {event[1] for event in run.events("begin")} & set(run.members())
                os.kill(min(workers), signal.SIGKILL)
            code, out, _ = run.end()
        survey = run.store.survey()
        assert not survey.damaged
        assert all(path.read_bytes() == content for path, content in whole.items())
        if victim == "worker":  # the sweep goes on without it
            assert (code, out) == (0, f"computed {len(MANY) - 2 * len(whole)} of {len(MANY)}\n")
        else:
            assert (code, out) == (-signal.SIGKILL, "")
        whole |= {path: path.read_bytes() for path in survey.current}
    report = sweep(MANY, run.store)
    assert report.computed == 0
    assert digits(report.results) == undisturbed
    assert len(run.store.survey().current) == GROUPS
    assert all(path.suffix == ".draft" for path in run.store.survey().unfinished)
    ended = [event[3] for event in run.events("end")]
    assert len(set(ended)) == GROUPS
    assert len(ended) <= GROUPS + 6  # those killed between the end of the training and the record, at most


@needs_proc
@pytest.mark.parametrize("seed", [66, 67])  # exits; kills itself
def test_only_the_ensemble_that_kills_its_worker_fails(
    seed: int, tmp_path: Path, undisturbed: list[object]
) -> None:
    with script(len(MANY), seed, folder=tmp_path) as run:
        code, out, _ = run.end()
    failure, summary = out.splitlines()
    assert code == 0
    assert failure.startswith(f"{BASE.with_seed(seed)} (seeds [{seed}]): BrokenProcessPool: ")
    assert summary == f"computed {len(MANY)} of {len(MANY) + 1}"
    report = sweep(MANY, run.store)
    assert report.computed == 0
    assert digits(report.results) == undisturbed


@needs_proc
@pytest.mark.parametrize(
    ("workers", "to_group"), [(1, False), (2, False), (2, True)], ids=["in process", "parent", "group"]
)
def test_interrupt_leaves_checkpoints(
    workers: int, to_group: bool, tmp_path: Path, undisturbed: list[object]
) -> None:
    """As by Ctrl-C (to the group) or a notebook's stop button; a second run goes on."""
    with script(len(MANY), workers=workers, folder=tmp_path) as run:
        run.wait_for(workers + 1, "begin")
        time.sleep(0.3)
        sent = time.monotonic()
        (os.killpg if to_group else os.kill)(run.group, signal.SIGINT)
        code, out, err = run.end()
        assert time.monotonic() - sent < 5
    assert code in (1, -signal.SIGINT)
    assert out == ""
    assert err.rstrip().splitlines()[-1].startswith("KeyboardInterrupt")
    ended = len(run.events("end"))
    survey = run.store.survey()
    assert ended < GROUPS
    assert len(survey.current) == ended
    assert len(survey.unfinished) == len(run.events("begin")) - ended > 0
    report = sweep(MANY, run.store)
    assert report.computed == len(MANY) - 2 * ended
    assert digits(report.results) == undisturbed
    assert not run.store.survey().unfinished


@needs_proc
def test_interrupt_of_a_sweep_that_waits_for_another(tmp_path: Path) -> None:
    """Its ensembles are under way elsewhere: it does not wait for their end."""
    other = Store(tmp_path / "the store")
    locks = [other.lock(group) for group in ensembles(MANY)]
    for lock in locks:
        lock.acquire()
    with script(len(MANY), folder=tmp_path) as run:
        until(lambda: len(run.members()) >= 4)  # parent, resource tracker, two workers
        time.sleep(2.5)
        run.process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        code, _, _ = run.end()
        assert time.monotonic() - sent < 5
    assert code == -signal.SIGINT
    assert run.events("begin") == []
    for lock in locks:
        lock.release()


def test_interrupt_in_process(box: Store, undisturbed: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def interrupted(group: list[Experiment], **options: Any) -> list[Result]:
        nonlocal calls
        calls += 1
        if calls == 3:
            threading.Timer(0.1, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
        return run_ensemble(group, **options)

    monkeypatch.setattr(sweeps, "run_ensemble", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"stopped after \d+ of 300 steps"):
        sweep(MANY, box)
    survey = box.survey()
    assert (len(survey.current), len(survey.unfinished)) == (2, 1)
    report = sweep(MANY, box)
    assert (calls, report.computed) == (3 + GROUPS - 2, len(MANY) - 4)
    assert digits(report.results) == undisturbed


def test_interrupt_with_an_executor_cancels_what_has_not_begun(box: Store, undisturbed: list[object]) -> None:
    with ThreadPoolExecutor(1) as executor:
        threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            sweep(MANY, box, None, executor)
    assert len(box.survey().current) < GROUPS
    assert digits(sweep(MANY, box).results) == undisturbed


@needs_proc
def test_two_sweeps_at_once_share_the_work(tmp_path: Path, undisturbed: list[object]) -> None:
    with (
        script(len(MANY), workers=1, folder=tmp_path) as one,
        script(len(MANY), workers=1, folder=tmp_path) as two,
    ):
        assert [run.end()[0] for run in [one, two]] == [0, 0]
    ended = [event[3] for event in one.events("end")]
    assert len(ended) == len(set(ended)) == GROUPS
    assert digits(sweep(MANY, one.store).results) == undisturbed


def kill_dask_worker(cluster: Any, store: Store) -> None:
    """Kill -9 one of its workers when the first record is there."""
    until(lambda: len(list(store.root.glob("*.json"))) >= 1)
    pids = [worker.pid for worker in cluster.workers.values()]
    os.kill(pids[0], signal.SIGKILL)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_dask_worker_killed_in_mid_run(box: Store, undisturbed: list[object]) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        killer = threading.Thread(target=kill_dask_worker, args=[cluster, box])
        killer.start()
        report = sweep([*MANY, GUILTY], box, None, client.get_executor())
        killer.join()
    assert [failure.experiments for failure in report.failures] == [(GUILTY,)]
    assert report.computed == len(MANY)
    assert digits(report.results[:-1]) == undisturbed
    assert not box.survey().damaged


def test_failure_names_its_seeds() -> None:
    failure = Failure((BASE, BASE.with_seed(4)), RuntimeError("why"))
    assert str(failure) == f"{BASE} (seeds [0, 4]): RuntimeError: why"


def test_threads_do_not_change_a_digit(box: Store, tmp_path: Path) -> None:
    """One process may use more than one thread; workers have one each."""
    wanted = [Experiment(GaussianPrior(8), "A", 3, 32, TrainConfig(steps=20, batch_size=512, held_out=5000))]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = sweep(wanted, box)
        torch.set_num_threads(1)
        one = sweep(wanted, Store(tmp_path / "one"))
    finally:
        torch.set_num_threads(threads)
    assert digits(one.results) == digits(two.results)
