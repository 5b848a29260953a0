"""The sweeps of the book, each in three sizes.

A sweep is a list of experiments with a name. The profile `smoke` takes seconds and is for tests, `book` is
what a chapter runs while you read (a minute or two on two CPUs), `paper` is what the figures of the book
show. Results of `paper` come with the book, see `Store.published`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from fvbook.experiments import Experiment
from fvbook.priors import GaussianPrior, Prior, TreePrior
from fvbook.training import TrainConfig

Profile = Literal["smoke", "book", "paper"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

_SMOKE = TrainConfig(steps=30, batch_size=32, held_out=500, learning_rate=0.03, warmup=10)
_BOOK = TrainConfig(steps=800, learning_rate=0.03)
_PAPER = TrainConfig(steps=4000, learning_rate=0.03, held_out=50_000)
_TRAIN: dict[Profile, TrainConfig] = {"smoke": _SMOKE, "book": _BOOK, "paper": _PAPER}


@dataclass(frozen=True)
class Sweep:
    """A named list of experiments.

    Attributes
    ----------
    name : str
    question : str
        What it is to answer, in one line.
    experiments : callable
        The list of experiments of a profile.
    weights : bool
        Whether the trained weights are published too.
    """

    name: str
    question: str
    experiments: Callable[[Profile], list[Experiment]]
    weights: bool = False


def _seeds(
    count: int, prior: Prior, budgets: Mapping[str, Iterable[int]], train: TrainConfig, width: int = 64
) -> list[Experiment]:
    """Each model at each of its budgets, with so many seeds."""
    return [
        Experiment(prior, model, budget, width, replace(train, seed=seed))
        for model, several in budgets.items()
        for budget in several
        for seed in range(count)
    ]


def _tree(profile: Profile) -> list[Experiment]:
    train = replace(_TRAIN[profile], n_tokens=64)
    if profile == "smoke":
        return _seeds(2, TreePrior(3, 0.6), {"A": [1, 2], "B": [2], "C": [2]}, train)
    if profile == "book":
        budgets = {"A": [1, 2, 4, 6], "B": [1, 2, 4, 8, 16], "C": [1, 2, 4, 8, 16]}
        return _seeds(2, TreePrior(6, 0.6), budgets, train)
    wide = [1, 2, 4, 8, 16, 32, 64]
    return _seeds(5, TreePrior(8, 0.6), {"A": range(1, 9), "B": wide, "C": wide}, train)


def _clean(profile: Profile) -> list[Experiment]:
    """C at hardly any noise, at budgets that fill whole levels."""
    train, levels = replace(_TRAIN[profile], n_tokens=100_000), {"smoke": 3, "book": 6, "paper": 8}[profile]
    budgets = [2**m - 1 for m in range(1, levels - 1)]
    return _seeds(1 if profile == "smoke" else 2, TreePrior(levels, 0.6), {"C": budgets}, train)


def _gaussian(profile: Profile) -> list[Experiment]:
    train = replace(_TRAIN[profile], n_tokens=64, steps=min(2000, _TRAIN[profile].steps))
    if profile == "smoke":
        return _seeds(2, GaussianPrior(4), {"A": [2], "B": [2], "C": [2]}, train)
    budgets = [1, 4, 8] if profile == "book" else [1, 2, 4, 6, 8, 12, 16]
    return _seeds(2 if profile == "book" else 5, GaussianPrior(16), dict.fromkeys("ABC", budgets), train)


def _phases(profile: Profile) -> list[Experiment]:
    decays, budgets, lengths, count = {
        "smoke": ([0.8], [2], [8, 64], 1),
        "book": ([0.8], [2, 4], [8, 32, 128], 1),
        "paper": ([0.5, 0.8], [1, 2, 3, 5], [4, 8, 16, 32, 64, 128, 256, 512], 3),
    }[profile]
    train = replace(_TRAIN[profile], steps=min(1200, _TRAIN[profile].steps))
    return [
        experiment
        for decay in decays
        for n_tokens in lengths
        for experiment in _seeds(
            count, TreePrior(5, decay), {"A": budgets, "B": budgets}, replace(train, n_tokens=n_tokens)
        )
    ]


def _noise(profile: Profile) -> list[Experiment]:
    """One noise variance of a measurement, (1 + s²)/N = 1/32, made of shorter and longer contexts."""
    pairs = {
        "smoke": [(8, 0.0)],
        "book": [(32, 0.0), (160, 2.0)],
        "paper": [(32, 0.0), (40, 0.5), (64, 1.0), (160, 2.0), (544, 4.0)],
    }[profile]
    train = replace(_TRAIN[profile], steps=min(1200, _TRAIN[profile].steps))
    return [
        experiment
        for n_tokens, noise_std in pairs
        for experiment in _seeds(
            {"smoke": 1, "book": 1, "paper": 5}[profile],
            TreePrior(5, 0.8),
            {"A": [3], "B": [3]},
            replace(train, n_tokens=n_tokens, noise_std=noise_std),
        )
    ]


def _gap(profile: Profile) -> list[Experiment]:
    """A trained for longer and longer at M = 5, and longest at smaller budgets."""
    tree, train = TreePrior(5, 0.8), _TRAIN[profile]
    if profile == "smoke":
        return _seeds(1, tree, {"A": [2]}, train)
    if profile == "book":
        return _seeds(2, tree, {"A": [5]}, replace(train, steps=1200))
    longest, rest = 12_000, [400, 1200, 4000]
    return _seeds(3, tree, {"A": range(1, 6)}, replace(train, steps=longest)) + [
        experiment
        for steps in rest
        for experiment in _seeds(3, tree, {"A": [5]}, replace(train, steps=steps))
    ]


def _recipe(profile: Profile) -> list[Experiment]:
    """A on the small tree at M = 5 and on the deep one at M = 8: other widths, batches, learning rates."""
    small, train = TreePrior(5, 0.8), _TRAIN[profile]
    if profile != "paper":
        return _seeds(1, small, {"A": [5]}, train, width=32)
    deep, slow = TreePrior(8, 0.6), replace(train, n_tokens=64, learning_rate=0.01)
    return [
        *_seeds(3, small, {"A": [5]}, train, width=32),
        *_seeds(3, small, {"A": [5]}, train, width=128),
        *_seeds(3, small, {"A": [5]}, replace(train, batch_size=128)),
        *_seeds(3, small, {"A": [5]}, replace(train, learning_rate=0.01)),
        *_seeds(2, deep, {"A": [8]}, slow, width=256),
    ]


SWEEPS = {
    sweep.name: sweep
    for sweep in [
        Sweep("tree", "How does the loss of A, B and C fall with the budget, on a deep tree?", _tree),
        Sweep("clean", "Does C follow its power law when there is hardly any noise?", _clean),
        Sweep("gaussian", "And for a Gaussian prior, where theory says that depth buys nothing?", _gaussian),
        Sweep("phases", "For which budgets and context lengths does depth pay?", _phases),
        Sweep("noise", "Do long noisy contexts act like short clean ones?", _noise),
        Sweep("gap", "How near does A come to the best strategy, and with how much training?", _gap, True),
        Sweep("recipe", "And what do width, batch and learning rate do?", _recipe),
    ]
}
"""The sweeps by name."""
