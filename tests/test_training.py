import math
import re
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Generator, Tensor
from tqdm import tqdm

from fvbook import theory, training
from fvbook.contexts import sample_moment
from fvbook.models import ConstrainedTransformer, model_a, model_b, model_c, model_d
from fvbook.priors import GaussianPrior, Prior, TreePrior
from fvbook.training import TrainConfig, TrainResult, held_out_loss, train, train_ensemble

Make = Callable[..., ConstrainedTransformer]

TREE = TreePrior(3, 0.6, dtype=torch.float64)
SHORT = TrainConfig(n_tokens=8, noise_std=0.1, steps=30, batch_size=16, held_out=50)


def seeded(seed: int) -> Generator:
    return torch.Generator().manual_seed(seed)


def make(kind: Make = model_a, seed: int = 0, prior: Prior = TREE, budget: int = 3) -> ConstrainedTransformer:
    return kind(prior.dim, budget, width=8, generator=seeded(seed), dtype=prior.dtype)


def weights(model: ConstrainedTransformer) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def same(one: TrainResult, other: TrainResult) -> bool:
    """Bit for bit."""
    return (
        torch.equal(weights(one.model), weights(other.model))
        and torch.equal(one.history, other.history)
        and (one.config, one.loss, one.standard_error) == (other.config, other.loss, other.standard_error)
    )


class Hooked(TreePrior):
    """TREE, but `hook` runs when θ are drawn for the `at`-th time; every draw is kept."""

    def __init__(self, at: int = 0, hook: Callable[[], object] = lambda: None) -> None:
        super().__init__(TREE.levels, TREE.decay, dtype=TREE.dtype)
        self.at, self.hook, self.draws = at, hook, list[Tensor]()

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        self.draws.append(super().sample(n, generator=generator))
        if len(self.draws) == self.at:
            self.hook()
        return self.draws[-1]


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("kind", "budget", "steps", "low", "high"),
    [
        (model_c, 3, 300, 0.5543 * 0.999, 0.5543 * 1.02),
        (model_d, 3, 300, 0.5543 * 0.999, 0.5543 * 1.02),
        (model_b, 3, 1000, 0.30, 0.36),
        (model_a, 3, 700, 0.15, 0.275),
        (model_b, 5, 1200, 0.20, 0.27),
        (model_a, 5, 1300, 0.03, 0.08),
    ],
)
def test_models_of_the_book_reach_their_losses(
    kind: Make, budget: int, steps: int, low: float, high: float
) -> None:
    """K = 5, α = 0.8, N = 32, s = 0, five seeds at once: only depth with MLPs goes far below the others."""
    prior = TreePrior(5, 0.8)
    assert float(theory.linear_mmse(prior, 3, 32, 0)) == pytest.approx(0.5543, abs=5e-5)
    models = [kind(prior.dim, budget, generator=seeded(seed)) for seed in range(5)]
    results = train_ensemble(models, prior, TrainConfig(steps=steps), progress=False)
    mean = sum(result.loss for result in results) / 5
    assert low <= mean <= high


@pytest.mark.parametrize(
    ("prior", "budget", "n_tokens", "noise_std"),
    [
        (GaussianPrior(6, dtype=torch.float64), 2, 16, 0.3),
        (GaussianPrior(6), 6, 16, 0.0),
        (GaussianPrior(1), 1, 4, 0.5),
        (TREE, 3, 10**6, 0.0),
        (TreePrior(2, 0.5), 1, 1, 0.0),
    ],
)
def test_c_reaches_the_best_linear_loss(prior: Prior, budget: int, n_tokens: int, noise_std: float) -> None:
    config = TrainConfig(n_tokens, noise_std, steps=400, batch_size=256)
    results = train_ensemble(
        [make(model_c, s, prior, budget) for s in range(3)], prior, config, progress=False
    )
    loss = sum(result.loss for result in results) / 3
    error = max(result.standard_error for result in results)
    exact = float(theory.linear_mmse(prior, budget, n_tokens, noise_std))
    assert exact - 4 * error <= loss <= 1.02 * exact + 4 * error


