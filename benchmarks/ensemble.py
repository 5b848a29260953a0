"""Training several seeds at once, as one ensemble, against one after another.

For K = 5, M = 5 and batches of 512: the time of a step of S models together, against S steps of one alone.
"""

from functools import partial

from benchmarks.common import Part, Result, build, cell, markdown, ratio, rounds, spread, step_seconds
from fvbook.priors import TreePrior
from fvbook.training import TrainConfig


def run(quick: bool) -> Result:
    """Measure each model and number of seeds."""
    prior, budget = (TreePrior(3, 0.8), 2) if quick else (TreePrior(5, 0.8), 5)
    counts, repeats = ([1, 2], 1) if quick else ([1, 4, 16], 5)
    config = TrainConfig(batch_size=16 if quick else 512)
    rows = []
    for name in "ABC":
        models = build(name, prior, budget, range(max(counts)))
        actions = {
            count: partial(step_seconds, models[:count], prior, config, 1 if quick else max(3, 20 // count))
            for count in counts
        }
        times = rounds(actions, repeats)
        for count in counts:
            in_turn = [count * time for time in times[1]]
            rows.append(
                {
                    "model": name,
                    "seeds": count,
                    "at_once_s": spread(times[count]),
                    "in_turn_s": spread(in_turn),
                    "ratio": ratio(in_turn, times[count]),
                }
            )
    return {"rows": rows}


def table(result: Result) -> str:
    """Each model and number of seeds."""
    rows = [
        [
            row["model"],
            row["seeds"],
            cell(row["in_turn_s"], 1e3),
            cell(row["at_once_s"], 1e3),
            cell(row["ratio"]),
        ]
        for row in result["rows"]
    ]
    return markdown(["model", "seeds", "one after another, ms a step", "at once, ms a step", "ratio"], rows)


PART = Part("Several seeds at once", run, table)
