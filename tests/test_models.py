import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from fvbook.contexts import moment
from fvbook.models import ConstrainedTransformer, model_a, model_b, model_c, model_d
from tests.small_models import MODELS, Make, deep, seeded

every_model = pytest.mark.parametrize("name", MODELS)


def make(name: str, dim: int, budget: int, seed: int = 0, **options: Any) -> ConstrainedTransformer:
    return MODELS[name](dim, budget, width=16, generator=seeded(seed), **options)


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype)


@torch.no_grad()
def check_forms(model: ConstrainedTransformer, n_tokens: int, seed: int, dtype: torch.dtype) -> None:
    """Token form and moment form, to 1e-5 (float64: 1e-10) of the size of the two factors of x_q·θ̂."""
    x = normal(4, n_tokens, model.dim, seed=seed, dtype=dtype)
    y = normal(4, n_tokens, seed=seed + 1, dtype=dtype)
    x_query = normal(4, model.dim, seed=seed + 2, dtype=dtype)
    theta_hat = model(moment(x, y))
    scale = (x_query.norm(dim=1) * theta_hat.norm(dim=1)).clamp_min(1)
    difference = (model.predict(x, y, x_query) - (x_query * theta_hat).sum(1)).abs()
    assert float((difference / scale).max()) <= (1e-5 if dtype == torch.float32 else 1e-10)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    name=st.sampled_from(list(MODELS)),
    dim=st.integers(1, 9),
    share=st.floats(0, 1),
    n_tokens=st.integers(1, 8),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 1000),
)
def test_token_form_is_moment_form(
    name: str, dim: int, share: float, n_tokens: int, dtype: torch.dtype, seed: int
) -> None:
    check_forms(make(name, dim, 1 + round(share * (dim - 1)), seed, dtype=dtype), n_tokens, seed, dtype)


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("dim", "budget", "n_tokens"), [(31, 5, 64), (31, 31, 4), (1, 1, 1), (7, 7, 1)])
def test_token_form_is_moment_form_at_the_ends(
    name: str, dtype: torch.dtype, dim: int, budget: int, n_tokens: int
) -> None:
    check_forms(make(name, dim, budget, dtype=dtype), n_tokens, 5, dtype)


@every_model
def test_order_of_tokens_does_not_matter(name: str) -> None:
    model = make(name, 5, 4, dtype=torch.float64)
    x, y, x_query = normal(3, 6, 5), normal(3, 6, seed=2), normal(3, 5, seed=3)
    order = torch.randperm(6, generator=seeded(4))
    torch.testing.assert_close(
        model.predict(x[:, order], y[:, order], x_query), model.predict(x, y, x_query), rtol=0, atol=1e-12
    )


