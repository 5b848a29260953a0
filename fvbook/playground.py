"""The playground without its controls: what to train from plain values, runs that pause, theory, code, files.

Every function takes values and returns values; `widgets.playground` puts controls in front of them.
"""

import base64
import html
import io
import threading
import time
from collections.abc import Sequence
from functools import cache

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fvbook import _check, theory
from fvbook.experiments import Experiment
from fvbook.figures import playground as figures
from fvbook.figures import to_svg
from fvbook.priors import GaussianPrior, Prior, TreePrior
from fvbook.training import Run, TrainConfig, held_out_loss

LIMITS = {"levels": 6, "dim": 63, "budget": 32, "width": 256, "steps": 20_000, "batch_size": 1024}
"""The largest values of the playground: at all of them at once a run needs about 1 GB of memory."""


def read_settings(
    *,
    prior: str = "tree",
    levels: int = 5,
    decay: float = 0.8,
    dim: int = 31,
    n_tokens: int = 32,
    noise_std: float = 0.0,
    model: str = "A",
    budget: int = 5,
    width: int = 64,
    steps: int = 600,
    batch_size: int = 256,
    learning_rate: float = 0.03,
    seed: int = 0,
) -> Experiment:
    """The experiment that the values of the controls mean.

    Parameters
    ----------
    prior : str
        "tree", which has `levels` and a `decay`, or "gaussian", which has a `dim`; the others are ignored.
    levels, decay, dim
        K, α and D.
    n_tokens, noise_std, steps, batch_size, learning_rate, seed
        As in `training.TrainConfig`.
    model, budget, width
        As in `experiments.Experiment`.

    Raises
    ------
    ValueError
        If a value is out of its range or above `LIMITS`. The message begins with the argument's name.
    """

    def capped(name: str, value: int, high: int | None = None) -> int:
        return _check.integer(name, value, 1, min(LIMITS[name], high or LIMITS[name]))

    chosen: Prior
    if prior == "tree":
        chosen = TreePrior(capped("levels", levels), decay)
    elif prior == "gaussian":
        chosen = GaussianPrior(capped("dim", dim))
    else:
        raise ValueError(f"prior = {prior!r}: must be 'tree' or 'gaussian'")
    config = TrainConfig(
        n_tokens=n_tokens,
        noise_std=noise_std,
        steps=capped("steps", steps),
        batch_size=capped("batch_size", batch_size),
        learning_rate=learning_rate,
        seed=seed,
    )
    return Experiment(chosen, model, capped("budget", budget, chosen.dim), capped("width", width), config)


def theory_lines(experiment: Experiment) -> dict[str, float]:
    """What theory says about the loss in the setting of an experiment: label -> loss E|θ − θ̂|².

    "prior knowledge" is 1. "best linear" is exact for fixed keys and a linear decoder (models C and D). On a
    tree there are three more: "one coordinate at a time" is the loss of that strategy without noise, no
    bound; the last two bound from below the loss of all fixed keys (model B), and of all keys, for isotropic
    Gaussian noise of variance (1 + s²)/N. The noise of a context is such in the limit of many noisy tokens;
    elsewhere they are a comparison.
    """
    config = experiment.train
    return dict(_theory_lines(experiment.prior, experiment.budget, config.n_tokens, config.noise_std))


@cache
def _theory_lines(
    prior: Prior, budget: int, n_tokens: int, noise_std: float
) -> tuple[tuple[str, float], ...]:
    lines = {
        "prior knowledge": torch.tensor(1.0),
        "best linear": theory.linear_mmse(prior, budget, n_tokens, noise_std),
    }
    if isinstance(prior, TreePrior):
        noise_var = (1 + noise_std**2) / n_tokens
        lines["one coordinate at a time"] = theory.one_coordinate_mmse(prior, budget)
        lines["bound, fixed keys"] = theory.nonadaptive_lower_bound(prior, budget, noise_var)
        lines["bound, all keys"] = theory.lower_bound(prior, budget, noise_var)
    return tuple((label, float(loss)) for label, loss in lines.items())


def forecast(experiment: Experiment) -> str:
    """The numbers of `theory_lines` in a sentence."""
    numbers = "; ".join(f"{label} {loss:.3f}" for label, loss in theory_lines(experiment).items())
    return f"Theory for this setting, D = {experiment.prior.dim}: {numbers}."


