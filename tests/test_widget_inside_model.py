import base64
from typing import Any

import pytest
import torch
from scipy.special import kve
from scipy.stats import ks_2samp
from selenium.webdriver.common.keys import Keys
from torch import Tensor

from fvbook import inference, interventions, probes
from fvbook.contexts import sample_moment
from fvbook.models import ConstrainedTransformer, model_a, model_b, model_d
from fvbook.priors import TreePrior
from fvbook.widgets import InsideModel
from tests.explorables import Bench, click, drawn, get, in_browser, press, touch
from tests.small_models import seeded
from tools.browser import PHONE

TREE = TreePrior(3, 0.8)
MODEL = model_a(7, 3, width=8, generator=seeded(0))
ARGUMENTS: dict[str, Any] = {"model": MODEL, "tree": TREE, "n_tokens": 20, "noise_std": 0.5}
BROKEN = model_a(7, 3, width=8, generator=seeded(0))
with torch.no_grad():
    BROKEN.decoder.linear[0, 0] = float("nan")


def test_the_state_holds_all_that_is_drawn() -> None:
    widget = InsideModel(MODEL, TREE, 20, 0.5, leaf=3, seed=7, layer=4, donor=1, patch=2)
    state = widget.get_state()
    numbers = ("levels", "decay", "layers", "width", "n_tokens", "noise_std")
    assert [state[name] for name in numbers] == [3, 0.8, 3, 8, 20, 0.5]
    assert [state[name] for name in ("leaf", "seed", "layer", "donor", "patch")] == [3, 7, 4, 1, 2]
    weights = torch.frombuffer(bytearray(state["weights"]), dtype=torch.float32)
    assert torch.equal(weights, torch.cat([parameter.detach().flatten() for parameter in MODEL.parameters()]))
    assert repr(widget) == "InsideModel(levels=3, layers=3)"
    assert InsideModel(MODEL, TREE, 20, 0.5).donor is None


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tree.levels", {"model": model_a(63, 3, width=2), "tree": TreePrior(6, 0.8)}),
        ("model.dim = 7: must be an integer from 15", {"tree": TreePrior(4, 0.8)}),
        ("model.channels = 2", {"model": model_b(7, 2)}),
        ("model.layers = 7", {"model": model_a(7, 7, width=2)}),
        ("must have MLPs", {"model": model_d(7, 3)}),
        (
            "must have MLPs",
            {"model": ConstrainedTransformer(7, layers=2, channels=1, router_mlp=False, decoder_mlp=True)},
        ),
        ("float32", {"model": model_a(7, 3, width=2, dtype=torch.float64)}),
        ("NaN", {"model": BROKEN}),
        ("n_tokens = 3", {"n_tokens": 3}),
        ("n_tokens = 20000", {"n_tokens": 20_000}),
        ("noise_std = -1", {"noise_std": -1}),
        ("leaf = 8", {"leaf": 8}),
        ("seed = -1", {"seed": -1}),
        ("layer = 0", {"layer": 0}),
        ("layer = 5", {"layer": 5}),
        ("donor = 8", {"donor": 8}),
        ("patch = 4", {"donor": 0, "patch": 4}),
        ("patch = 2: must be 0 without a donor", {"patch": 2}),
    ],
)
def test_bad_input_is_named(name: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=name):
        InsideModel(**{**ARGUMENTS, **changes})


def test_attributes_keep_to_their_ranges() -> None:
    widget = InsideModel(MODEL, TREE, 20, 0.5, donor=1)
    widget.leaf, widget.layer, widget.patch, widget.donor = 7, 4, 3, None
    for name, value in {"leaf": 8, "seed": -1, "layer": 5, "donor": -1, "patch": 4}.items():
        with pytest.raises(ValueError, match=f"{name} = {value}"):
            setattr(widget, name, value)
    assert (widget.leaf, widget.layer, widget.patch, widget.donor) == (7, 4, 3, None)


