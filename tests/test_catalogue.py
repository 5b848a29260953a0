import math
from dataclasses import asdict

import pytest

from fvbook.catalogue import PROFILES, SWEEPS, Profile, Sweep
from fvbook.experiments import Experiment
from fvbook.sweeps import ensembles

ALL = [(sweep, profile) for sweep in SWEEPS.values() for profile in PROFILES]


def test_sweeps_are_found_by_name() -> None:
    assert PROFILES == ("smoke", "book", "paper")
    assert all(sweep.name == name for name, sweep in SWEEPS.items())
    assert {"tree", "gaussian", "phases"} <= set(SWEEPS)
    assert all(sweep.question.endswith("?") and "\n" not in sweep.question for sweep in SWEEPS.values())


@pytest.mark.parametrize(("sweep", "profile"), ALL, ids=str)
def test_sweep_is_a_list_of_distinct_experiments(sweep: Sweep, profile: Profile) -> None:
    """Distinct, the same at each call, and with the seeds 0, 1, ... of each setting."""
    experiments = sweep.experiments(profile)
    assert experiments
    assert len(set(experiments)) == len(experiments)
    assert sweep.experiments(profile) == experiments
    assert all(Experiment.from_dict(e.as_dict()) == e for e in experiments)
    for group in ensembles(experiments):
        assert [e.seed for e in group] == list(range(len(group)))


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=str)
def test_profiles_grow(sweep: Sweep) -> None:
    smoke, book, paper = (sweep.experiments(profile) for profile in PROFILES)
    assert len(smoke) <= len(book) <= len(paper)
    costs = [sum(e.cost() for e in experiments) for experiments in (smoke, book, paper)]
    assert costs[0] < costs[1] / 50
    assert costs[1] < costs[2]
    assert {e.model for e in smoke} <= {e.model for e in book} <= {e.model for e in paper}


def test_noise_sweep_keeps_the_noise_of_a_measurement() -> None:
    for profile in PROFILES[1:]:
        trains = [e.train for e in SWEEPS["noise"].experiments(profile)]
        variances = {(1 + train.noise_std**2) / train.n_tokens for train in trains}
        assert max(variances) == pytest.approx(min(variances))
        assert len({train.n_tokens for train in trains}) > 1


def test_experiments_are_finite_and_comparable() -> None:
    """Within a sweep and profile, what is trained differs in what the sweep is about alone."""
    for sweep, profile in ALL:
        trains = [asdict(e.train) for e in sweep.experiments(profile)]
        for name in ["batch_size", "learning_rate", "warmup", "held_out", "steps"]:
            assert len({train[name] for train in trains}) == 1
        assert all(math.isfinite(e.cost()) for e in sweep.experiments(profile))