@pytest.mark.parametrize("kind", [model_a, model_b, model_c, model_d])
def test_each_model_of_an_ensemble_ends_as_it_would_alone(kind: Make) -> None:
    seeds = [5, 2, 9]
    together = train_ensemble([make(kind, s) for s in seeds], TREE, SHORT, seeds=seeds, progress=False)
    for seed, result in zip(seeds, together, strict=True):
        config = TrainConfig(**{**vars(SHORT), "seed": seed})
        alone = train(make(kind, seed), TREE, config, progress=False)
        assert result.config == alone.config == config
        assert not torch.equal(weights(alone.model), weights(make(kind, seed)))
        torch.testing.assert_close(weights(result.model), weights(alone.model), rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(result.history, alone.history, rtol=1e-6, atol=1e-7)
        assert result.loss == pytest.approx(alone.loss, rel=1e-7)


def test_training_is_a_plain_loop_of_adam() -> None:
    model, generator = make(), training._generator(SHORT.seed, training._TRAINING, TREE.device)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.99))
    for step in range(SHORT.steps):
        theta = TREE.sample(SHORT.batch_size, generator=generator)
        b = sample_moment(theta, SHORT.n_tokens, SHORT.noise_std, generator=generator)
        optimizer.param_groups[0]["lr"] = SHORT.learning_rate_at(step)
        optimizer.zero_grad()
        (model(b) - theta).square().sum(1).mean().backward()
        optimizer.step()
    result = train(make(), TREE, SHORT, progress=False)
    torch.testing.assert_close(weights(result.model), weights(model), rtol=1e-7, atol=1e-9)


def test_result() -> None:
    models = [make(seed=seed) for seed in range(2)]
    before = torch.get_rng_state()
    results = train_ensemble(models, TREE, TrainConfig(**{**vars(SHORT), "seed": 7}), progress=False)
    assert torch.equal(torch.get_rng_state(), before)
    assert [result.config.seed for result in results] == [7, 8]
    for model, result in zip(models, results, strict=True):
        assert result.model is model
        assert (result.loss, result.standard_error) == held_out_loss(model, TREE, result.config)
        assert all(parameter.requires_grad and parameter.is_leaf for parameter in model.parameters())
    again = train_ensemble([make(seed=seed) for seed in range(2)], TREE, SHORT, seeds=[7, 8], progress=False)
    for one, other in zip(results, again, strict=True):
        assert torch.equal(weights(one.model), weights(other.model))


@pytest.mark.parametrize(
    ("steps", "records", "every"), [(1, 1, 1), (3, 3, 1), (100, 100, 1), (250, 125, 2), (1050, 105, 10)]
)
def test_history(steps: int, records: int, every: int) -> None:
    """The first record is the loss before training; without learning, each is that of the same weights."""
    config = TrainConfig(steps=steps, batch_size=1, held_out=2, learning_rate=1e-30)
    prior = Hooked()
    result = train(make(model_c), prior, config, progress=False)
    assert result.history[:, 0].tolist() == [every * (k + 1) for k in range(records)]
    generator = training._generator(0, training._TRAINING, torch.device("cpu"))
    losses = []
    for _ in range(every):
        theta = TREE.sample(1, generator=generator)
        b = sample_moment(theta, config.n_tokens, config.noise_std, generator=generator)
        losses.append(float((result.model(b) - theta).detach().square().sum()))
    assert float(result.history[0, 1]) == pytest.approx(sum(losses) / every, rel=1e-5)
    assert torch.equal(weights(result.model), weights(make(model_c)))


@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (0, 10), (100, 2000), (50, 20)])
def test_learning_rate_rises_to_its_peak_and_falls_to_zero(warmup: int, steps: int) -> None:
    config = TrainConfig(warmup=warmup, steps=steps, learning_rate=0.3)
    rates = [config.learning_rate_at(step) for step in range(steps)]
    assert all(0 < rate <= 0.3 for rate in rates)
    top = rates.index(max(rates))
    assert top <= warmup
    assert rates == sorted(rates[: top + 1]) + sorted(rates[top + 1 :], reverse=True)
    assert config.learning_rate_at(steps) == pytest.approx(0)
    if warmup == 0:
        assert rates[0] == 0.3


