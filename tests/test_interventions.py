import math
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from fvbook import inference, policies
from fvbook import interventions as iv
from fvbook.contexts import moment, sample_moment
from fvbook.models import ConstrainedTransformer, Trace, model_a
from fvbook.priors import TreePrior
from fvbook.training import TrainConfig, train
from tests.small_models import seeded
from tests.small_models import small as make

PARTS: tuple[iv.Part, ...] = get_args(iv.Part)
NAMES = ("A", "B", "C", "D", "blocks")
every_model = pytest.mark.parametrize("name", NAMES)
every_part = pytest.mark.parametrize("what", PARTS)


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype)


def layers_of(model: ConstrainedTransformer) -> range:
    return range(1, model.layers + 1)


def same(one: Trace, other: Trace, tolerance: float = 0) -> None:
    for mine, yours in zip([*one.keys, *one[1:]], [*other.keys, *other[1:]], strict=True):
        torch.testing.assert_close(mine, yours, rtol=0, atol=tolerance)


@every_model
def test_without_a_patch_it_is_the_model(name: str) -> None:
    model, b = make(name), normal(5, 7, seed=1)
    same(iv.trace(model, b), model.trace(b))


@every_model
@every_part
@pytest.mark.parametrize("donor_tokens", [False, True])
def test_token_form_is_moment_form(name: str, what: iv.Part, donor_tokens: bool) -> None:
    model, draw = make(name, torch.float64), partial(normal, dtype=torch.float64)
    x, y = draw(3, 6, 7, seed=1), draw(3, 6, seed=2)
    other = draw(3, 9, 7, seed=3), draw(3, 9, seed=4)
    same(iv.trace(model, (x, y)), model.trace(moment(x, y)), 1e-12)
    run = partial(iv.patch, model, what=what, layer=layers_of(model))
    on_tokens = run(target=(x, y), donor=other if donor_tokens else moment(*other))
    same(on_tokens, run(target=moment(x, y), donor=moment(*other)), 1e-12)


@every_part
def test_the_model_is_left_as_it_was(what: iv.Part) -> None:
    model, b = make("A"), normal(5, 7, seed=1)
    before, text = {name: weight.clone() for name, weight in model.state_dict().items()}, repr(model)
    forward = model.trace(b)

    def check() -> None:
        assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
        assert all(weight.requires_grad for weight in model.parameters())
        for module in model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
        assert repr(model) == text
        same(model.trace(b), forward)

    iv.patch(model, target=b, donor=b.flip(0), what=what, layer=layers_of(model))
    check()
    with pytest.raises(ValueError, match="NaN"):  # from inside the run
        iv.patch(model, target=b * torch.nan, donor=b, what=what, layer=2)
    check()


@every_model
@every_part
def test_a_donor_of_the_same_context_changes_nothing(name: str, what: iv.Part) -> None:
    model, b = make(name), normal(50, 7, seed=1)
    expected = model(b)
    for patched in iv.patch(model, target=b, donor=b, what=what, layer=layers_of(model)).theta_hat:
        assert torch.equal(patched, expected)


@pytest.mark.parametrize(("name", "layers"), [("A", [1]), ("B", [1]), ("C", [1]), ("D", [1, 2, 3, 4])])
def test_keys_that_cannot_depend_on_the_context_change_nothing(name: str, layers: list[int]) -> None:
    model, b = make(name), normal(50, 7, seed=1)
    for patched in iv.patch_keys(model, target=b, donor=normal(50, 7, seed=2), layer=layers):
        assert torch.equal(patched, model(b))


