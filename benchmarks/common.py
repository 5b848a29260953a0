"""What the parts share: the clock, rounds of measurements, a training step, tables, the machine.

What is compared runs in turn, round after round, so that a disturbance meets all of it. Of each number the
rounds give a median, a minimum and a maximum.
"""

import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fvbook.experiments import MODELS
from fvbook.models import ConstrainedTransformer
from fvbook.priors import Prior
from fvbook.training import TrainConfig, train_ensemble

ROOT = Path(__file__).parents[1]
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Spread = dict[str, float]  # median, min, max
Result = dict[str, Any]  # what a part measured: JSON


@dataclass(frozen=True)
class Part:
    """One part of the benchmark.

    Attributes
    ----------
    title : str
    run : callable
        Measures; its argument says whether tiny sizes are enough, to see that all works.
    table : callable
        The result of `run` as Markdown.
    slow : bool
        Whether it runs only when it is named.
    """

    title: str
    run: Callable[[bool], Result]
    table: Callable[[Result], str]
    slow: bool = False


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def clock() -> float:
    """Seconds: of the processor on one thread, which other processes hardly disturb, else of the wall."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def seconds(action: Callable[[], object], at_least: float = 0.0) -> float:
    """Mean time of a call, over as many calls as fill `at_least` seconds, and at least one."""
    calls, start = 0, clock()
    while calls == 0 or clock() - start < at_least:
        action()
        calls += 1
    return (clock() - start) / calls


def step_seconds(
    models: Sequence[ConstrainedTransformer], prior: Prior, config: TrainConfig, steps: int
) -> float:
    """Time of a training step: that of so many steps and one more, less that of one."""
    one, all_ = (
        seconds(partial(train_ensemble, models, prior, replace(config, steps=n, held_out=2), progress=False))
        for n in (1, steps + 1)
    )
    return max(all_ - one, 1e-9) / steps  # positive whatever the clock does


def build(
    name: str, prior: Prior, budget: int, seeds: Iterable[int], width: int = 64
) -> list[ConstrainedTransformer]:
    """Models A, B or C, one for each seed of its weights."""
    return [
        MODELS[name](prior.dim, budget, width=width, generator=torch.Generator().manual_seed(seed))
        for seed in seeds
    ]


def rounds(
    actions: Mapping[Any, Callable[[], float]], repeats: int, *, warm_up: bool = True
) -> dict[Any, list[float]]:
    """What each action returns, round after round; a first round to warm up is not kept."""
    kept = [{name: action() for name, action in actions.items()} for _ in range(repeats + warm_up)][warm_up:]
    return {name: [values[name] for values in kept] for name in actions}


def spread(samples: Iterable[float]) -> Spread:
    """Median, minimum and maximum."""
    samples = list(samples)
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The spread of the ratio within each round."""
    return spread(a / b for a, b in zip(over, under, strict=True))


def exponent(x: Sequence[float], times: Sequence[float]) -> float:
    """The p of the power law, time ∝ x^p, that fits best by least squares of the logarithms."""
    return statistics.linear_regression([math.log(v) for v in x], [math.log(t) for t in times]).slope


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def cell(of: Spread, scale: float = 1.0) -> str:
    """The median and, in brackets, minimum and maximum."""
    median, low, high = (number(scale * of[key]) for key in ("median", "min", "max"))
    return f"{median} ({low}–{high})"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; columns are flush right, but for the first."""
    rule = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [header, rule, *rows])


def machine() -> dict[str, Any]:
    """What the numbers depend on beside the code: processor, memory, system, versions, BLAS."""
    return {
        "cpu": _cpu(),
        "cores": CPUS,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "blas": "MKL" if torch.backends.mkl.is_available() else "not MKL",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _cpu() -> str:
    """The name that the processor goes by."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
