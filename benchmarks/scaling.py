"""How the time of a training step grows with D, M, N and the batch.

One model A of width 64 with the tree prior, D = 2^K − 1. From D = 127, M = 5, N = 32 and batches of 512 one
of them is varied at a time; the exponent is that of the power law fitted to the medians over the whole range
listed.
"""

from dataclasses import dataclass, replace
from functools import partial

from benchmarks.common import (
    Part,
    Result,
    build,
    exponent,
    markdown,
    number,
    rounds,
    spread,
    step_seconds,
)
from fvbook.priors import TreePrior
from fvbook.training import TrainConfig


@dataclass(frozen=True)
class Setting:
    """What a step's time may depend on."""

    levels: int = 7
    budget: int = 5
    n_tokens: int = 32
    batch: int = 512


BASE = Setting()
VARIED = {
    "D": [replace(BASE, levels=levels) for levels in range(5, 10)],
    "M": [replace(BASE, budget=budget) for budget in (2, 4, 8, 16, 32)],
    "N": [replace(BASE, n_tokens=n_tokens) for n_tokens in (8, 64, 512, 4096)],
    "batch": [replace(BASE, batch=batch) for batch in (128, 256, 512, 1024, 2048, 4096)],
}
SMALL = Setting(3, 2, 4, 8)
QUICK = {"D": [SMALL, replace(SMALL, levels=4)], "batch": [SMALL, replace(SMALL, batch=16)]}


def _value(name: str, setting: Setting) -> int:
    """What D, M, N or the batch is."""
    values = {
        "D": 2**setting.levels - 1,
        "M": setting.budget,
        "N": setting.n_tokens,
        "batch": setting.batch,
    }
    return values[name]


def _step(setting: Setting, quick: bool) -> float:
    prior = TreePrior(setting.levels, 0.8)
    config = TrainConfig(n_tokens=setting.n_tokens, batch_size=setting.batch)
    steps = 1 if quick else max(4, 15 * BASE.batch // setting.batch)
    return step_seconds(build("A", prior, setting.budget, [0]), prior, config, steps)


def run(quick: bool) -> Result:
    """Measure over each range."""
    rows = []
    for name, settings in (QUICK if quick else VARIED).items():
        times = rounds({setting: partial(_step, setting, quick) for setting in settings}, 1 if quick else 3)
        values = [_value(name, setting) for setting in settings]
        steps = [spread(times[setting]) for setting in settings]
        rows.append(
            {
                "varied": name,
                "exponent": exponent(values, [step["median"] for step in steps]),
                "steps": [
                    {"value": value, "step_s": step} for value, step in zip(values, steps, strict=True)
                ],
            }
        )
    return {"rows": rows}


def table(result: Result) -> str:
    """Each range and its exponent."""
    rows = [
        [
            row["varied"],
            ", ".join(str(step["value"]) for step in row["steps"]),
            ", ".join(number(1e3 * step["step_s"]["median"]) for step in row["steps"]),
            number(row["exponent"]),
        ]
        for row in result["rows"]
    ]
    return markdown(["varied", "range", "ms a step", "exponent"], rows)


PART = Part("How a step's time grows", run, table)