@torch.no_grad()
@pytest.mark.parametrize("name", ["A", "blocks"])
def test_patches_written_out(name: str) -> None:
    """At layer 2: each part by hand, and the layers after it."""
    model, b, other = make(name, torch.float64), *normal(2, 5, 7, seed=1, dtype=torch.float64)
    d = model.channels
    run, donor = model.trace(b), model.trace(other)

    def goes_on(start: Tensor) -> Tensor:
        phi = start
        for router in model.routers[phi.shape[1] // d :]:
            phi = torch.cat([phi, torch.einsum("bhd,bd->bh", router(phi), b)], 1)
        return model.decoder(phi)

    first, second = run.function_vector[:, :d], donor.function_vector[:, d : 2 * d]
    asked = torch.einsum("bhd,bd->bh", donor.keys[1], b)
    expected = {
        "keys": goes_on(torch.cat([first, asked], 1)),
        "measured": goes_on(torch.cat([first, second], 1)),
        "workspace": goes_on(donor.function_vector[:, : 2 * d]),
    }
    for what in PARTS:
        patched = iv.patch(model, target=b, donor=other, what=what, layer=2)
        torch.testing.assert_close(patched.theta_hat, expected[what], rtol=0, atol=1e-12)
        assert torch.equal(model.decoder(patched.function_vector), patched.theta_hat), "what was read"
        assert torch.equal(patched.keys[1], (donor if what == "keys" else run).keys[1])
        assert (what == "workspace") == (not torch.equal(patched.function_vector[:, :d], first))
    assert torch.equal(
        iv.patch_keys(model, target=b, donor=other, layer=2),
        iv.patch(model, target=b, donor=other, what="keys", layer=2).theta_hat,
    )


@every_model
def test_the_whole_workspace_gives_the_donors_estimate(name: str) -> None:
    model, b, other = make(name), *normal(2, 5, 7, seed=1)
    patched = iv.patch_workspace(model, target=b, donor=other, layer=model.layers)
    assert torch.equal(patched, model(other))


@every_part
def test_several_layers_in_one_call(what: iv.Part) -> None:
    model, b, other = make("A"), *normal(2, 5, 7, seed=1)
    run = partial(iv.patch, model, target=b, donor=other, what=what)
    several = run(layer=[3, 1])
    assert several.theta_hat.shape == (2, 5, 7)
    for index, layer in enumerate([3, 1]):
        alone = run(layer=layer)
        same(Trace([k[index] for k in several.keys], *(part[index] for part in several[1:])), alone)


def test_all_layers_together_are_the_donors_questions() -> None:
    model, b, other = make("A"), *normal(2, 5, 7, seed=1)
    run = iv.patch(model, target=b, donor=other, what="keys", layer=layers_of(model), together=True)
    keys = model.trace(other).keys
    assert all(torch.equal(*pair) for pair in zip(run.keys, keys, strict=True))
    torch.testing.assert_close(run.function_vector, torch.einsum("bmd,bd->bm", torch.cat(keys, 1), b))


def test_one_donor_for_all() -> None:
    model, b, other = make("A"), normal(5, 7, seed=1), normal(1, 7, seed=2)
    one = iv.patch(model, target=b, donor=other, what="workspace", layer=2)
    each = iv.patch(model, target=b, donor=other.expand(5, -1), what="workspace", layer=2)
    same(one, each, 1e-6)


@every_model
def test_ablated_routers_ask_everyone_the_same(name: str) -> None:
    model, b = make(name, torch.float64), normal(30, 7, seed=1, dtype=torch.float64)
    keys = [key.mean(0) / key.mean(0).norm(dim=-1, keepdim=True) for key in model.trace(b).keys]
    expected = model.decoder(b @ torch.cat(keys).T)
    torch.testing.assert_close(iv.ablate_router(model, target=b), expected)
    one = iv.ablate_router(model, target=b, layer=1)
    torch.testing.assert_close(one, model(b))  # the first asks everyone the same anyway
    each = iv.ablate_router(model, target=b, layer=layers_of(model))
    torch.testing.assert_close(each[0], one)
    assert each.shape == (model.layers, 30, 7)


@pytest.mark.parametrize("level", range(1, 6))
def test_parting_leaves(level: int) -> None:
    tree = TreePrior(4, 0.7)
    first, other = iv.parting_leaves(tree, level, 4000, generator=seeded(0))
    signs, others = tree.signs[first], tree.signs[other]
    agree = (signs == others).double().mean(0)
    assert torch.all(agree[: level - 1] == 1)
    if level <= 4:
        assert agree[level - 1] == 0
        assert torch.all((agree[level:] - 0.5).abs() < 0.04)
        assert len(set(zip(first.tolist(), other.tolist(), strict=True))) == 16 * 2 ** (4 - level)
    else:
        assert torch.equal(first, other)


def simulated_rise(
    tree: TreePrior, budget: int, decoder: str, level: int, layer: int, n: int = 1500, noise_var: float = 1e-7
) -> tuple[float, float]:
    """The rise of the loss of the one-coordinate policy, step by step, and its standard error."""
    leaf, other = iv.parting_leaves(tree, level, n, generator=seeded(level))
    strategy, generator = policies.one_coordinate(tree), seeded(10 * level + layer)

    def run(leaf: Tensor, donor: Tensor | None) -> tuple[Tensor, Tensor]:
        """The keys of the policy, and the loss of each context."""
        keys, outcomes = tree.leaves.new_zeros(n, 0, tree.dim), tree.leaves.new_zeros(n, 0)
        belief = tree.leaves.new_zeros(n, 2**tree.levels).log_softmax(1)
        for i in range(budget):
            own = strategy(belief, keys)
            asked = donor[:, i] if donor is not None and i == layer - 1 else own
            noise = noise_var**0.5 * torch.randn(n, generator=generator, dtype=tree.dtype)
            outcome = (asked * tree.leaves[leaf]).sum(1) + noise
            keys, outcomes = (
                torch.cat([keys, own[:, None]], 1),
                torch.cat([outcomes, outcome[:, None]], 1),
            )
            belief = inference.tree_log_posterior(tree, keys, outcomes, noise_var)  # the keys, it thinks
        if decoder == "signs":
            estimate = ((outcomes.sign() * tree.amplitudes[:budget])[..., None] * keys).sum(1)
        else:
            estimate = inference.tree_mean(tree, belief)
        return keys, (estimate - tree.leaves[leaf]).square().sum(1)

    rise = run(leaf, run(other, None)[0])[1] - run(leaf, None)[1]
    return float(rise.mean()), float(rise.std()) / math.sqrt(n)


@pytest.mark.parametrize("decoder", ["bayes", "signs"])
@pytest.mark.parametrize(("levels", "decay", "budget"), [(4, 0.8, 4), (4, 0.5, 2), (3, 0.9, 3), (3, 0.6, 1)])
def test_map_of_the_one_coordinate_policy(levels: int, decay: float, budget: int, decoder: Any) -> None:
    tree = TreePrior(levels, decay, dtype=torch.float64)
    predicted = iv.one_coordinate_map(tree, budget, decoder=decoder)
    assert predicted.shape == (budget, levels + 1)
    for layer in range(1, budget + 1):
        for level in range(1, levels + 2):
            rise, error = simulated_rise(tree, budget, decoder, level, layer)
            assert abs(rise - float(predicted[layer - 1, level - 1])) < 4 * error + 1e-3, (layer, level)


@pytest.fixture(scope="module")
def trained() -> tuple[ConstrainedTransformer, TreePrior]:
    tree = TreePrior(3, 0.8)
    model = model_a(tree.dim, 3, width=32, generator=seeded(0))
    train(model, tree, TrainConfig(steps=500, batch_size=256, learning_rate=0.03), progress=False)
    return model, tree


def test_map_of_a_trained_network(trained: tuple[ConstrainedTransformer, TreePrior]) -> None:
    """Nothing changes while donor and target share the path that a key depends on, much where they do not."""
    found = iv.patching_map(*trained, 32, 0.0, n_pairs=2000, generator=seeded(1))
    assert found.increase.shape == found.standard_error.shape == (3, 4)
    assert torch.all(found.increase[0] == 0)
    assert torch.all(found.increase[:, -1].abs() < 0.03)
    assert found.increase[1, 0] > 0.3
    assert found.increase[1, 2] < 0.03
    assert found.increase[2, 0] > 0.2
    assert 0 < found.standard_error.max() < 0.03


def test_map_is_the_mean_over_pairs(trained: tuple[ConstrainedTransformer, TreePrior]) -> None:
    model, tree = trained
    found = iv.patching_map(model, tree, 32, 0.5, n_pairs=20_000, generator=seeded(1))
    leaf, other = iv.parting_leaves(tree, 1, 20_000, generator=seeded(2))
    b, b2 = (
        sample_moment(tree.leaves[one], 32, 0.5, generator=seeded(3 + i))
        for i, one in enumerate((leaf, other))
    )
    patched = iv.patch_keys(model, target=b, donor=b2, layer=[2, 3])
    with torch.no_grad():
        loss = (model(b) - tree.leaves[leaf]).square().sum(1)
    rise = ((patched - tree.leaves[leaf]).square().sum(-1) - loss).mean(1)
    assert torch.all((rise - found.increase[1:, 0]).abs() < 6 * found.standard_error[1:, 0])
    assert abs(found.base - float(loss.mean())) < 0.02


A, B = make("A"), normal(5, 7, seed=1)
RUN = A.trace(B)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "values"}, "what = 'values': must be one of keys, measured, workspace"),
        ({"layer": 0}, "layer = 0: must be an integer from 1 to 4"),
        ({"layer": 5}, "layer = 5"),
        ({"layer": 2.5}, "layer = 2.5"),
        ({"layer": []}, r"layer = \[\]: must name at least one layer"),
        ({"layer": [1, 7]}, "layer = 7"),
        ({"target": B[:, :3]}, r"b has shape \(5, 3\): must be \(any, 7\)"),
        ({"target": B.double()}, "b has dtype"),
        ({"donor": B[:, :3]}, r"b has shape \(5, 3\)"),
        ({"donor": B[:3]}, "donor has 3 contexts: must be 5, as target has, or 1"),
        ({"donor": RUN._replace(keys=RUN.keys[:2])}, "donor has the keys of 2 layers: must be 4"),
        ({"donor": make("blocks").trace(B)}, "donor has the keys of 2 layers"),
        ({"donor": RUN._replace(function_vector=B)}, r"function vector of donor has shape \(5, 7\)"),
        ({"target": (B, B[:, 0])}, r"x has shape \(5, 7\)"),
        ({"target": (normal(5, 2, 7, seed=1), B)}, r"y has shape \(5, 7\): must be \(5, 2\)"),
    ],
)
def test_bad_patches_are_refused(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"target": B, "donor": B, "what": "keys", "layer": 1}
    iv.patch(A, **good)
    with pytest.raises(ValueError, match=message):
        iv.patch(A, **good | arguments)


TREE = TreePrior(3, 0.8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iv.parting_leaves(TREE, 0, 5), "level = 0"),
        (lambda: iv.parting_leaves(TREE, 5, 5), "level = 5: must be an integer from 1 to 4"),
        (lambda: iv.parting_leaves(TREE, 1, 0), "n = 0"),
        (lambda: iv.patching_map(A, TREE, 32, 0.0, n_pairs=1), "n_pairs = 1"),
        (lambda: iv.patching_map(A, TREE, 0, 0.0), "n_tokens = 0"),
        (lambda: iv.patching_map(A, TreePrior(2, 0.8), 32, 0.0), "b has shape"),
        (lambda: iv.one_coordinate_map(TREE, 4), "budget = 4: must be an integer from 1 to 3"),
        (lambda: iv.one_coordinate_map(TREE, 2, decoder="mean"), "decoder = 'mean'"),  # type: ignore[arg-type]
        (lambda: iv.ablate_router(A, target=B, layer=9), "layer = 9"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