def test_held_out_contexts_are_fresh_and_fixed() -> None:
    """No θ of training comes again, none is shared between seeds, and another call draws the same."""
    dim = 5
    draws: list[Tensor] = []

    class Watched(GaussianPrior):
        def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
            draws.append(super().sample(n, generator=generator))
            return draws[-1]

    prior, models = Watched(dim), [model_c(dim, 2, generator=seeded(s)) for s in range(3)]
    results = train_ensemble(models, prior, SHORT, progress=False)
    rows = torch.cat(draws)
    assert len(rows) == 3 * (SHORT.steps * SHORT.batch_size + SHORT.held_out)
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
    for index, result in enumerate(results):
        assert held_out_loss(result.model, prior, result.config) == (result.loss, result.standard_error)
        assert torch.equal(draws[-1], draws[3 * SHORT.steps + index])


def test_standard_error_is_the_deviation_over_repeated_draws() -> None:
    model, count = make(model_b), 300
    config = [TrainConfig(n_tokens=2, held_out=200, seed=seed) for seed in range(count)]
    losses, errors = torch.tensor([held_out_loss(model, TREE, c) for c in config]).unbind(1)
    assert float(losses.std() / errors.mean()) == pytest.approx(1, abs=4 / (2 * count) ** 0.5)


def run(checkpoint: Path | None, prior: Prior = TREE, **changes: Any) -> list[TrainResult]:
    """A short run of two models."""
    models = [make(seed=seed, prior=prior) for seed in range(2)]
    config = TrainConfig(**{**vars(SHORT), **changes})
    return train_ensemble(models, prior, config, progress=False, checkpoint=checkpoint)


@pytest.mark.parametrize("steps", [30, 250])
@pytest.mark.parametrize("draw", [1, 2, 33, 59])
def test_interrupted_run_goes_on_as_if_it_had_never_stopped(steps: int, draw: int, tmp_path: Path) -> None:
    """Two models draw in turn, so an even draw is the second model's. The folder of the file is made."""
    path = tmp_path / "new" / "folder" / "run.safetensors"
    with pytest.raises(KeyboardInterrupt, match=rf"stopped after {(draw + 1) // 2} of {steps} steps"):
        run(path, Hooked(draw, interrupt), steps=steps)
    assert [file.name for file in path.parent.iterdir()] == ["run.safetensors"]
    resumed, uninterrupted = run(path, steps=steps), run(None, steps=steps)
    assert all(same(*pair) for pair in zip(resumed, uninterrupted, strict=True))
    finished = run(path, Hooked(1), steps=steps)  # only the held-out θ are drawn again
    assert all(same(*pair) for pair in zip(finished, uninterrupted, strict=True))


def test_run_that_died_goes_on_from_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(training, "_SAVE_EVERY", -1.0)  # after every step
    path = tmp_path / "run.safetensors"
    prior = Hooked(40, die)
    with pytest.raises(RuntimeError, match="power cut"):
        run(path, prior)
    prior = Hooked()
    resumed = run(path, prior)
    assert len(prior.draws) == 2 * (30 - 19) + 2  # 19 steps were whole, and two draws are held out
    assert all(same(*pair) for pair in zip(resumed, run(None), strict=True))


def test_interrupt_leaves_usable_models_and_the_handler() -> None:
    handler = signal.getsignal(signal.SIGINT)
    models, prior = [make(seed=seed) for seed in range(2)], Hooked(21, interrupt)
    with pytest.raises(KeyboardInterrupt, match="stopped after 11 of 30 steps; the models hold"):
        train_ensemble(models, prior, SHORT, progress=False)
    assert signal.getsignal(signal.SIGINT) is handler
    for seed, model in enumerate(models):
        assert not torch.equal(weights(model), weights(make(seed=seed)))
        loss, _ = held_out_loss(model, TREE, SHORT)
        assert math.isfinite(loss)
        assert not model(torch.ones(1, 7, dtype=torch.float64)).isnan().any()
        model(torch.ones(1, 7, dtype=torch.float64)).sum().backward()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_other_threads_may_train() -> None:
    """There no interrupt arrives, and handlers cannot be set."""
    results: list[TrainResult] = []
    worker = threading.Thread(target=lambda: results.extend(run(None)))
    worker.start()
    worker.join()
    assert all(same(*pair) for pair in zip(results, run(None), strict=True))


