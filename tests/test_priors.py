import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from fvbook.priors import GaussianPrior, Prior, TreePrior

TREES = [(1, 0.5), (2, 0.3), (3, 0.999), (5, 0.8), (8, 1e-3), (12, 0.7)]
PRIORS: list[Callable[..., Prior]] = [
    lambda **options: GaussianPrior(1, **options),
    lambda **options: GaussianPrior(13, **options),
    lambda **options: TreePrior(1, 0.5, **options),
    lambda **options: TreePrior(4, 0.7, **options),
]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dim", [1, 2, 13])
def test_gaussian_moments(dim: int) -> None:
    """E θ = 0 and E θθᵀ = I/D, so E|θ|² = 1; every entry within 5 standard errors."""
    prior = GaussianPrior(dim, dtype=torch.float64)
    n = 100_000
    theta = prior.sample(n, generator=seeded(0))
    products = theta[:, :, None] * theta[:, None, :]
    for values, expected in [(theta, torch.zeros(dim)), (products, torch.eye(dim) / dim)]:
        z = (values.mean(0) - expected) / values.std(0) * n**0.5
        assert float(z.abs().max()) < 5
    torch.testing.assert_close(prior.variances.sum().item(), 1.0)


@pytest.mark.parametrize(("levels", "decay"), TREES)
def test_tree_is_the_code_of_its_leaves(levels: int, decay: float) -> None:
    """Each leaf is built again, one step at a time, from the words of the definition."""
    tree = TreePrior(levels, decay, dtype=torch.float64)
    shares = [decay**k * (1 - decay) / (1 - decay**levels) for k in range(levels)]
    assert tree.dim == 2**levels - 1
    assert tree.amplitudes.tolist() == pytest.approx([share**0.5 for share in shares], rel=1e-9)
    assert tree.leaves.shape == (2**levels, tree.dim)
    for leaf in {0, 1, 2**levels // 3, 2**levels - 2, 2**levels - 1}:
        node, theta = 0, [0.0] * tree.dim
        for level, bit in enumerate(f"{leaf:0{levels}b}"):  # most significant bit first
            assert tree.paths[leaf, level] == node
            assert tree.node_levels[node] == level + 1
            sign = 1 if bit == "0" else -1
            assert tree.signs[leaf, level] == sign
            theta[node] = sign * float(tree.amplitudes[level])
            node = 2 * node + (1 if sign > 0 else 2)
        assert tree.leaves[leaf].tolist() == theta


@pytest.mark.parametrize(("levels", "decay"), TREES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tree_moments(levels: int, decay: float, dtype: torch.dtype) -> None:
    """Over all leaves: unit rows, mean zero, and a diagonal covariance with the stated variances."""
    tree = TreePrior(levels, decay, dtype=dtype)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        tree.leaves.norm(dim=1), torch.ones(2**levels, dtype=dtype), rtol=0, atol=4 * eps
    )
    assert len({tuple(row) for row in tree.leaves.sign().tolist()}) == 2**levels
    if levels < 12:
        assert float(tree.leaves.double().mean(0).abs().max()) < 1e-15
        covariance = tree.leaves.T.double() @ tree.leaves.double() / 2**levels
        scale = tree.variances.double().sqrt()
        correlation = covariance / torch.outer(scale, scale)
        torch.testing.assert_close(correlation, torch.eye(tree.dim).double(), rtol=0, atol=100 * eps)
    assert float(tree.variances.sum()) == pytest.approx(1, abs=1e-6)
    assert bool((tree.amplitudes.diff() < 0).all())


def test_tree_node_levels() -> None:
    assert TreePrior(3, 0.5).node_levels.tolist() == [1, 2, 2, 3, 3, 3, 3]
    counts = TreePrior(12, 0.5).node_levels.bincount().tolist()
    assert counts == [0] + [2**k for k in range(12)]


def test_tree_known_values() -> None:
    """K = 2, α = 1/2: a² = 2/3, 1/3."""
    tree = TreePrior(2, 0.5, dtype=torch.float64)
    a, b = (2 / 3) ** 0.5, (1 / 3) ** 0.5
    leaves = [[a, b, 0], [a, -b, 0], [-a, 0, b], [-a, 0, -b]]
    torch.testing.assert_close(tree.leaves, torch.tensor(leaves, dtype=torch.float64))
    assert tree.paths.tolist() == [[0, 1], [0, 1], [0, 2], [0, 2]]


def test_tree_samples_leaves_uniformly() -> None:
    tree, n = TreePrior(3, 0.5), 80_000
    counts = tree.sample_leaves(n, generator=seeded(0)).bincount(minlength=8).double()
    chi_square = float(((counts - n / 8) ** 2 / (n / 8)).sum())  # 7 degrees of freedom
    assert chi_square < 24.3  # passed by chance with probability 0.999
    theta = tree.sample(50, generator=seeded(1))
    leaf = tree.sample_leaves(50, generator=seeded(1))
    assert torch.equal(theta, tree.leaves[leaf])


@pytest.mark.parametrize("make", PRIORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sample_uses_the_generator_alone(make: Callable[..., Prior], dtype: torch.dtype) -> None:
    prior = make(dtype=dtype)
    before = torch.get_rng_state()
    first, again, other = (prior.sample(20, generator=seeded(seed)) for seed in [3, 3, 4])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (20, prior.dim)
    assert first.dtype == prior.variances.dtype == dtype
    generator = seeded(5)
    assert not torch.equal(prior.sample(20, generator=generator), prior.sample(20, generator=generator))


@pytest.mark.parametrize("make", PRIORS)
def test_sample_without_a_generator_follows_the_global_seed(make: Callable[..., Prior]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = make().sample(9)
        torch.manual_seed(0)
        assert torch.equal(make().sample(9), first)


@pytest.mark.parametrize("make", PRIORS)
def test_device_is_named_as_tensors_name_it(make: Callable[..., Prior]) -> None:
    """As "cuda" is cuda:0 to a tensor, so "cpu:0" is cpu."""
    prior = make(device="cpu:0")
    assert prior.device == prior.sample(1).device == prior.variances.device
    assert make(device="meta").sample(2).device.type == "meta"


def test_repr_tells_priors_apart() -> None:
    assert repr(GaussianPrior(3)) == "GaussianPrior(dim=3)"
    assert repr(TreePrior(np.int64(3), np.float64(0.1))) == "TreePrior(levels=3, decay=0.1)"


@pytest.mark.parametrize("make", PRIORS)
def test_equal_priors_are_one_value(make: Callable[..., Prior]) -> None:
    prior = make()
    assert prior == make(dtype=torch.float32, device="cpu:0")
    assert hash(prior) == hash(make())
    assert len({prior, make(), make(dtype=torch.float64), make(device="meta")}) == 3
    assert {prior: "found"}[make()] == "found"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (GaussianPrior(3), GaussianPrior(4)),
        (GaussianPrior(3), TreePrior(2, 0.5)),
        (TreePrior(2, 0.5), TreePrior(3, 0.5)),
        (TreePrior(2, 0.5), TreePrior(2, math.nextafter(0.5, 1))),
        (TreePrior(2, 0.5), TreePrior(2, 0.5, dtype=torch.float64)),
        (TreePrior(2, 0.5), TreePrior(2, 0.5, device="meta")),
        (GaussianPrior(3), "GaussianPrior(dim=3)"),
        (GaussianPrior(3), None),
    ],
    ids=str,
)
def test_priors_that_differ(one: Prior, other: object) -> None:
    assert one != other
    assert other != one


@pytest.mark.parametrize("make", PRIORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prior_moves_to_a_device_and_back(make: Callable[..., Prior], dtype: torch.dtype) -> None:
    prior = make(dtype=dtype)
    away = prior.to("meta")
    assert away == make(dtype=dtype, device="meta")
    assert away.sample(2).device.type == away.variances.device.type == "meta"
    assert prior.device.type == "cpu"
    back = away.to(torch.device("cpu"))
    assert back == prior
    assert torch.equal(back.sample(9, generator=seeded(0)), prior.sample(9, generator=seeded(0)))


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: GaussianPrior(0), "dim = 0: must be an integer ≥ 1"),
        (lambda: GaussianPrior(3.0), "dim = 3.0: must be an integer ≥ 1"),  # type: ignore[arg-type]
        (lambda: TreePrior(0, 0.5), "levels = 0: must be an integer from 1 to 12"),
        (lambda: TreePrior(13, 0.5), "levels = 13: must be an integer from 1 to 12"),
        (lambda: TreePrior(2.5, 0.5), "levels = 2.5: must be an integer"),  # type: ignore[arg-type]
        (lambda: TreePrior(3, 0.0), "decay = 0.0: must be a finite number in (0, 1)"),
        (lambda: TreePrior(3, 1), "decay = 1: must be a finite number in (0, 1)"),
        (lambda: TreePrior(3, -0.2), "decay = -0.2: must be a finite number in (0, 1)"),
        (lambda: TreePrior(3, math.nan), "decay = nan: must be a finite number in (0, 1)"),
        (lambda: TreePrior(3, "0.5"), "decay = '0.5': must be a finite number in (0, 1)"),  # type: ignore[arg-type]
        (lambda: GaussianPrior(2).sample(0), "n = 0: must be an integer ≥ 1"),
        (lambda: TreePrior(2, 0.5).sample(-1), "n = -1: must be an integer ≥ 1"),
        (lambda: TreePrior(2, 0.5).sample_leaves(1.5), "n = 1.5: must be an integer ≥ 1"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        call()