def theory_curves(
    levels: int, decay: float, n_tokens: int, noise_std: float
) -> tuple[list[int], dict[str, Tensor]]:
    """Budgets M = 1..D on a tree, and for each label of `theory_lines` but the bounds the losses (D,).

    Arguments and errors as in `theory.linear_mmse` and `TreePrior`.
    """
    tree = TreePrior(levels, decay)
    budgets = list(range(1, tree.dim + 1))
    return budgets, {
        "best linear": theory.linear_mmse(tree, budgets, n_tokens, noise_std),
        "one coordinate at a time": theory.one_coordinate_mmse(tree, budgets),
    }


def code(experiment: Experiment) -> str:
    """Python source of a cell that trains the experiment to its end and prints its held-out loss.

    It needs the package and nothing else, and leaves the `training.TrainResult` in `result`.
    """
    arguments = ",\n        ".join(f"{name}={value!r}" for name, value in vars(experiment.train).items())
    return f"""\
import torch

from fvbook.experiments import Experiment
from fvbook.priors import {type(experiment.prior).__name__}
from fvbook.training import TrainConfig, train

torch.set_num_threads({torch.get_num_threads()})
experiment = Experiment(
    {experiment.prior!r},
    model={experiment.model!r},
    budget={experiment.budget},
    width={experiment.width},
    train=TrainConfig(
        {arguments},
    ),
)
result = train(experiment.build(), experiment.prior, experiment.train)
print(f"held-out loss {{result.loss:.4f}} ± {{result.standard_error:.4f}}")
"""


