import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fvbook import experiments, training
from fvbook.experiments import Experiment, Result, pick_device, run_ensemble
from fvbook.priors import GaussianPrior, Prior, TreePrior
from fvbook.training import TrainConfig, held_out_loss, train

SHORT = TrainConfig(n_tokens=8, steps=20, batch_size=16, held_out=50, warmup=5)
BASE = Experiment(TreePrior(2, 0.6, dtype=torch.float64), "A", 2, 8, SHORT)

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


def weights(result: Result) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in (result.weights or {}).values()])


def same(one: Result, other: Result) -> bool:
    """Bit for bit."""
    return torch.equal(weights(one), weights(other)) and all(
        getattr(one, name) == getattr(other, name)
        for name in ["experiment", "loss", "standard_error", "history"]
    )


dtypes = st.sampled_from([torch.float32, torch.float64])
decays = st.floats(0, 1, exclude_min=True, exclude_max=True)
priors: st.SearchStrategy[Prior] = st.one_of(
    st.builds(GaussianPrior, st.integers(1, 300), dtype=dtypes),
    st.builds(TreePrior, st.integers(1, 5), decays, dtype=dtypes),
)
counts = st.integers(1, 10**9)
configs = st.builds(
    TrainConfig,
    n_tokens=counts,
    noise_std=st.floats(0, 1e300),
    steps=counts,
    batch_size=counts,
    seed=st.integers(0, 2**63 - 1),
    learning_rate=st.floats(0, 1e300, exclude_min=True),
    warmup=st.integers(0, 10**9),
    held_out=st.integers(2, 10**9),
)


@given(priors, st.sampled_from("ABCD"), st.data(), counts, configs)
def test_dict_holds_all_of_an_experiment(
    prior: Prior, model: str, data: st.DataObject, width: int, train: TrainConfig
) -> None:
    budget = data.draw(st.integers(1, prior.dim))
    experiment = Experiment(prior, model, budget, width, train)
    text = json.dumps(experiment.as_dict(), allow_nan=False)
    again = Experiment.from_dict(json.loads(text))
    assert again == experiment
    assert hash(again) == hash(experiment)
    assert json.dumps(again.as_dict()) == text
    assert again.prior.dtype == prior.dtype


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, prior=TreePrior(2, 0.7, dtype=torch.float64)),
        replace(BASE, prior=TreePrior(2, 0.6)),
        replace(BASE, prior=GaussianPrior(3, dtype=torch.float64)),
        replace(BASE, model="B"),
        replace(BASE, budget=1),
        replace(BASE, width=9),
        *(replace(BASE, train=replace(SHORT, **{name: value + 1})) for name, value in asdict(SHORT).items()),
    ],
    ids=str,
)
def test_every_part_tells_experiments_apart(other: Experiment) -> None:
    assert other != BASE
    assert other.as_dict() != BASE.as_dict()
    assert Experiment.from_dict(other.as_dict()) == other


def test_with_seed() -> None:
    other = BASE.with_seed(5)
    assert (other.seed, other.train.seed, BASE.seed) == (5, 5, 0)
    assert other.with_seed(0) == BASE


def test_the_device_of_the_prior_is_left_out() -> None:
    on_meta = replace(BASE, prior=TreePrior(2, 0.6, dtype=torch.float64, device="meta"))
    assert on_meta == BASE
    assert on_meta.prior.sample(1).device.type == "cpu"


