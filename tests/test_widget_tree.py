"""What explorables compute of trees equals what the package computes."""

import pytest
import torch

from fvbook import inference
from fvbook.priors import TreePrior
from tests.explorables import Bench, in_browser

pytestmark = in_browser
TREES = [(1, 0.5), (3, 0.8), (5, 0.8), (6, 0.35)]


@pytest.mark.parametrize(("levels", "decay"), TREES)
def test_tree_and_beliefs_are_those_of_the_package(bench: Bench, levels: int, decay: float) -> None:
    tree = TreePrior(levels, decay, dtype=torch.float64)
    generator = torch.Generator().manual_seed(levels)
    shares = bench.call("lib/tree.js", "shares", levels, decay)
    torch.testing.assert_close(torch.tensor(shares, dtype=torch.float64), tree.amplitudes**2)

    keys = torch.randn(4, tree.dim, generator=generator, dtype=torch.float64)
    outcomes = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    for leaf in (0, 2**levels - 1, 2**levels // 3):
        found = bench.call("lib/tree.js", "path", levels, leaf)
        assert found == {"nodes": tree.paths[leaf].tolist(), "signs": tree.signs[leaf].tolist()}
        theta = bench.call("lib/tree.js", "code", shares, leaf)
        torch.testing.assert_close(torch.tensor(theta, dtype=torch.float64), tree.leaves[leaf])

    def same(function: str, expected: torch.Tensor, *arguments: object) -> None:
        found = torch.tensor(bench.call("lib/tree.js", function, *arguments), dtype=torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)

    same("projections", inference.leaf_projections(tree, keys[0]), shares, keys[0].tolist())
    for noise_var in (2.0, 0.05):
        belief = inference.tree_log_posterior(tree, keys, outcomes, noise_var)[0]
        same("logPosterior", belief, shares, keys.tolist(), outcomes[0].tolist(), noise_var)
        chances = belief.exp().tolist()
        same("mean", inference.tree_mean(tree, belief), shares, chances)
        same("risk", inference.tree_risk(tree, belief), shares, chances)
        reach = bench.call("lib/tree.js", "reach", chances)
        flat = torch.tensor([p for row in reach[:-1] for p in row], dtype=torch.float64)
        torch.testing.assert_close(flat, inference.tree_reach(tree, belief), rtol=1e-8, atol=1e-10)


def test_random_numbers_have_their_moments(bench: Bench) -> None:
    script = """
    const [root, done] = arguments;
    import(`${root}widgets/lib/random.js`).then(({ chiSquared, normal, uniform }) => {
      const gauss = normal(uniform(7));
      const draw = (make) => Array.from({ length: 20000 }, make);
      done([draw(uniform(1)), draw(gauss), draw(() => chiSquared(5, gauss))]);
    });
    """
    samples = torch.tensor(bench.driver.execute_async_script(script, bench.root), dtype=torch.float64)
    expected = torch.tensor([[0.5, 1 / 12], [0.0, 1.0], [5.0, 10.0]], dtype=torch.float64)
    fourth = torch.tensor([1 / 80, 3.0, 2 * 10.0**2 + 12 * 20.0], dtype=torch.float64)
    error = (expected[:, 1] / 20000).sqrt()
    assert ((samples.mean(1) - expected[:, 0]).abs() < 4 * error).all()
    assert ((samples.var(1) - expected[:, 1]).abs() < 4 * (fourth / 20000).sqrt()).all()