class LiveRun:
    """A training run that takes its steps when it is told to, and ends bit for bit as `training.train` would.

    Parameters
    ----------
    experiment : Experiment

    Attributes
    ----------
    model : ConstrainedTransformer
        With the weights reached when `measure` was last called; before that, the initial ones.
    loss, standard_error : float or None
        Held-out E|θ − θ̂|² of those weights and its standard error, as in `training.held_out_loss`; None once
        training has gone on.
    failure : str or None
        Why it cannot go on.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.model = experiment.build()
        self.loss: float | None = None
        self.standard_error: float | None = None
        self.failure: str | None = None
        self._run = Run([self.model], experiment.prior, experiment.train, [experiment.seed])
        self._seconds = 0.0

    @property
    def step(self) -> int:
        """Steps taken."""
        return self._run.step

    @property
    def done(self) -> bool:
        """Whether all steps are taken."""
        return self.step == self.experiment.train.steps

    @property
    def time_left(self) -> float:
        """Seconds of training left at the speed so far; infinite before the first step."""
        if not self.step:
            return float("inf")
        return self._seconds / self.step * (self.experiment.train.steps - self.step)

    @property
    def history(self) -> Tensor:
        """(records, 2): the step, and the training loss averaged over the steps since the record before."""
        losses = [record[0] for record in list(self._run.records)]
        steps = [(index + 1.0) * self._run.record_every for index in range(len(losses))]
        return torch.tensor(list(zip(steps, losses, strict=True))).reshape(-1, 2)

    def advance(self, seconds: float, stop: threading.Event | None = None) -> None:
        """Take steps for about this long, at least one; fewer when done or `stop` is set.

        FloatingPointError if the training loss is no longer finite.
        """
        self.loss = self.standard_error = None
        start = time.perf_counter()
        taken = 0.0
        while not self.done and not (stop and stop.is_set()) and (taken == 0 or taken < seconds):
            self._run.advance()
            taken = time.perf_counter() - start
        self._seconds += taken

    def measure(self) -> None:
        """Put the weights reached into the model and find their held-out loss."""
        self._run.write_back()
        self.loss, self.standard_error = held_out_loss(
            self.model, self.experiment.prior, self.experiment.train
        )

    def __str__(self) -> str:
        """The settings in a few words."""
        prior, config = self.experiment.prior, self.experiment.train
        kind = f"Gaussian D={prior.dim}"
        if isinstance(prior, TreePrior):
            kind = f"tree K={prior.levels} α={prior.decay:g}"
        noise = f" s={config.noise_std:g}" if config.noise_std else ""
        return f"{self.experiment.model}, M={self.experiment.budget}, {kind}, N={config.n_tokens}{noise}"


def finish(experiment: Experiment) -> LiveRun:
    """Train an experiment to its end and measure its loss."""
    run = LiveRun(experiment)
    run.advance(float("inf"))
    run.measure()
    return run


def comparison(runs: Sequence[LiveRun], selected: int = -1) -> Figure:
    """The figure of runs, numbered from 1, with the lines of theory for the setting of the selected one.

    Raises ValueError if there is no run.
    """
    if not runs:
        raise ValueError("runs = []: must hold at least one run")
    chosen = runs[selected]
    lines = theory_lines(chosen.experiment)
    alike = all(theory_lines(run.experiment) == lines for run in runs)
    return figures.runs(
        [
            (f"{number}: {run}", run.experiment.model, run.history, run.loss if run.done else None)
            for number, run in enumerate(runs, 1)
        ],
        lines,
        title="" if alike else f"theory for the setting of run {runs.index(chosen) + 1}",
    )


def describe(runs: Sequence[LiveRun], selected: int = -1) -> str:
    """The figure of `comparison` in words."""
    ends = [f"run {number} ({run}) {progress(run)}" for number, run in enumerate(runs, 1)]
    return f"Training loss against the step: {'; '.join(ends)}. {forecast(runs[selected].experiment)}"


def progress(run: LiveRun) -> str:
    """Where a run stands, in a few words."""
    if run.failure:
        return f"failed: {run.failure}"
    where = f"step {run.step} of {run.experiment.train.steps}"
    if run.loss is None:
        left = run.time_left
        return where + (f", about {left:.0f} s left" if left < float("inf") else "")
    loss = f"held-out loss {run.loss:.3f} ± {run.standard_error:.3f}"
    return f"done, {loss}" if run.done else f"stopped at {where}, {loss}"


def table(runs: Sequence[LiveRun]) -> str:
    """HTML of a table: each run, its seed, steps and held-out loss, and the numbers of theory beside it."""
    heads = ["run", "seed", "steps", "held-out loss"]
    labels = list(dict.fromkeys(label for run in runs for label in theory_lines(run.experiment)))[1:]
    rows = []
    for number, run in enumerate(runs, 1):
        lines = theory_lines(run.experiment)
        loss = "" if run.loss is None else f"{run.loss:.4f} ± {run.standard_error:.4f}"
        steps = f"{run.step}" if run.done else f"{run.step} of {run.experiment.train.steps}"
        cells = [f"{number}: {run}", str(run.experiment.seed), steps, loss]
        rows.append(cells + [f"{lines[label]:.4f}" if label in lines else "" for label in labels])
    cell = 'style="padding: 0.2em 0.6em; text-align: left; white-space: nowrap; line-height: 1.4"'
    head = "".join(f'<th scope="col" {cell}>{html.escape(text)}</th>' for text in heads + labels)
    body = "".join(
        "<tr>" + "".join(f"<td {cell}>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return (
        '<div tabindex="0" role="region" aria-label="table of runs" style="overflow-x: auto">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def files(runs: Sequence[LiveRun], selected: int = -1) -> dict[str, tuple[str, bytes]]:
    """What can be downloaded: file name -> media type, content.

    The figure as SVG, and as PNG on white at 200 dots an inch; the code of the selected run.
    """
    figure = comparison(runs, selected)
    svg = to_svg(figure, alt=describe(runs, selected))
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=200, facecolor="white")
    return {
        "playground.svg": ("image/svg+xml", svg.encode()),
        "playground.png": ("image/png", png.getvalue()),
        "playground.py": ("text/x-python", code(runs[selected].experiment).encode()),
    }


def data_link(name: str, media_type: str, content: bytes) -> str:
    """HTML of a link that holds the file itself, so it downloads wherever the page is shown."""
    address = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    style = "color: inherit; text-decoration: underline"
    return f'<a download="{html.escape(name)}" href="{address}" style="{style}">{html.escape(name)}</a>'


def code_block(experiment: Experiment) -> str:
    """HTML that unfolds the source of `code`."""
    return (
        "<details><summary>Code of the selected run</summary>"
        '<pre tabindex="0" style="overflow-x: auto; white-space: pre; line-height: 1.3">'
        f"{html.escape(code(experiment))}</pre>"
        "</details>"
    )
