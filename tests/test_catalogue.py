import math
from pathlib import Path

import pytest

from fvbook.catalogue import PROFILES, SWEEPS, Profile, Sweep
from fvbook.experiments import Experiment
from fvbook.store import Store
from fvbook.sweeps import ensembles, run_sweep

ALL = [(sweep, profile) for sweep in SWEEPS.values() for profile in PROFILES]


def test_sweeps_are_found_by_name() -> None:
    assert PROFILES == ("smoke", "book", "paper")
    assert all(sweep.name == name for name, sweep in SWEEPS.items())
    assert {"tree", "gaussian", "phases"} <= set(SWEEPS)
    assert all(sweep.question.endswith("?") and "\n" not in sweep.question for sweep in SWEEPS.values())


@pytest.mark.parametrize(("sweep", "profile"), ALL, ids=lambda value: getattr(value, "name", value))
def test_sweep_is_a_list_of_distinct_experiments(sweep: Sweep, profile: Profile) -> None:
    """Distinct, the same at each call, and with the seeds 0, 1, ... of each setting."""
    experiments = sweep.experiments(profile)
    assert experiments
    assert len(set(experiments)) == len(experiments)
    assert sweep.experiments(profile) == experiments
    assert all(Experiment.from_dict(e.as_dict()) == e for e in experiments)
    for group in ensembles(experiments):
        assert [e.seed for e in group] == list(range(len(group)))


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=lambda sweep: sweep.name)
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


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=lambda sweep: sweep.name)
def test_smoke_runs(sweep: Sweep, tmp_path: Path) -> None:
    experiments = sweep.experiments("smoke")
    report = run_sweep(experiments, Store(tmp_path), workers=1, device="cpu", progress=False)
    assert (report.failures, report.computed) == ([], len(experiments))
    assert all(result is not None and math.isfinite(result.loss) for result in report.results)


def test_published_results_are_whole() -> None:
    """Every paper experiment has a result, nothing is damaged or does not belong, and all is small."""
    store = Store.published()
    survey = store.survey()
    assert (survey.damaged, survey.foreign, survey.unfinished) == ({}, [], [])
    listed = {e for sweep in SWEEPS.values() for e in sweep.experiments("paper")}
    assert [str(e) for e in listed if store.find(e) is None] == []
    assert len(survey.current + survey.outdated) == len(ensembles(list(listed)))
    assert sum(path.stat().st_size for path in store.root.rglob("*") if path.is_file()) < 5e6
