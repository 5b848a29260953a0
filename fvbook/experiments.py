"""Experiments: what to train, as a value, and the run that is a pure function of it.

An `Experiment` names a prior, a model, its budget and width, and how to train it, seed included. Experiments
that differ in the seed alone train together as one ensemble (`run_ensemble`); which experiments the book
makes is in `catalogue`, where results are kept in `store`, and how many of them run at once in `sweeps`.
"""

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from fvbook import _check
from fvbook.models import ConstrainedTransformer, model_a, model_b, model_c, model_d
from fvbook.priors import GaussianPrior, Prior, TreePrior
from fvbook.training import TrainConfig, train_ensemble

MODELS = {"A": model_a, "B": model_b, "C": model_c, "D": model_d}


@dataclass(frozen=True)
class Experiment:
    """One network to train: two equal experiments have the same result.

    The dtype is that of the prior. The device is none of its business: on another one the random numbers
    differ, and the result does so by chance alone.

    Attributes
    ----------
    prior : TreePrior or GaussianPrior
        It is kept on the CPU.
    model : str
        "A", "B", "C" or "D", as in `models`.
    budget : int
        M, from 1 to D.
    width : int
        Of the MLPs, ≥ 1.
    train : TrainConfig
        Context (N, s), steps, batch and seed. The seed also draws the initial weights.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    prior: Prior
    model: str
    budget: int
    width: int = 64
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        if not isinstance(self.prior, TreePrior | GaussianPrior):
            raise ValueError(f"prior = {self.prior!r}: must be a TreePrior or a GaussianPrior")
        if self.model not in MODELS:
            raise ValueError(f"model = {self.model!r}: must be one of {', '.join(MODELS)}")
        if not isinstance(self.train, TrainConfig):
            raise ValueError(f"train = {self.train!r}: must be a TrainConfig")
        _check.integer("seed", self.train.seed, 0, 2**63 - 1)  # what generators of torch take
        if self.prior.device.type != "cpu":
            object.__setattr__(self, "prior", self.prior.to("cpu"))
        object.__setattr__(self, "budget", _check.integer("budget", self.budget, 1, self.prior.dim))
        object.__setattr__(self, "width", _check.integer("width", self.width, 1))

    @property
    def seed(self) -> int:
        """The seed of the weights and of the contexts."""
        return self.train.seed

    def with_seed(self, seed: int) -> "Experiment":
        """The same experiment with another seed."""
        return replace(self, train=replace(self.train, seed=seed))

    def build(self, device: torch.device | str = "cpu") -> ConstrainedTransformer:
        """The network with its initial weights, which the seed draws, the same on every device."""
        return MODELS[self.model](
            self.prior.dim,
            self.budget,
            width=self.width,
            generator=Generator().manual_seed(self.seed),
            dtype=self.prior.dtype,
            device=device,
        )

    def cost(self) -> float:
        """Multiplications of the forward passes of its training, about: to share work and foresee time."""
        weights = sum(parameter.numel() for parameter in self.build().parameters())
        return float(weights) * self.train.batch_size * self.train.steps

    def as_dict(self) -> dict[str, Any]:
        """What defines it, in types that JSON knows. `from_dict` is the inverse."""
        if isinstance(self.prior, TreePrior):
            prior = {"kind": "tree", "levels": self.prior.levels, "decay": self.prior.decay}
        else:
            prior = {"kind": "gaussian", "dim": self.prior.dim}
        prior["dtype"] = str(self.prior.dtype).removeprefix("torch.")
        return {
            "prior": prior,
            "model": self.model,
            "budget": self.budget,
            "width": self.width,
            "train": asdict(self.train),
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Experiment":
        """The experiment that `as_dict` wrote. ValueError, KeyError or TypeError if it is not one."""
        prior = dict(values["prior"])
        kind, dtype = prior.pop("kind"), getattr(torch, prior.pop("dtype"))
        if kind not in ("tree", "gaussian"):
            raise ValueError(f"kind = {kind!r}: must be 'tree' or 'gaussian'")
        return Experiment(
            (TreePrior if kind == "tree" else GaussianPrior)(**prior, dtype=dtype),
            values["model"],
            values["budget"],
            values["width"],
            TrainConfig(**values["train"]),
        )

    def __str__(self) -> str:
        """One line for messages, with everything that is not the default."""
        default = TrainConfig()
        changed = [f"{k}={v}" for k, v in asdict(self.train).items() if v != getattr(default, k)]
        return f"{self.model}, M={self.budget}, {self.prior}, " + ", ".join([f"width={self.width}", *changed])


@dataclass(frozen=True)
class Result:
    """What a run gave.

    Attributes
    ----------
    experiment : Experiment
    loss, standard_error : float
        Held-out E|θ − θ̂|² (1: knowing nothing) and its standard error over the held-out contexts.
    history : tuple of (int, float)
        Training loss averaged over the steps up to each step listed, to five digits.
    weights : dict of str to Tensor, or None
        The trained parameters on the CPU; None if they were not kept.
    provenance : dict
        date (UTC), machine, device, threads, versions, seconds (of the ensemble) and ensemble (its size).
    """

    experiment: Experiment
    loss: float
    standard_error: float
    history: tuple[tuple[int, float], ...]
    weights: dict[str, Tensor] | None
    provenance: dict[str, Any]

    def load_model(self, device: torch.device | str = "cpu") -> ConstrainedTransformer:
        """The trained network. ValueError if its weights were not kept."""
        if self.weights is None:
            raise ValueError(f"weights = None: were not kept for {self.experiment}; run the experiment again")
        model = self.experiment.build(device)
        model.load_state_dict(self.weights)
        return model.requires_grad_(False)


def pick_device(device: str) -> str:
    """The device that a name means: "auto" is "cuda" where there is one, else "cpu".

    Raises ValueError if it is not "auto", "cpu" or "cuda", or "cuda" is not there.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device = {device!r}: must be 'auto', 'cpu' or 'cuda'")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device = 'cuda': must be 'auto' or 'cpu' here, where there is no CUDA device")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def versions() -> dict[str, str]:
    """The versions of what a result's digits depend on beside the code of the book."""
    return {"python": ".".join(platform.python_version_tuple()[:2]), "torch": torch.__version__}