def other_run(path: Path, **changes: Any) -> None:
    run(path, **changes)


def other_ensemble(path: Path, seeds: Sequence[int], kind: Make = model_a, budget: int = 3) -> None:
    models = [make(kind, seed, budget=budget) for seed in seeds]
    train_ensemble(models, TREE, SHORT, seeds=seeds, progress=False, checkpoint=path)


def cut(path: Path, length: int) -> None:
    run(path)
    path.write_bytes(path.read_bytes()[:length])


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (lambda p: other_run(p, steps=31), "is of another run: its config is"),
        (lambda p: other_run(p, seed=1), "is of another run: its config is"),
        (lambda p: other_run(p, prior=TreePrior(3, 0.61, dtype=torch.float64)), "its prior is TreePrior"),
        (
            lambda p: other_run(p, prior=TreePrior(3, 0.6)),
            "its dtype is torch.float32, must be torch.float64",
        ),
        (lambda p: other_ensemble(p, [0]), "its seeds is [0], must be [0, 1]"),
        (lambda p: other_ensemble(p, [0, 1, 2]), "its seeds is [0, 1, 2], must be [0, 1]"),
        (lambda p: other_ensemble(p, [1, 0]), "its seeds is [1, 0], must be [0, 1]"),
        (lambda p: other_ensemble(p, [0, 1], model_b), "its model is"),
        (lambda p: other_ensemble(p, [0, 1], budget=2), "its model is"),
        (lambda p: save_file({"x": torch.zeros(3)}, p), "its prior is None, must be TreePrior"),
        (lambda p: cut(p, 0), "is damaged"),
        (lambda p: cut(p, 100), "is damaged"),
        (lambda p: cut(p, -1), "is damaged"),
        (lambda p: p.write_text("some notes of mine"), "is damaged"),
    ],
)
def test_checkpoint_that_does_not_fit_is_refused_and_kept(
    write: Callable[[Path], object], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    write(path)
    kept, prior = path.read_bytes(), Hooked()
    with pytest.raises(ValueError, match=f"checkpoint = .*{re.escape(complaint)}"):
        run(path, prior)
    assert path.read_bytes() == kept
    assert not prior.draws


@pytest.mark.parametrize(("stored", "wanted"), [(1, 3), (3, 1)])
def test_checkpoint_of_another_budget_is_refused_without_mlps(
    stored: int, wanted: int, tmp_path: Path
) -> None:
    """One key would broadcast over three without a complaint."""
    path = tmp_path / "run.safetensors"
    train(make(model_c, budget=stored), TREE, SHORT, progress=False, checkpoint=path)
    with pytest.raises(ValueError, match="is of another run: its model is"):
        train(make(model_c, budget=wanted), TREE, SHORT, progress=False, checkpoint=path)


def test_progress_bar_shows_the_loss_and_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "tqdm", partial(tqdm, disable=False))  # whatever TQDM_DISABLE says
    result = train(model_c(7, 2), TreePrior(3, 0.6), TrainConfig(steps=600, held_out=10))
    err = capsys.readouterr().err
    shown = re.findall(r"(\d+)/600 \[\d\d:\d\d<\d\d:\d\d, .*step/s, loss (\d\.\d{4})\]", err)
    assert shown
    losses = {f"{loss:.4f}" for loss in result.history[:, 1].tolist()}
    assert {loss for _, loss in shown} <= losses
    train(model_c(7, 2), TreePrior(3, 0.6), TrainConfig(steps=3, held_out=10), progress=False)
    assert capsys.readouterr().err == ""


def test_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    config = TrainConfig(steps=50, batch_size=4, learning_rate=1e20, warmup=0)
    with pytest.raises(FloatingPointError, match=r"not finite at step \d+: try a learning rate below 1e"):
        train(model_a(7, 3), TreePrior(3, 0.6), config, progress=False, checkpoint=path)
    assert not path.exists()