def test_str_says_what_is_not_the_default() -> None:
    experiment = Experiment(TreePrior(3, 0.6), "B", 2, 32, TrainConfig(seed=4, steps=7))
    assert str(experiment) == "B, M=2, TreePrior(levels=3, decay=0.6), width=32, steps=7, seed=4"
    assert str(Experiment(GaussianPrior(4), "C", 1)) == "C, M=1, GaussianPrior(dim=4), width=64"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"prior": "tree"}, "prior = 'tree': must be a TreePrior or a GaussianPrior"),
        ({"model": "E"}, "model = 'E': must be one of A, B, C, D"),
        ({"budget": 0}, "budget = 0: must be an integer from 1 to 3"),
        ({"budget": 4}, "budget = 4: must be an integer from 1 to 3"),
        ({"budget": 2.0}, "budget = 2.0: must be an integer from 1 to 3"),
        ({"width": 0}, "width = 0: must be an integer ≥ 1"),
        ({"width": None}, "width = None: must be an integer ≥ 1"),
        ({"train": {"steps": 3}}, "train = {'steps': 3}: must be a TrainConfig"),
        ({"train": TrainConfig(seed=2**63)}, f"seed = {2**63}: must be an integer from 0 to {2**63 - 1}"),
    ],
)
def test_bad_experiment(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        replace(BASE, **changes)


def bad(**changes: Any) -> dict[str, Any]:
    return BASE.as_dict() | changes


@pytest.mark.parametrize(
    ("values", "error", "complaint"),
    [
        (bad(prior={"kind": "flat", "dtype": "float32"}), ValueError, "kind = 'flat': must be 'tree' or"),
        (bad(prior={"kind": "gaussian", "dim": 0, "dtype": "float32"}), ValueError, "dim = 0: must be"),
        (bad(prior={"kind": "tree", "levels": 2, "dtype": "float32"}), TypeError, "decay"),
        (bad(prior={"kind": "tree"}), KeyError, "dtype"),
        (bad(model="a"), ValueError, "model = 'a'"),
        (bad(budget=9), ValueError, "budget = 9"),
        (bad(train={"steps": -1}), ValueError, "steps = -1"),
        (bad(train={"epochs": 1}), TypeError, "epochs"),
        ({"prior": BASE.as_dict()["prior"]}, KeyError, "model"),
    ],
)
def test_bad_dict(values: dict[str, Any], error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        Experiment.from_dict(values)


@pytest.mark.parametrize("model", "ABCD")
def test_cost_counts_the_weights(model: str) -> None:
    experiment = replace(BASE, model=model)
    count = sum(parameter.numel() for parameter in experiment.build().parameters())
    assert experiment.cost() == count * SHORT.steps * SHORT.batch_size


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", "ABCD")
def test_each_of_an_ensemble_ends_as_it_would_alone(model: str, device: str) -> None:
    """Up to rounding, which 20 steps do not blow up; and again in the same company, bit for bit."""
    group = [replace(BASE, model=model).with_seed(seed) for seed in [3, 0, 2**63 - 1]]
    together = run_ensemble(group, device=device, progress=False)
    again = run_ensemble(group, device=device, progress=False)
    for experiment, result, other in zip(group, together, again, strict=True):
        (alone,) = run_ensemble([experiment], device=device, progress=False)
        assert result.experiment == alone.experiment == experiment
        torch.testing.assert_close(weights(result), weights(alone), rtol=1e-7, atol=1e-9)
        assert result.loss == pytest.approx(alone.loss, rel=1e-7)
        assert result.standard_error == pytest.approx(alone.standard_error, rel=1e-7)
        assert [step for step, _ in result.history] == list(range(1, 21))
        for (_, loss), (_, other_loss) in zip(result.history, alone.history, strict=True):
            assert loss == pytest.approx(other_loss, rel=2e-5)  # five digits
        assert same(result, other)


@pytest.mark.parametrize("device", DEVICES)
def test_result(device: str) -> None:
    """Its weights are on the CPU, give its loss again, and are those of a plain call of `train`."""
    before, start = torch.get_rng_state(), datetime.now(timezone.utc)
    first, second = run_ensemble([BASE.with_seed(7), BASE], device=device, progress=False)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(weight.device.type == "cpu" for weight in (first.weights or {}).values())
    model, prior = first.load_model(device), first.experiment.prior.to(device)
    assert held_out_loss(model, prior, first.experiment.train) == (first.loss, first.standard_error)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert first.provenance == second.provenance
    assert first.provenance["ensemble"] == 2
    assert first.provenance["threads"] == torch.get_num_threads()
    assert first.provenance["versions"] == experiments.versions()
    assert first.provenance["seconds"] >= 0
    date = datetime.fromisoformat(first.provenance["date"])
    assert -1 <= (date - start).total_seconds() < 60
    assert json.loads(json.dumps(first.provenance)) == first.provenance
    plain = train(BASE.build(device), BASE.prior.to(device), BASE.train, progress=False)
    assert second.loss == pytest.approx(plain.loss, rel=1e-7)
    assert math.isfinite(second.loss)


def test_model_without_weights() -> None:
    result = Result(BASE, 0.5, 0.1, (), None, {})
    with pytest.raises(ValueError, match=r"weights = None: were not kept for A, M=2.*run the experiment"):
        result.load_model()


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ([], "experiments = []: must differ in the seed alone"),
        ([BASE, replace(BASE, budget=1)], "M=1, TreePrior(levels=2, decay=0.6), width=8"),
        ([BASE, replace(BASE, train=replace(SHORT, steps=21, seed=1))], "must differ in the seed alone"),
        ([BASE, BASE.with_seed(1), BASE], "experiments have the seeds [0, 1, 0]: must be distinct"),
    ],
)
def test_bad_ensemble(group: Sequence[Experiment], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        run_ensemble(group, progress=False)


@pytest.mark.parametrize("cuda", [True, False])
def test_pick_device(cuda: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") == ("cuda" if cuda else "cpu")
    if cuda:
        assert pick_device("cuda") == "cuda"
    else:
        with pytest.raises(ValueError, match="device = 'cuda': must be 'auto' or 'cpu' here"):
            pick_device("cuda")


@pytest.mark.parametrize("call", [pick_device, lambda device: run_ensemble([BASE], device=device)])
@pytest.mark.parametrize("device", ["tpu", "cuda:0", ""])
def test_bad_device(call: Callable[[str], object], device: str) -> None:
    with pytest.raises(ValueError, match=f"device = '{device}': must be 'auto', 'cpu' or 'cuda'"):
        call(device)


def test_progress_and_checkpoint_are_those_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}
    plain = training.train_ensemble

    def watch(*args: Any, **options: Any) -> Any:
        seen.update(options)
        return plain(*args, **options | {"progress": False, "checkpoint": None})

    monkeypatch.setattr(experiments, "train_ensemble", watch)
    run_ensemble([BASE.with_seed(4)], progress=True, checkpoint=None)
    assert seen == {"seeds": [4], "progress": True, "checkpoint": None}