RUNS = """
const [root, encoded, sizes, energy, moments, donors, nTokens, noiseStd, done] = arguments;
Promise.all(["network", "contexts"].map((name) => import(`${root}widgets/lib/${name}.js`)))
  .then(([{ readModel, trace, patchKeys }, { functionVectorLogPosterior }]) => {
    const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const model = readModel(new DataView(bytes.buffer), sizes);
    const layers = model.routers.map((_, i) => i + 1);
    const beliefs = ({ keys, functionVector }) => layers.map((n) =>
      functionVectorLogPosterior(energy, keys.slice(0, n), functionVector.slice(0, n), nTokens, noiseStd));
    const look = (run) => ({ ...run, beliefs: beliefs(run) });
    done(moments.map((b, i) => ({
      clean: look(trace(model, b)),
      patched: layers.map((layer) => look(patchKeys(model, b, donors[i], layer))),
    })));
  });
"""


class TestNumbers:
    pytestmark = in_browser

    def test_special_functions(self, bench: Bench) -> None:
        script = """
        const [root, xs, orders, arguments_, done] = arguments;
        import(`${root}widgets/lib/special.js`).then(({ erf, logScaledBesselK }) =>
          done([xs.map(erf), orders.map((order) => arguments_.map((x) => logScaledBesselK(order, x)))]));
        """
        x = torch.linspace(-7, 7, 701, dtype=torch.float64)
        orders = [0.5, 1.0, 1.5, 5.0, 13.5, 60.0, 500.0]
        positive = torch.logspace(-6, 6, 49, dtype=torch.float64)
        got = bench.driver.execute_async_script(script, bench.root, x.tolist(), orders, positive.tolist())
        erf, bessel = (torch.tensor(values, dtype=torch.float64) for values in got)
        torch.testing.assert_close(erf, torch.erf(x), rtol=1e-13, atol=1e-15)
        ours = torch.stack([inference._log_scaled_bessel_k(order, positive) for order in orders])
        torch.testing.assert_close(bessel, ours, rtol=1e-11, atol=1e-11)
        exact = torch.stack([torch.tensor(kve(order, positive.numpy())) for order in orders]).log()
        known = exact.isfinite() & (positive > 0.05)
        assert known.sum() > 150
        torch.testing.assert_close(bessel[known], exact[known], rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize(
        ("levels", "layers", "width", "n_tokens", "noise_std"),
        [(1, 1, 4, 2, 0.3), (3, 4, 16, 12, 0.7), (4, 6, 8, 100, 0.0), (5, 5, 64, 32, 0.0)],
    )
    def test_runs_and_beliefs_are_those_of_the_package(
        self, bench: Bench, levels: int, layers: int, width: int, n_tokens: int, noise_std: float
    ) -> None:
        tree = TreePrior(levels, 0.8, dtype=torch.float64)
        model = model_a(tree.dim, layers, width=width, generator=seeded(levels))
        with torch.no_grad():
            for parameter in model.parameters():  # biases are 0 at first
                parameter.add_(torch.randn(parameter.shape, generator=seeded(layers)), alpha=0.2)
        weights = InsideModel(model, tree, n_tokens, noise_std).weights
        model = model.double()
        leaf, other = (tree.sample_leaves(12, generator=seeded(seed)) for seed in (1, 2))
        b, donor = (
            sample_moment(tree.leaves[one], n_tokens, noise_std, generator=seeded(3 + i))
            for i, one in enumerate((leaf, other))
        )
        b[-1] *= 100
        got = bench.driver.execute_async_script(
            RUNS,
            bench.root,
            base64.b64encode(weights).decode(),
            {"dim": tree.dim, "layers": layers, "width": width},
            tree.amplitudes.square().tolist(),
            b.tolist(),
            donor.tolist(),
            n_tokens,
            noise_std,
        )

        def same(found: list[dict[str, Any]], run: Any) -> None:
            def close(name: str, expected: Tensor) -> None:
                values = torch.tensor([one[name] for one in found], dtype=torch.float64)
                torch.testing.assert_close(values, expected, rtol=1e-8, atol=1e-8)

            close("keys", torch.cat(run.keys, 1))
            close("functionVector", run.function_vector)
            close("thetaHat", run.theta_hat)
            every = range(1, layers + 1)
            beliefs = [probes.leaf_log_posterior(tree, run, layer, n_tokens, noise_std) for layer in every]
            close("beliefs", torch.stack(beliefs, 1))

        same([one["clean"] for one in got], interventions.trace(model, b))
        for layer in range(1, layers + 1):
            patched = [one["patched"][layer - 1] for one in got]
            same(patched, interventions.patch(model, target=b, donor=donor, what="keys", layer=layer))
        assert all(one["patched"][0] == one["clean"] for one in got)  # in layer 1 nothing changes, exactly

    @pytest.mark.parametrize(("n_tokens", "noise_std"), [(6, 0.0), (20, 0.8)])
    def test_moments_have_their_law(self, bench: Bench, n_tokens: int, noise_std: float) -> None:
        script = """
        const [root, theta, nTokens, noiseStd, done] = arguments;
        Promise.all(["contexts", "random"].map((name) => import(`${root}widgets/lib/${name}.js`)))
          .then(([{ sampleMoment }, { normal, uniform }]) => done(Array.from({ length: 4000 }, (_, seed) =>
            sampleMoment(theta, nTokens, noiseStd, normal(uniform(seed))))));
        """
        theta = TREE.leaves[5].double()
        got = bench.driver.execute_async_script(script, bench.root, theta.tolist(), n_tokens, noise_std)
        b = torch.tensor(got, dtype=torch.float64)
        variance = 1 + noise_std**2
        covariance = (variance * torch.eye(7, dtype=torch.float64) + torch.outer(theta, theta)) / n_tokens
        assert ((b.mean(0) - theta).abs() < 4 * (covariance.diag() / 4000).sqrt()).all()
        torch.testing.assert_close(b.T.cov(), covariance, rtol=0, atol=8 * variance / n_tokens / 4000**0.5)
        expected = sample_moment(theta.expand(4000, -1), n_tokens, noise_std, generator=seeded(0))
        for ours, package in zip(along_and_across(b, theta), along_and_across(expected, theta), strict=True):
            assert ks_2samp(ours.numpy(), package.numpy()).pvalue > 0.001


class TestInTheBrowser:
    pytestmark = in_browser

    def test_a_run_by_mouse_touch_and_keyboard(self, bench: Bench) -> None:
        widget = bench.show(InsideModel(MODEL, TREE, 20, 0.5, leaf=2))
        leaf, layer = widget.find_elements("css selector", "input")[:2]
        assert not widget.find_elements("css selector", "fieldset")[0].is_displayed()
        assert len([one for one in widget.find_elements("css selector", "svg") if one.is_displayed()]) == 1
        before = drawn(widget)
        press(leaf, Keys.ARROW_RIGHT)
        assert get(widget, "leaf") == 3
        assert drawn(widget) != before
        assert "Leaf 3: layer 1 looks mainly at node" in widget.text
        touch(layer, at=0.95)
        assert get(widget, "layer") == 4
        assert "decoded" in widget.text
        assert len(visible_rings(widget)) == 3  # θ has an entry on each level
        leaves, *cells = widget.find_elements("css selector", "svg .target")[:5]
        click(cells[1])
        assert get(widget, "layer") == 2
        assert "layer 2 looks" in widget.text
        assert visible_rings(widget) == []
        touch(leaves, at=0.99)
        assert get(widget, "leaf") == 7
        before = drawn(widget)
        press(widget.find_element("css selector", "button"), Keys.ENTER)
        assert get(widget, "seed") == 1
        assert drawn(widget) != before
        group = widget.find_element("css selector", "[role=group]")
        words = widget.find_element("css selector", "[aria-live]").get_attribute("textContent")
        assert group.get_attribute("aria-label") == words
        assert bench.errors() == []

    def test_a_patch_comes_and_goes(self, bench: Bench) -> None:
        widget = bench.show(InsideModel(MODEL, TREE, 20, 0.5, leaf=2, layer=2, donor=5))
        _, _, donor, off, _, second, _ = widget.find_elements("css selector", "input")
        assert "No layer is patched" in widget.text
        clean, same = outcome(widget)
        assert clean == same
        click(second)
        assert get(widget, "patch") == 2
        patched = (
            "With the key of a context of leaf 5, whose path parts at level 1, in layer 2: layer 2 looks"
        )
        assert patched in widget.text
        assert outcome(widget)[0] == clean
        assert outcome(widget)[1] != clean
        before = outcome(widget)
        press(donor, Keys.ARROW_RIGHT)
        assert get(widget, "donor") == 6
        assert outcome(widget) != before
        press(second, Keys.ARROW_LEFT)
        assert get(widget, "patch") == 1
        assert outcome(widget) == [clean, clean]  # layer 1
        touch(off)
        assert get(widget, "patch") == 0
        assert outcome(widget) == [clean, clean]
        assert bench.errors() == []

    def test_it_follows_the_kernel(self, bench: Bench) -> None:
        widget = bench.show(InsideModel(MODEL, TREE, 20, 0.5))
        bench.driver.execute_async_script(
            """
            const [element, done] = arguments;
            element.model.set({ donor: 7, patch: 3, layer: 3 });
            requestAnimationFrame(() => requestAnimationFrame(() => done()));
            """,
            widget,
        )
        assert "of leaf 7, whose path parts at level 1, in layer 3" in widget.text
        assert bench.errors() == []

    def test_dark_narrow_and_without_motion(self, bench: Bench) -> None:
        example = InsideModel(MODEL, TREE, 20, 0.5, layer=2, donor=5, patch=2)
        widget = bench.show(example, theme="dark", size=PHONE, still=True)
        script = (
            "return [...arguments[0].querySelectorAll('*')].map((el) => el.getBoundingClientRect().right)"
        )
        assert max(bench.driver.execute_script(script, widget)) <= PHONE[0]
        clean, patched = widget.find_elements("css selector", "svg")
        assert patched.rect["y"] > clean.rect["y"] + clean.rect["height"]  # one below the other
        script = "return parseFloat(getComputedStyle(arguments[0]).fontSize) * arguments[0].getCTM().a"
        for text in clean.find_elements("css selector", "text"):
            assert bench.driver.execute_script(script, text) >= 11
        assert bench.errors() == []


def along_and_across(b: Tensor, theta: Tensor) -> list[Tensor]:
    """The part of moments along θ, |θ| = 1, their length, and the cosine of the angle between."""
    along, length = b @ theta, b.norm(dim=1)
    return [along, length, along / length]


def visible_rings(widget: Any) -> list[Any]:
    """The rings, drawn for the entries of θ, of the clean run."""
    drawing = widget.find_element("css selector", "svg")
    rings = drawing.find_elements("css selector", ".ring")
    assert {ring.value_of_css_property("fill") for ring in rings} == {"none"}
    return [ring for ring in rings if ring.get_attribute("r") != "0"]


def outcome(widget: Any) -> list[list[str]]:
    """The sizes of all discs and bars, and the numbers, of both runs."""
    script = """
    return [...arguments[0].querySelectorAll("svg")].map((drawing) => [
      ...[...drawing.querySelectorAll("circle")].map((el) => el.getAttribute("r")),
      ...[...drawing.querySelectorAll("rect")].map((el) => el.getAttribute("height")),
      ...[...drawing.querySelectorAll("text")].map((el) => el.textContent),
    ]);
    """
    return list(widget.parent.execute_script(script, widget))
