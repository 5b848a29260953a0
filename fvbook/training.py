"""Training: one model, or many seeds at once as one batched ensemble, on fresh contexts at every step.

The loss is E|θ − θ̂|², the mean over contexts of the squared error of the estimate: 1 for knowing nothing, 0
for knowing θ. A context enters through its moment b, drawn from its exact law at a cost that does not grow
with its length.
"""

import copy
import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor
from torch.func import functional_call, stack_module_state, vmap
from tqdm import tqdm

from fvbook import _check
from fvbook.contexts import sample_moment
from fvbook.models import ConstrainedTransformer
from fvbook.priors import Prior

_TRAINING, _HELD_OUT = 1, 2  # streams of random numbers: apart from each other and from the initial weights
_RECORDS = 100  # points of the history
_SAVE_EVERY = 30.0  # seconds between checkpoints


@dataclass(frozen=True)
class TrainConfig:
    """How to train: Adam with a linear warm-up and a cosine decay to zero of the learning rate.

    Attributes
    ----------
    n_tokens : int
        N ≥ 1, tokens in a context.
    noise_std : float
        s ≥ 0, noise of y.
    steps, batch_size : int
        Steps of Adam, and contexts in each step, ≥ 1.
    seed : int
        ≥ 0; with the stream it fixes every context drawn. (The initial weights are the model's own affair.)
    learning_rate : float
        Its peak, > 0.
    warmup : int
        Steps of the warm-up, ≥ 0.
    held_out : int
        Fresh contexts for the held-out loss, ≥ 2.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    n_tokens: int = 32
    noise_std: float = 0.0
    steps: int = 2000
    batch_size: int = 512
    seed: int = 0
    learning_rate: float = 0.02
    warmup: int = 100
    held_out: int = 20_000

    def __post_init__(self) -> None:
        for name, low in [
            ("n_tokens", 1),
            ("steps", 1),
            ("batch_size", 1),
            ("seed", 0),
            ("warmup", 0),
            ("held_out", 2),
        ]:
            object.__setattr__(self, name, _check.integer(name, getattr(self, name), low))
        object.__setattr__(self, "noise_std", _check.real("noise_std", self.noise_std, 0))
        rate = _check.real("learning_rate", self.learning_rate, 0, open_=True)
        object.__setattr__(self, "learning_rate", rate)

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warm = min(1.0, (step + 1) / (self.warmup + 1))
        return self.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / self.steps))


@dataclass(frozen=True)
class TrainResult:
    """A trained model and its score.

    Attributes
    ----------
    model : ConstrainedTransformer
        The model that was passed in, now trained.
    config : TrainConfig
        With the seed this model was trained on.
    loss, standard_error : float
        Held-out E|θ − θ̂|² over `config.held_out` fresh contexts, and its standard error.
    history : Tensor
        (records, 2): the step, and the training loss averaged over the steps since the record before.
    """

    model: ConstrainedTransformer
    config: TrainConfig
    loss: float
    standard_error: float
    history: Tensor


def train(
    model: ConstrainedTransformer,
    prior: Prior,
    config: TrainConfig,
    *,
    progress: bool = True,
    checkpoint: str | Path | None = None,
) -> TrainResult:
    """Train one model in place. The same as `train_ensemble` with this model and the seed of the config."""
    return train_ensemble(
        [model], prior, config, seeds=[config.seed], progress=progress, checkpoint=checkpoint
    )[0]


def train_ensemble(
    models: Sequence[ConstrainedTransformer],
    prior: Prior,
    config: TrainConfig,
    *,
    seeds: Sequence[int] | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
) -> list[TrainResult]:
    """Train several models of one shape at once, in place, each on contexts of its own.

    The models are stacked and step together, which on a CPU costs much less than one after another; each ends
    as it would alone, up to rounding. An interrupt (the stop button of a notebook, Ctrl-C) ends the step
    under way, leaves in the models the weights reached, saves the checkpoint if there is one, and then raises
    KeyboardInterrupt.

    Parameters
    ----------
    models : sequence of ConstrainedTransformer
        Of the same shape, and with the dimension, dtype and device of the prior.
    prior : GaussianPrior or TreePrior
    config : TrainConfig
    seeds : sequence of int, optional
        One for each model in place of `config.seed`; by default config.seed, config.seed + 1, ...
    progress : bool
        Whether to show a bar with the loss and the time left, on stderr.
    checkpoint : path, optional
        A safetensors file that holds the state of the run: written every half minute, at an interrupt and at
        the end. If it exists the run goes on from there and ends exactly as if it had never stopped.

    Returns
    -------
    list of TrainResult
        One for each model.

    Raises
    ------
    ValueError
        If models, prior, seeds or an existing checkpoint do not fit together.
    FloatingPointError
        If the training loss is no longer finite.
    KeyboardInterrupt
        After an interrupt.
    """
    seeds = range(config.seed, config.seed + len(models)) if seeds is None else seeds
    _check_fit(models, prior, seeds)
    run = Run(models, prior, config, seeds)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        run.load(path)
    silence: dict[str, Any] = {} if progress else {"disable": True}  # else as TQDM_DISABLE says
    saved = time.monotonic()
    try:
        with (
            _held_interrupts() as interrupted,
            tqdm(total=config.steps, initial=run.step, unit="step", leave=False, **silence) as bar,
        ):
            while run.step < config.steps and not interrupted.is_set():
                if run.advance():
                    bar.set_postfix_str(f"loss {run.records[-1].mean():.4f}", refresh=False)
                bar.update()
                if path is not None and time.monotonic() - saved > _SAVE_EVERY:
                    run.save(path)
                    saved = time.monotonic()
        if path is not None:
            run.save(path)
    finally:
        run.write_back()
    if interrupted.is_set():
        raise KeyboardInterrupt(
            f"stopped after {run.step} of {config.steps} steps; the models hold those weights"
        )
    return run.results()


def held_out_loss(model: ConstrainedTransformer, prior: Prior, config: TrainConfig) -> tuple[float, float]:
    """The loss E|θ − θ̂|² of a model on fresh contexts, and its standard error.

    The contexts have the `n_tokens` and `noise_std` of the config; there are `config.held_out` of them, fixed
    by `config.seed` and never seen in training. Raises ValueError if the model does not fit the prior.
    """
    _check_fit([model], prior, [config.seed])
    generator = _generator(config.seed, _HELD_OUT, prior.device)
    theta = prior.sample(config.held_out, generator=generator)
    b = sample_moment(theta, config.n_tokens, config.noise_std, generator=generator)
    with torch.no_grad():
        errors = (theta - model(b)).square().sum(1).double()
    return errors.mean().item(), errors.std().item() / config.held_out**0.5


class Run:
    """The state of a run: stacked models, optimiser, random streams, records; a checkpoint holds it all."""

    def __init__(
        self,
        models: Sequence[ConstrainedTransformer],
        prior: Prior,
        config: TrainConfig,
        seeds: Sequence[int],
    ) -> None:
        self.models, self.prior, self.config, self.seeds = models, prior, config, seeds
        self.record_every = max(1, config.steps // _RECORDS)
        self.parameters, _ = stack_module_state(list(models))  # name -> (S, ...)
        skeleton = copy.deepcopy(models[0]).to("meta")

        def estimate(weights: dict[str, Tensor], b: Tensor) -> Tensor:
            return functional_call(skeleton, weights, (b,), {"checked": True})

        def estimate_alone(weights: dict[str, Tensor], b: Tensor) -> Tensor:
            return estimate({name: weight[0] for name, weight in weights.items()}, b[0])[None]

        self.estimate = estimate_alone if len(models) == 1 else vmap(estimate)  # vmap costs one model 15 %
        self.optimizer = torch.optim.Adam(self.parameters.values(), betas=(0.9, 0.99), fused=True)
        for parameter in self.parameters.values():  # Adam's state from the start, so that it can be loaded
            self.optimizer.state[parameter] = {
                "step": torch.zeros((), device=prior.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        self.generators = [_generator(seed, _TRAINING, prior.device) for seed in seeds]
        self.records: list[Tensor] = []  # each (S,): training losses averaged since the record before
        self.since_record = torch.zeros(len(models), device=prior.device)
        self.step = 0

    def advance(self) -> bool:
        """Take one step; True if it closes a record.

        FloatingPointError if the loss of that record is not finite.
        """
        theta, b = zip(*(self._contexts(generator) for generator in self.generators), strict=True)
        losses = (self.estimate(self.parameters, torch.stack(b)) - torch.stack(theta)).square().sum(2).mean(1)
        self.optimizer.param_groups[0]["lr"] = self.config.learning_rate_at(self.step)
        self.optimizer.zero_grad()
        losses.sum().backward()
        self.optimizer.step()
        self.step += 1
        self.since_record += losses.detach()
        if self.step % self.record_every:
            return False
        self.records.append(self.since_record / self.record_every)
        self.since_record = torch.zeros_like(self.since_record)
        if not bool(self.records[-1].isfinite().all()):
            raise FloatingPointError(
                f"the training loss is not finite at step {self.step}: try a learning rate below "
                f"{self.config.learning_rate}"
            )
        return True

    def _contexts(self, generator: Generator) -> tuple[Tensor, Tensor]:
        theta = self.prior.sample(self.config.batch_size, generator=generator)
        b = sample_moment(theta, self.config.n_tokens, self.config.noise_std, generator=generator)
        return theta, b

    def write_back(self) -> None:
        """Put the weights reached into the models."""
        with torch.no_grad():
            for index, model in enumerate(self.models):
                for name, parameter in model.named_parameters():
                    parameter.copy_(self.parameters[name][index])

    def results(self) -> list[TrainResult]:
        """One result for each model, with its held-out loss."""
        steps = torch.arange(1, len(self.records) + 1) * self.record_every
        losses = torch.stack(self.records).cpu()  # (records, S)
        results = []
        for index, (model, seed) in enumerate(zip(self.models, self.seeds, strict=True)):
            config = replace(self.config, seed=seed)
            loss, standard_error = held_out_loss(model, self.prior, config)
            history = torch.stack([steps, losses[:, index]], dim=1)
            results.append(TrainResult(model, config, loss, standard_error, history))
        return results

    def _state(self) -> dict[str, Tensor]:
        """Every tensor of the run, by name; those that training changes in place are not copies."""
        state = {f"weight.{name}": parameter.detach() for name, parameter in self.parameters.items()}
        for name, parameter in self.parameters.items():
            state |= {f"adam.{name}.{key}": value for key, value in self.optimizer.state[parameter].items()}
        return state

    def _identity(self) -> dict[str, object]:
        """What a checkpoint must agree with to be gone on from."""
        return {
            "prior": repr(self.prior),
            "config": asdict(self.config),
            "seeds": [int(seed) for seed in self.seeds],
            "model": repr(self.models[0]),
            "dtype": str(self.prior.dtype),
        }

    def save(self, path: Path) -> None:
        """Write the checkpoint; a reader sees the old one or the new one, never a part."""
        tensors = self._state() | {
            "random": torch.stack([generator.get_state() for generator in self.generators]),
            "records": torch.stack([*self.records, self.since_record]),  # the last is still open
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".draft")
        save_file(tensors, draft, {"run": json.dumps(self._identity()), "step": str(self.step)})
        os.replace(draft, path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint. ValueError if it is of another run or cannot be read."""
        try:
            with safe_open(path, framework="pt", device=str(self.prior.device)) as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(
                f"checkpoint = {str(path)!r} is damaged ({error}): must be a safetensors file, or absent"
            ) from None
        theirs, ours = json.loads(metadata.get("run", "{}")), self._identity()
        differing = [key for key in ours if theirs.get(key) != ours[key]]
        if differing:
            key = differing[0]
            raise ValueError(
                f"checkpoint = {str(path)!r} is of another run: its {key} is {theirs.get(key)}, "
                f"must be {ours[key]}"
            )
        with torch.no_grad():
            for name, tensor in self._state().items():
                tensor.copy_(tensors[name])
        for generator, random in zip(self.generators, tensors["random"], strict=True):
            generator.set_state(random.cpu().clone())  # set_state misreads a view into a larger tensor
        *self.records, self.since_record = tensors["records"].unbind()
        self.step = int(metadata["step"])