@every_model
@pytest.mark.parametrize(("dim", "budget"), [(1, 1), (6, 4), (5, 5)])
def test_trace_tells_what_each_layer_did(name: str, dim: int, budget: int) -> None:
    model = make(name, dim, budget, dtype=torch.float64)
    b = normal(8, dim)
    keys, phi, theta_hat = model.trace(b)
    assert len(keys) == model.layers
    assert phi.shape == (8, budget)
    assert torch.equal(theta_hat, model(b))
    assert torch.equal(theta_hat, model.decoder(phi))
    for layer, key in enumerate(keys):
        before = phi[:, : layer * model.channels]
        assert key.shape == (8, model.channels, dim)
        torch.testing.assert_close(key.norm(dim=2), torch.ones(8, model.channels, dtype=key.dtype))
        torch.testing.assert_close(key, model.routers[layer](before), rtol=0, atol=1e-12)
        measured = phi[:, layer * model.channels :][:, : model.channels]
        torch.testing.assert_close(measured, (key @ b[:, :, None])[:, :, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["A", "router only", "blocks"])
def test_keys_depend_on_the_measurements_made_before_alone(name: str) -> None:
    """Move b where the first layers do not look: the next keys stay, any later ones move."""
    dim, budget = 9, 4
    model = make(name, dim, budget, dtype=torch.float64)
    b = normal(5, dim)
    keys, phi, _ = model.trace(b)
    for layers in range(1, model.layers + 1):
        seen = torch.cat(keys[:layers], 1)
        basis = torch.linalg.qr(seen.mT).Q
        step = normal(5, dim, seed=7)
        step = step - (basis @ (basis.mT @ step[:, :, None]))[:, :, 0]
        moved_keys, moved_phi, _ = model.trace(b + step)
        known = layers * model.channels
        torch.testing.assert_close(moved_phi[:, :known], phi[:, :known], rtol=0, atol=1e-12)
        for layer in range(min(layers + 1, model.layers)):
            torch.testing.assert_close(moved_keys[layer], keys[layer], rtol=0, atol=1e-12)
        for layer in range(layers + 1, model.layers):
            assert bool(((moved_keys[layer] - keys[layer]).abs().amax((1, 2)) > 1e-4).all())


@every_model
def test_which_keys_are_the_same_for_every_context(name: str) -> None:
    """The first layer's always, exactly; later ones unless a router MLP makes them depend on Φ."""
    first, *later = make(name, 6, 4).trace(normal(10, 6, dtype=torch.float32)).keys
    assert torch.equal(first, first[:1].expand_as(first))
    adaptive = name in ["A", "router only", "blocks"]
    for key in later:
        assert torch.equal(key, key[:1].expand_as(key)) != adaptive


@pytest.mark.parametrize(
    ("shallow", "layered"),
    [(model_c, model_d), (model_b, partial(deep, router_mlp=False, decoder_mlp=True))],
    ids=["D is C", "deep without router MLP is B"],
)
@pytest.mark.parametrize(("dim", "budget"), [(1, 1), (7, 3), (6, 6)])
def test_depth_without_routing_is_one_layer(shallow: Make, layered: Make, dim: int, budget: int) -> None:
    """Each way: the keys of M layers are the rows of one layer's key matrix."""
    one = shallow(dim, budget, generator=seeded(0), dtype=torch.float64)
    many = layered(dim, budget, generator=seeded(1), dtype=torch.float64)
    b = normal(20, dim)
    assert (one(b) - many(b)).abs().max() > 1e-3
    many.decoder.load_state_dict(one.decoder.state_dict())
    rows = one.routers[0].state_dict()["constant"]
    for row, router in enumerate(many.routers):
        router.load_state_dict({"constant": rows[row : row + 1]})
    torch.testing.assert_close(many(b), one(b), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(many.trace(b).function_vector, one.trace(b).function_vector)


@pytest.mark.parametrize("name", ["C", "D"])
def test_without_mlps_the_estimate_is_a_matrix_of_rank_m_times_b(name: str) -> None:
    model = make(name, 8, 3, dtype=torch.float64)
    matrix = model(torch.eye(8, dtype=torch.float64))
    assert int(torch.linalg.matrix_rank(matrix)) == 3
    b = normal(10, 8)
    torch.testing.assert_close(model(b), b @ matrix)
    torch.testing.assert_close(model(torch.zeros(1, 8, dtype=b.dtype)), torch.zeros(1, 8, dtype=b.dtype))


def test_the_decoder_of_b_is_that_of_a() -> None:
    a, b = ({n: p.shape for n, p in m(9, 4).decoder.named_parameters()} for m in [model_a, model_b])
    assert a == b
    assert all(router.mlp is not None for router in list(model_a(9, 4).routers)[1:])


@every_model
def test_weights_come_from_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (make(name, 6, 4, seed).state_dict() for seed in [3, 3, 4])
    double = make(name, 6, 4, 3, dtype=torch.float64).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    for key, weight in first.items():
        assert torch.equal(weight, again[key])
        assert torch.equal(weight.double(), double[key])
        assert not torch.equal(weight, other[key]) or key.endswith("bias")


def test_weights_without_a_generator_follow_the_global_seed() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = model_a(4, 2).state_dict()
        torch.manual_seed(0)
        again = model_a(4, 2).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)


@every_model
@pytest.mark.parametrize(("dim", "budget"), [(1, 1), (7, 4), (31, 31)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_gradients_are_finite(name: str, dim: int, budget: int, scale: float) -> None:
    model = make(name, dim, budget)
    b = scale * normal(5, dim, dtype=torch.float32)
    (model(b) - 1).square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.isfinite().all())


@every_model
@torch.no_grad()
def test_estimates_begin_at_the_size_of_theta(name: str) -> None:
    """At first |θ̂| is of order 1 for b of order 1, so training starts near a loss of order 1."""
    b = torch.nn.functional.normalize(normal(2000, 31, dtype=torch.float32), dim=1)
    size = float(torch.stack([make(name, 31, 5, seed)(b).square().sum(1).mean() for seed in range(5)]).mean())
    assert 0.01 < size < 5


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_round_trip_through_safetensors(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model, other = make(name, 6, 4, 0, dtype=dtype), make(name, 6, 4, 1, dtype=dtype)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    b = normal(5, 6, dtype=dtype)
    assert torch.equal(model(b), other(b))


def test_checked_input_is_not_looked_at() -> None:
    """On the meta device there is nothing to look at; shapes alone go through."""
    model = model_a(6, 3, device="meta")
    assert model(torch.zeros(2, 6, device="meta"), checked=True).shape == (2, 6)


def test_repr_tells_sizes_apart() -> None:
    """Also where there is no MLP whose shapes would tell."""
    models = [
        model_c(7, 2),
        model_c(7, 3),
        model_d(7, 2),
        model_c(8, 2),
        model_a(7, 2),
        model_a(7, 2, width=9),
    ]
    assert len({repr(model) for model in models}) == len(models)
    assert "dim=7, layers=1, channels=2" in repr(models[0])


sized: Make = partial(ConstrainedTransformer, 3, router_mlp=True, decoder_mlp=True)
MODEL = model_a(3, 2)
B, X, Y, XQ = torch.ones(2, 3), torch.ones(2, 4, 3), torch.ones(2, 4), torch.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        *[
            (partial(kind, *sizes), complaint)
            for kind in map(MODELS.__getitem__, "ABCD")
            for sizes, complaint in [
                ((0, 1), "dim = 0: must be an integer ≥ 1"),
                ((3.0, 1), "dim = 3.0: must be an integer ≥ 1"),
                ((3, 0), "budget = 0: must be an integer from 1 to 3"),
                ((3, 4), "budget = 4: must be an integer from 1 to 3"),
                ((3, "2"), "budget = '2': must be an integer from 1 to 3"),
            ]
        ],
        (lambda: sized(layers=1, channels=1, width=0), "width = 0: must be an integer ≥ 1"),
        (lambda: model_c(3, 2, width=1.5), "width = 1.5: must be an integer ≥ 1"),
        (lambda: sized(layers=0, channels=1), "layers = 0: must be an integer ≥ 1"),
        (lambda: sized(layers=1, channels=-1), "channels = -1: must be an integer ≥ 1"),
        (lambda: sized(layers=2, channels=2), "layers * channels = 4: must be an integer from 1 to 3"),
        *[
            (lambda call=call, b=b: call(b), complaint)
            for call in [MODEL, MODEL.trace]
            for b, complaint in [
                (B[0], "b has shape (3,): must be (any, 3)"),
                (B[:, :2], "b has shape (2, 2): must be (any, 3)"),
                (B[:0], "b has shape (0, 3): must be (any, 3)"),
                (B.long(), "b has dtype torch.int64: must be a floating-point type"),
                (B.double(), "b has dtype torch.float64: must be torch.float32"),
                (B * math.nan, "b holds NaN or infinite values: must be finite"),
                (B.numpy(), "must be a torch.Tensor of shape (any, 3)"),
            ]
        ],
        (lambda: MODEL.predict(X[0], Y, XQ), "x has shape (4, 3): must be (any, any, 3)"),
        (lambda: MODEL.predict(X[:, :, :2], Y, XQ), "x has shape (2, 4, 2): must be (any, any, 3)"),
        (lambda: MODEL.predict(X[:, :0], Y[:, :0], XQ), "x has shape (2, 0, 3): must be (any, any, 3)"),
        (lambda: MODEL.predict(X, Y[:, :3], XQ), "y has shape (2, 3): must be (2, 4)"),
        (lambda: MODEL.predict(X, Y, XQ[:1]), "x_query has shape (1, 3): must be (2, 3)"),
        (lambda: MODEL.predict(X.double(), Y, XQ), "x has dtype torch.float64: must be torch.float32"),
        (lambda: MODEL.predict(X, Y / 0, XQ), "y holds NaN or infinite values: must be finite"),
        (lambda: MODEL.predict(X, Y, XQ * math.inf), "x_query holds NaN or infinite values: must be finite"),
    ],
)
def test_bad_input(call: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        call()
