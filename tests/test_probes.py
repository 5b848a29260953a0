import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fvbook import probes
from fvbook.contexts import sample_moment
from fvbook.inference import function_vector_log_posterior
from fvbook.interventions import trace
from fvbook.models import ConstrainedTransformer, Trace
from fvbook.policies import fixed, largest_variance
from fvbook.priors import TreePrior
from tests.small_models import seeded, small

TREE = TreePrior(3, 0.8, dtype=torch.float64)
NAMES = ("A", "B", "C", "D", "blocks")


def make(name: str) -> ConstrainedTransformer:
    return small(name, torch.float64).requires_grad_(False)


def contexts(n: int, n_tokens: int = 32, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Leaves and moments."""
    leaf = TREE.sample_leaves(n, generator=seeded(seed))
    return leaf, sample_moment(TREE.leaves[leaf], n_tokens, 0.3, generator=seeded(seed + 1))


def along_the_path(leaf: Tensor, flipped: bool = False, noise_std: float = 0.02) -> Trace:
    """A run that measures the nodes of the path; flipped: with −k at every second node of a level."""
    keys, nodes = [], TREE.paths[leaf]
    for level in range(TREE.levels):
        key = torch.nn.functional.one_hot(nodes[:, level], TREE.dim).double()
        keys.append(((1 - 2 * (nodes[:, level, None] % 2) * flipped) * key)[:, None])
    noise = noise_std * torch.randn(len(leaf), TREE.levels, generator=seeded(5), dtype=torch.float64)
    phi = (torch.cat(keys, 1) * TREE.leaves[leaf][:, None]).sum(2) + noise
    return Trace(keys, phi, TREE.leaves[leaf])


def test_key_energy_by_hand() -> None:
    leaf = torch.tensor([0, 5])  # paths 0, 1, 3 and 0, 2, 5
    keys = torch.zeros(2, 2, 7, dtype=torch.float64)
    keys[0, 0, [0, 1]] = 0.5**0.5  # on the path, levels 1 and 2
    keys[0, 1, 4] = 1  # off, level 3
    keys[1, 0, 2] = 1  # on, level 2
    keys[1, 1, [1, 5]] = 0.5**0.5  # off, level 2; on, level 3
    energy = probes.key_energy(TREE, Trace([keys], keys[..., 0], keys[:, 0]), leaf)
    on, off = [0.5, 1.5, 0.5], [0, 0.5, 1]
    torch.testing.assert_close(energy.on, torch.tensor([on], dtype=torch.float64) / 4)
    torch.testing.assert_close(energy.off, torch.tensor([off], dtype=torch.float64) / 4)


@pytest.mark.parametrize("name", NAMES)
def test_key_energy_is_all_there_is(name: str) -> None:
    leaf, b = contexts(40)
    energy = probes.key_energy(TREE, make(name).trace(b), leaf)
    torch.testing.assert_close((energy.on + energy.off).sum(1), torch.ones_like(energy.on[:, 0]))
    assert torch.all(energy.on > 0)
    assert torch.all(energy.off[:, 0] == 0), "the root is on every path"


def test_readouts_of_one_level_after_another() -> None:
    """Sign k is read from layer k on and guessed before; in a flipping run by branch alone."""
    leaf = TREE.sample_leaves(4000, generator=seeded(1))
    read = torch.ones(3, 3, dtype=torch.float64).tril().bool()
    run, flipped = along_the_path(leaf), along_the_path(leaf, flipped=True)
    for table in (
        probes.linear_readout(TREE, run, leaf),
        probes.linear_readout(TREE, run, leaf, by_branch=True),
        probes.linear_readout(TREE, flipped, leaf, by_branch=True),
        probes.bayes_readout(TREE, run, leaf, 1000, 0.0),
        probes.bayes_readout(TREE, flipped, leaf, 1000, 0.0),
    ):
        assert torch.all(table[read] > 0.999)
        assert torch.all((table[~read] - 0.5).abs() < 0.05)
    table = probes.linear_readout(TREE, flipped, leaf)
    assert torch.all(table[:, 0] > 0.999)
    assert torch.all((table[:, 1:] - 0.5).abs() < 0.3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by_branch", [False, True])
def test_no_readout_beats_bayes(name: str, by_branch: bool) -> None:
    """By branch a probe is told the signs above, so there it is held against Bayes at sign 1 alone."""
    leaf, b = contexts(20_000)
    run = make(name).trace(b)
    bayes = probes.bayes_readout(TREE, run, leaf, 32, 0.3)
    linear = probes.linear_readout(TREE, run, leaf, by_branch=by_branch)
    assert bayes.shape == linear.shape == (len(run.keys), 3)
    signs = 1 if by_branch else 3
    assert torch.all((linear - bayes)[:, :signs] < 3 * 0.5 * (1 / 10_000 + 1 / 20_000) ** 0.5)
    assert torch.all(bayes.diff(dim=0) > -0.02), "more of Φ tells more"


def test_leaf_posterior_of_the_first_layers() -> None:
    _, b = contexts(20)
    run = make("blocks").trace(b)
    prior = probes.leaf_log_posterior(TREE, run, 0, 32, 0.3)
    torch.testing.assert_close(prior.exp(), torch.full((20, 8), 1 / 8, dtype=torch.float64))
    for layer in (1, 2):
        keys, phi = torch.cat(run.keys, 1)[:, : 2 * layer], run.function_vector[:, : 2 * layer]
        expected = function_vector_log_posterior(TREE, keys, phi, 32, 0.3)
        torch.testing.assert_close(probes.leaf_log_posterior(TREE, run, layer, 32, 0.3), expected)


def test_principal_components() -> None:
    root = torch.randn(4, 4, generator=seeded(1), dtype=torch.float64)
    phi = torch.randn(500, 4, generator=seeded(2), dtype=torch.float64) @ root + 3
    found = probes.principal_components(phi, 4)
    centred = phi - phi.mean(0)
    torch.testing.assert_close(found.scores @ found.directions, centred)
    torch.testing.assert_close(found.directions @ found.directions.T, torch.eye(4, dtype=torch.float64))
    energies = torch.linalg.svdvals(centred) ** 2
    torch.testing.assert_close(found.shares, energies / energies.sum())
    torch.testing.assert_close((found.scores**2).sum(0), energies)
    assert torch.all(found.directions.max(1).values >= -found.directions.min(1).values)
    two = probes.principal_components(phi)
    torch.testing.assert_close(two.scores, found.scores[:, :2])


def test_key_similarity() -> None:
    """1 for the network's own questions, up to sign and to what the earlier keys tell; 0 at right angles."""
    _, b = contexts(30)
    run = make("A").trace(b)

    def own(_: Tensor, used: Tensor) -> Tensor:
        return 3 * used.sum(1) - 2 * run.keys[used.shape[1]][:, 0]

    ones = torch.ones(4, 30, dtype=torch.float64)
    torch.testing.assert_close(probes.key_similarity(TREE, run, own, 32, 0.3), ones)

    def across(_: Tensor, used: Tensor) -> Tensor:
        keys = torch.cat(run.keys[: used.shape[1] + 1], 1)
        return torch.linalg.svd(keys, full_matrices=True).Vh[:, -1]

    assert torch.all(probes.key_similarity(TREE, run, across, 32, 0.3) < 1e-6)


def test_key_similarity_is_told_the_belief() -> None:
    leaf = TREE.sample_leaves(200, generator=seeded(1))
    greedy = largest_variance(TREE)
    similarity = probes.key_similarity(
        TREE, along_the_path(leaf), lambda belief, used: greedy(belief, used[:, :0]), 1000, 0.0
    )
    torch.testing.assert_close(similarity, torch.ones(3, 200, dtype=torch.float64))
    wrong = probes.key_similarity(TREE, along_the_path(leaf), fixed(torch.eye(7).double()[4:]), 1000, 0.0)
    assert torch.all(wrong[:2] == 0)


@pytest.mark.parametrize("layer", [1, 2, 3, 4])
@pytest.mark.parametrize("tokens", [False, True])
def test_null_direction(layer: int, tokens: bool) -> None:
    model, direction = make("A"), torch.arange(1.0, layer + 1, dtype=torch.float64)
    x = torch.randn(20, 9, 7, generator=seeded(1), dtype=torch.float64)
    context = (x, x[..., 0] - x[..., 3]) if tokens else x[:, 0]
    run = trace(model, context)
    nulled = probes.null_direction(model, context, direction, layer=layer)
    before, after = run.function_vector[:, :layer], nulled.function_vector[:, :layer]
    along = after @ direction
    torch.testing.assert_close(along, (before @ direction).mean().expand(20))
    moved = after - before
    torch.testing.assert_close(moved, (moved @ direction)[:, None] * direction / (direction @ direction))
    for index in range(layer):
        assert torch.equal(nulled.keys[index], run.keys[index])
    for index in range(layer, 4):
        assert not torch.equal(nulled.keys[index], run.keys[index])
    again = probes.null_direction(model, context, -5 * direction, layer=layer)
    torch.testing.assert_close(again.theta_hat, nulled.theta_hat)


@pytest.mark.parametrize("name", NAMES)
def test_who_reads_what(name: str) -> None:
    model, (_, b) = make(name), contexts(30)
    table = probes.who_reads_what(model, b)
    layer = torch.arange(model.layers)[:, None]
    visible = torch.arange(4) < layer * model.channels
    assert table.shape == (model.layers, 4)
    assert torch.all(table[~visible] == 0)
    assert torch.all((table[visible] > 0) if name in ("A", "blocks") else (table[visible] == 0))
    assert table.max() <= 2


def test_who_reads_what_sees_a_deaf_router() -> None:
    model, (_, b) = make("A"), contexts(30)
    model.get_parameter("routers.2.mlp.0.weight")[:, 1] = 0  # layer 3 does not hear φ_2
    table = probes.who_reads_what(model, b)
    assert table[2, 1] == 0
    assert table[2, 0] > 0
    first = b @ model.routers[0](b[:1, :0])[0].T  # φ_1
    keys = [model.routers[1](phi)[:, 0] for phi in (first, first.mean(0).expand(30, 1))]
    expected = 1 - (keys[0] * keys[1]).sum(1).mean()
    assert math.isclose(float(table[1, 0]), float(expected), rel_tol=1e-9)


LEAF, B = contexts(40)
RUN = make("A").trace(B)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probes.key_energy(TREE, RUN, LEAF[:3]), r"leaf has shape \(3,\)"),
        (lambda: probes.key_energy(TREE, RUN, LEAF.double()), "dtype torch.float64"),
        (lambda: probes.key_energy(TreePrior(2, 0.8), RUN, LEAF), "keys of length 7: must be 3"),
        (lambda: probes.bayes_readout(TreePrior(2, 0.8), RUN, LEAF, 32, 0.0), "keys of length 7"),
        (lambda: probes.bayes_readout(TREE, RUN, LEAF, 4, 0.0), "n_tokens = 4"),
        (lambda: probes.bayes_readout(TREE, RUN, LEAF, 32, -1.0), "noise_std = -1"),
        (
            lambda: probes.linear_readout(TREE, RUN, LEAF, by_branch=True),
            r"a probe of level 2 \d contexts to fit: must leave 10 or more",
        ),
        (
            lambda: probes.leaf_log_posterior(TREE, RUN, 5, 32, 0.0),
            "layer = 5: must be an integer from 0 to 4",
        ),
        (lambda: probes.principal_components(B[0]), r"phi has shape \(7,\)"),
        (lambda: probes.principal_components(B, 8), "count = 8"),
        (lambda: probes.principal_components(B[:1]), "the number of vectors = 1"),
        (
            lambda: probes.key_similarity(TREE, make("blocks").trace(B), fixed(B), 32, 0.0),
            "channels of the run = 2",
        ),
        (
            lambda: probes.key_similarity(TREE, RUN, lambda belief, used: belief, 32, 0.0),
            r"the strategy returned shape \(40, 8\): must be \(40, 7\)",
        ),
        (lambda: probes.null_direction(make("A"), B, B[0, :2], layer=5), "layer = 5"),
        (lambda: probes.null_direction(make("A"), B, B[0, :2], layer=1), r"direction has shape \(2,\)"),
        (
            lambda: probes.null_direction(make("A"), B, 0 * B[0, :2], layer=2),
            "direction = 0: must have a length",
        ),
        (lambda: probes.who_reads_what(make("A"), B[:, :2]), "b has shape"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