def _generator(seed: int, stream: int, device: torch.device) -> Generator:
    """A generator for one stream of a seed; different streams share no numbers."""
    state = np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(1, np.uint64)[0]
    return Generator(device).manual_seed(int(state >> np.uint64(1)))


def _check_fit(models: Sequence[ConstrainedTransformer], prior: Prior, seeds: Sequence[int]) -> None:
    if not models:
        raise ValueError("models = []: must hold at least one model")
    if len(seeds) != len(models):
        raise ValueError(
            f"seeds has {len(seeds)} entries: must have one for each of the {len(models)} models"
        )
    for seed in seeds:
        _check.integer("seeds", seed, 0)
    if any(repr(model) != repr(models[0]) for model in models):
        raise ValueError(
            "models differ in shape: must all be built with the same dim, layers, channels, MLPs and width"
        )
    if len({id(model) for model in models}) < len(models):
        raise ValueError("models holds the same model twice: must be distinct, each is trained in place")
    for model in models:
        weight = next(model.parameters())
        have = (model.dim, weight.dtype, weight.device)
        want = (prior.dim, prior.dtype, prior.device)
        if have != want:
            raise ValueError(f"a model has (dim, dtype, device) = {have}: must be those of the prior, {want}")


@contextmanager
def _held_interrupts() -> Iterator[threading.Event]:
    """Note a keyboard interrupt instead of raising it, so that no step is left half done.

    In other threads none arrive.
    """
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    previous = signal.signal(signal.SIGINT, lambda *_: seen.set())
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, previous)