def run_ensemble(
    experiments: Sequence[Experiment],
    *,
    device: str = "cpu",
    progress: bool = True,
    checkpoint: Path | None = None,
) -> list[Result]:
    """Train experiments that differ in the seed alone, all at once.

    Each result is a function of its experiment: bit for bit if it trains in the same company again, on the
    same machine with the same versions, and up to the effect of rounding in any other.

    Parameters
    ----------
    experiments : sequence of Experiment
        At least one; distinct seeds, otherwise equal.
    device : str
        "auto", "cpu" or "cuda".
    progress, checkpoint
        As in `training.train_ensemble`, as is the behaviour at an interrupt.

    Returns
    -------
    list of Result
        In the order of the experiments.

    Raises
    ------
    ValueError
        If the experiments differ in more than the seed, a seed occurs twice, or the device is not there.
    """
    if len({experiment.with_seed(0) for experiment in experiments}) != 1:
        raise ValueError(f"experiments = {list(map(str, experiments))}: must differ in the seed alone")
    seeds = [experiment.seed for experiment in experiments]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"experiments have the seeds {seeds}: must be distinct")
    device = pick_device(device)
    first = experiments[0]
    start = time.perf_counter()
    trained = train_ensemble(
        [experiment.build(device) for experiment in experiments],
        first.prior.to(device),
        first.train,
        seeds=seeds,
        progress=progress,
        checkpoint=checkpoint,
    )
    provenance = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "seconds": round(time.perf_counter() - start, 1),
        "ensemble": len(seeds),
    }
    return [
        Result(
            experiment,
            run.loss,
            run.standard_error,
            tuple((int(step), float(f"{loss:.5g}")) for step, loss in run.history.tolist()),
            {name: weight.detach().cpu() for name, weight in run.model.state_dict().items()},
            provenance,
        )
        for experiment, run in zip(experiments, trained, strict=True)
    ]