@pytest.mark.parametrize("kind", [model_a, model_c])
@pytest.mark.parametrize("dim", [1, 4])
def test_smallest_run(kind: Make, dim: int) -> None:
    config = TrainConfig(n_tokens=1, steps=1, batch_size=1, held_out=2, learning_rate=1e-300)
    result = train(kind(dim, 1), GaussianPrior(dim), config, progress=False)
    assert result.history.shape == (1, 2)
    assert math.isfinite(result.loss)


def test_numbers_of_numpy_are_welcome(tmp_path: Path) -> None:
    """They do not get into the checkpoint's text, which could not hold them."""
    config = TrainConfig(np.int64(8), np.float32(0.5), np.int32(3), np.int64(4), held_out=10)
    assert config == TrainConfig(8, 0.5, 3, 4, held_out=10)
    seeds, path = np.arange(2).tolist(), tmp_path / "run.safetensors"
    models = [make(seed=seed) for seed in seeds]
    first = train_ensemble(models, TREE, config, seeds=list(np.arange(2)), progress=False, checkpoint=path)
    again = train_ensemble(models, TREE, config, seeds=seeds, progress=False, checkpoint=path)
    assert all(same(*pair) for pair in zip(first, again, strict=True))


def test_devices_are_compared_as_tensors_name_them() -> None:
    """As "cuda" is cuda:0, so "cpu:0" is cpu."""
    prior = TreePrior(3, 0.6, device="cpu:0")
    assert math.isfinite(train(model_c(7, 2, device="cpu:0"), prior, SHORT, progress=False).loss)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"n_tokens": 0}, "n_tokens = 0: must be an integer ≥ 1"),
        ({"noise_std": -0.1}, "noise_std = -0.1: must be a finite number in [0, inf)"),
        ({"noise_std": math.nan}, "noise_std = nan: must be"),
        ({"steps": 0}, "steps = 0: must be an integer ≥ 1"),
        ({"steps": 2e3}, "steps = 2000.0: must be an integer ≥ 1"),
        ({"batch_size": 0}, "batch_size = 0: must be an integer ≥ 1"),
        ({"seed": -1}, "seed = -1: must be an integer ≥ 0"),
        ({"learning_rate": 0}, "learning_rate = 0: must be a finite number in (0, inf)"),
        ({"learning_rate": math.inf}, "learning_rate = inf: must be"),
        ({"warmup": -1}, "warmup = -1: must be an integer ≥ 0"),
        ({"held_out": 1}, "held_out = 1: must be an integer ≥ 2"),
    ],
)
def test_bad_config(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        TrainConfig(**changes)


SHARED = make()


@pytest.mark.parametrize(
    ("models", "seeds", "complaint"),
    [
        ([], None, "models = []: must hold at least one model"),
        ([SHARED, SHARED], None, "models holds the same model twice: must be distinct"),
        ([make(), make(budget=2)], None, "models differ in shape: must all be built with the same dim"),
        ([make(model_c), make(model_c, budget=2)], None, "models differ in shape"),
        ([make(model_c), make(model_d)], None, "models differ in shape"),
        ([make()], [1, 2], "seeds has 2 entries: must have one for each of the 1 models"),
        ([make()], [-1], "seeds = -1: must be an integer ≥ 0"),
        ([make()], [0.5], "seeds = 0.5: must be an integer ≥ 0"),
        (
            [model_a(7, 3)],
            None,
            "torch.float32, device(type='cpu')): must be those of the prior, (7, torch.fl",
        ),
        ([model_a(6, 3, dtype=torch.float64)], None, "a model has (dim, dtype, device) = (6, "),
        ([model_a(7, 3, dtype=torch.float64, device="meta")], None, "device(type='meta')): must be those"),
    ],
)
def test_models_that_do_not_fit(
    models: list[ConstrainedTransformer], seeds: list[int] | None, complaint: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        train_ensemble(models, TREE, SHORT, seeds=seeds, progress=False)


def test_held_out_loss_needs_a_model_that_fits() -> None:
    with pytest.raises(ValueError, match="must be those of the prior"):
        held_out_loss(model_c(6, 2, dtype=torch.float64), TREE, SHORT)
