"""The playground: its plain functions, and the controls in front of them, moved by program."""

import base64
import html
import io
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib import image

from fvbook import playground, theory
from fvbook.experiments import Experiment
from fvbook.playground import LiveRun, code, read_settings, theory_lines
from fvbook.priors import GaussianPrior, TreePrior
from fvbook.training import TrainConfig, train
from fvbook.widgets.playground import Playground

TINY: dict[str, Any] = {"levels": 2, "budget": 2, "width": 4, "steps": 20, "batch_size": 8}
LONG = TINY | {"steps": 20_000}
TREE_LINES = [
    "prior knowledge", "best linear", "one coordinate at a time", "bound, fixed keys", "bound, all keys",
]  # fmt: skip


def finished(**settings: Any) -> LiveRun:
    return playground.finish(read_settings(**TINY | settings))


@pytest.mark.parametrize(
    ("settings", "experiment"),
    [
        (TINY, Experiment(TreePrior(2, 0.8), "A", 2, 4, TrainConfig(32, 0.0, 20, 8, 0, 0.03))),
        (
            {"prior": "gaussian", "dim": 5, "model": "C", "n_tokens": 7, "noise_std": 2, "seed": 3,
             "learning_rate": 0.1, "levels": 99, "decay": 7},
            Experiment(GaussianPrior(5), "C", 5, 64, TrainConfig(7, 2.0, 600, 256, 3, 0.1)),
        ),
    ],
)  # fmt: skip
def test_settings_mean_an_experiment(settings: dict[str, Any], experiment: Experiment) -> None:
    assert read_settings(**settings) == experiment


BAD: list[tuple[dict[str, Any], str]] = [
    ({"prior": "flat"}, "prior = 'flat'"),
    ({"levels": 7}, "levels = 7: must be an integer from 1 to 6"),
    ({"levels": 0}, "levels = 0"),
    ({"decay": 1.0}, r"decay = 1.0: must be a finite number in \(0, 1\)"),
    ({"prior": "gaussian", "dim": 64}, "dim = 64: must be an integer from 1 to 63"),
    ({"n_tokens": 0}, "n_tokens = 0"),
    ({"noise_std": -1.0}, "noise_std = -1.0"),
    ({"model": "E"}, "model = 'E'"),
    ({"budget": 4}, "budget = 4: must be an integer from 1 to 3"),
    ({"levels": 6, "budget": 33}, "budget = 33: must be an integer from 1 to 32"),
    ({"width": 257}, "width = 257: must be an integer from 1 to 256"),
    ({"steps": 20_001}, "steps = 20001"),
    ({"batch_size": 1025}, "batch_size = 1025"),
    ({"learning_rate": 0.0}, "learning_rate = 0.0"),
    ({"seed": -1}, "seed = -1"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message):
        read_settings(**TINY | settings)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({}, TREE_LINES),
        ({"n_tokens": 4, "noise_std": 2.0, "budget": 3}, TREE_LINES),
        ({"prior": "gaussian", "dim": 4}, TREE_LINES[:2]),
    ],
)
def test_lines_are_those_of_theory(settings: dict[str, Any], labels: list[str]) -> None:
    experiment = read_settings(**TINY | settings)
    prior, config, lines = experiment.prior, experiment.train, theory_lines(experiment)
    assert list(lines) == labels
    arguments = experiment.budget, config.n_tokens, config.noise_std
    assert lines["prior knowledge"] == 1
    assert lines["best linear"] == float(theory.linear_mmse(prior, *arguments))
    if isinstance(prior, TreePrior):
        noise_var = (1 + config.noise_std**2) / config.n_tokens
        assert lines["one coordinate at a time"] == float(
            theory.one_coordinate_mmse(prior, experiment.budget)
        )
        assert lines["bound, all keys"] == float(theory.lower_bound(prior, experiment.budget, noise_var))
        bound = theory.nonadaptive_lower_bound(prior, experiment.budget, noise_var)
        assert lines["bound, fixed keys"] == float(bound)
    for label, loss in lines.items():
        assert f"{label} {loss:.3f}" in playground.forecast(experiment)


def test_curves_are_those_of_theory() -> None:
    budgets, curves = playground.theory_curves(3, 0.5, 16, 1.0)
    assert budgets == list(range(1, 8))
    assert curves["best linear"].equal(theory.linear_mmse(TreePrior(3, 0.5), budgets, 16, 1.0))
    assert curves["one coordinate at a time"].equal(theory.one_coordinate_mmse(TreePrior(3, 0.5), budgets))


@pytest.mark.parametrize(
    "settings",
    [{}, {"model": "B", "noise_std": 0.5, "seed": 3}, {"prior": "gaussian", "dim": 3, "model": "D"}],
)
def test_code_reproduces_a_run_that_was_stopped_and_went_on(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    run = LiveRun(read_settings(**TINY | settings))
    while not run.done:
        run.advance(0.0)
        run.measure()
    names: dict[str, Any] = {}
    exec(code(run.experiment), names)
    assert names["experiment"] == run.experiment
    assert names["result"].loss == run.loss
    assert names["result"].standard_error == run.standard_error
    assert names["result"].history.equal(run.history)
    assert capsys.readouterr().out == f"held-out loss {run.loss:.4f} ± {run.standard_error:.4f}\n"


def test_a_live_run_takes_steps_when_told() -> None:
    run = LiveRun(read_settings(**TINY))
    assert (run.step, run.done, run.loss, run.time_left) == (0, False, None, float("inf"))
    assert run.history.shape == (0, 2)
    assert playground.progress(run) == "step 0 of 20"
    run.advance(0.0)
    assert run.step == 1
    assert 0 < run.time_left < float("inf")
    assert re.fullmatch(r"step 1 of 20, about \d+ s left", playground.progress(run))
    before = [weight.clone() for weight in run.model.parameters()]
    run.measure()
    assert any(not old.equal(new) for old, new in zip(before, run.model.parameters(), strict=True))
    assert playground.progress(run).startswith("stopped at step 1 of 20, held-out loss ")
    run.advance(float("inf"))
    assert run.done
    assert run.loss is None, "that of step 1 is no longer true"
    run.measure()
    assert playground.progress(run).startswith("done, held-out loss ")
    run.advance(1.0)
    assert run.step == 20
    assert str(run) == "A, M=2, tree K=2 α=0.8, N=32"
    assert str(finished(prior="gaussian", dim=3, noise_std=0.5)) == "A, M=2, Gaussian D=3, N=32 s=0.5"


def test_a_diverging_run_says_so() -> None:
    run = LiveRun(read_settings(**TINY | {"learning_rate": 1e30}))
    with pytest.raises(FloatingPointError, match="learning rate below"):
        run.advance(float("inf"))


def test_comparison_shows_every_run_and_the_selected_theory() -> None:
    alike = [finished(), finished(model="B"), LiveRun(read_settings(**TINY))]
    for runs, selected, title in [
        (alike, 0, ""),
        ([*alike, finished(budget=1)], 0, "theory for the setting of run 1"),
        ([*alike, finished(budget=1)], -1, "theory for the setting of run 4"),
    ]:
        (legend,) = playground.comparison(runs, selected).legends
        assert legend.get_title().get_text() == title
        lines = theory_lines(runs[selected].experiment)
        expected = [f"{label}, {loss:.3f}" for label, loss in lines.items()]
        expected += [f"{number}: {run}" for number, run in enumerate(runs, 1)]
        assert [text.get_text() for text in legend.get_texts()] == expected
        words = playground.describe(runs, selected)
        for number, run in enumerate(runs, 1):
            assert f"run {number} ({run}) {playground.progress(run)}" in words
    with pytest.raises(ValueError, match="runs"):
        playground.comparison([])


def test_table_holds_runs_and_theory() -> None:
    runs = [finished(seed=7), finished(prior="gaussian", dim=3), LiveRun(read_settings(**TINY))]
    rows = [re.findall(r"<t[dh][^>]*>([^<]*)", row) for row in playground.table(runs).split("<tr>")[1:]]
    assert rows[0] == ["run", "seed", "steps", "held-out loss", *TREE_LINES[1:]]
    assert rows[1][:3] == ["1: A, M=2, tree K=2 α=0.8, N=32", "7", "20"]
    assert rows[1][3] == f"{runs[0].loss:.4f} ± {runs[0].standard_error:.4f}"
    assert rows[1][4:] == [f"{theory_lines(runs[0].experiment)[label]:.4f}" for label in TREE_LINES[1:]]
    assert rows[2][5:] == ["", "", ""]
    assert rows[3][2:4] == ["0 of 20", ""]


def test_files_can_be_downloaded_and_read() -> None:
    runs = [finished(), finished(model="C")]
    files = playground.files(runs, 1)
    assert [kind for kind, _ in files.values()] == ["image/svg+xml", "image/png", "text/x-python"]
    assert files["playground.svg"][1].startswith(b"<svg ")
    pixels = image.imread(io.BytesIO(files["playground.png"][1]))
    assert pixels.shape[1] > 1000
    assert np.allclose(pixels[0, 0], 1), "opaque white"
    assert files["playground.py"][1].decode() == code(runs[1].experiment)
    link = playground.data_link("a & b.txt", "text/plain", b"\x00\xff")
    found = re.fullmatch(r'<a download="a &amp; b.txt" href="data:text/plain;base64,(\S+)" .*</a>', link)
    assert found
    assert base64.b64decode(found.group(1)) == b"\x00\xff"


# The controls


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[..., Playground]:
    """Make playgrounds whose threads end with the test."""

    def made(**settings: Any) -> Playground:
        board = Playground(**settings)

        def halt() -> None:
            board.buttons["stop"].click()
            board.wait()

        request.addfinalizer(halt)
        return board

    return made


def enabled(board: Playground) -> set[str]:
    return {name for name, button in board.buttons.items() if not button.disabled}


def cell(board: Playground, name: str) -> Any:
    """The box of a control and its message."""
    boxes = [box for row in board.children for box in getattr(row, "children", ())]
    (found,) = [box for box in boxes if board.controls[name] in getattr(box, "children", ())]
    return found


def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("not within half a minute")


def html_of(board: Playground) -> str:
    """All text that a playground shows, down to the last box."""

    def walk(widget: Any) -> list[str]:
        if widget.layout.display == "none":
            return []
        parts = [part for child in getattr(widget, "children", ()) for part in walk(child)]
        return [*parts, str(getattr(widget, "value", ""))]

    return "\n".join(walk(board))


def test_idle_training_idle(make: Callable[..., Playground]) -> None:
    board = make(**TINY)
    assert (board.state, enabled(board), board.runs) == ("idle", {"train"}, [])
    assert repr(board) == "Playground(runs=0, state='idle')"
    assert "No run yet." in html_of(board)
    assert playground.forecast(read_settings(**TINY)) in html_of(board)
    board.buttons["train"].click()
    board.wait()
    (run,) = board.runs
    assert (board.state, enabled(board), run.done) == ("idle", {"train", "remove"}, True)
    assert run.experiment == read_settings(**TINY)
    expected = train(run.experiment.build(), run.experiment.prior, run.experiment.train, progress=False)
    assert run.loss == expected.loss
    shown = html_of(board)
    assert f"Run 1: {playground.progress(run)}" in shown
    assert "<svg " in shown
    assert shown.count("<a download=") == 3
    assert "TreePrior(levels=2, decay=0.8)" in shown


def test_training_stopped_training_on(make: Callable[..., Playground]) -> None:
    board = make(**LONG)
    board.buttons["train"].click()
    assert (board.state, enabled(board)) == ("training", {"stop"})
    assert "<a download=" not in html_of(board)
    board.buttons["train"].click()  # one run at a time
    board.buttons["go on"].click()
    board.buttons["remove"].click()  # not under way
    (run,) = board.runs
    until(lambda: run.step > 0)
    board.buttons["stop"].click()
    board.wait()
    assert (board.state, enabled(board)) == ("stopped", {"train", "go on", "remove"})
    at = run.step
    assert 0 < at < 20_000
    assert f"stopped at step {at} of 20000" in html_of(board)
    board.buttons["go on"].click()
    assert (board.state, enabled(board)) == ("training", {"stop"})
    until(lambda: run.step > at)
    board.buttons["stop"].click()
    board.wait()
    assert at < run.step < 20_000
    assert board.runs == [run]


def test_what_is_shown_follows_the_training(make: Callable[..., Playground]) -> None:
    board = make(**LONG)
    board.buttons["train"].click()
    seen: set[str] = set()

    def moved() -> bool:
        seen.update(re.findall(r"Run 1: step (\d+) of 20000, about \d+ s left", html_of(board)))
        return len(seen) > 1

    until(moved)


def test_runs_are_compared_and_removed(make: Callable[..., Playground]) -> None:
    board = make(**TINY)
    for model in "ABC":
        board.controls["model"].value = model
        board.buttons["train"].click()
        board.wait()
    first, second, third = board.runs
    assert [run.experiment.model for run in board.runs] == ["A", "B", "C"]
    assert board.picker.value is third
    board.picker.value = second
    assert f"Run 2: {playground.progress(second)}" in html_of(board)
    assert html.escape(code(second.experiment)) in html_of(board)
    board.buttons["remove"].click()
    assert board.runs == [first, third]
    assert board.picker.value is third
    assert [label for label, _ in board.picker.options] == [f"1: {first}", f"2: {third}"]
    board.buttons["remove"].click()
    board.buttons["remove"].click()
    assert (board.runs, board.state, enabled(board)) == ([], "idle", {"train"})
    assert "<svg " not in html_of(board)
    board.buttons["train"].click()
    board.wait()
    assert len(board.runs) == 1


def test_a_failed_run_is_told_and_can_be_removed(make: Callable[..., Playground]) -> None:
    board = make(**TINY | {"learning_rate": 1e30})
    board.buttons["train"].click()
    board.wait()
    assert (board.state, enabled(board)) == ("failed", {"train", "remove"})
    assert "failed: the training loss is not finite" in html_of(board)
    board.controls["learning_rate"].value = 0.01
    board.buttons["train"].click()
    board.wait()
    assert board.state == "idle"
    board.picker.value = board.runs[0]
    assert board.state == "failed"


CHOSEN = {"prior", "model"}  # from a list that holds no bad value


@pytest.mark.parametrize(("settings", "message"), [case for case in BAD if not CHOSEN & set(case[0])])
def test_a_bad_setting_is_answered_beside_its_control(
    settings: dict[str, Any], message: str, make: Callable[..., Playground]
) -> None:
    board = make(**TINY)
    for name, value in settings.items():
        board.controls[name].value = value
    name = list(settings)[-1]
    message_box = cell(board, name).children[1]
    assert re.search(">" + message, message_box.value), "the message is in the control's own box"
    assert 'role="alert"' in message_box.value
    board.buttons["train"].click()
    assert (board.state, board.runs) == ("idle", [])
    for name in settings:
        board.controls[name].value = (
            (read_settings.__kwdefaults__ or {})[name] if name not in TINY else TINY[name]
        )
    assert "must be" not in html_of(board)


@pytest.mark.parametrize(("prior", "shown"), [("tree", ["levels", "decay"]), ("gaussian", ["dim"])])
def test_only_the_controls_of_the_prior_are_shown(
    prior: str, shown: list[str], make: Callable[..., Playground]
) -> None:
    board = make(**TINY)
    board.controls["prior"].value = prior
    names = ["levels", "decay", "dim"]
    assert [name for name in names if cell(board, name).layout.display != "none"] == shown


def test_every_control_has_a_visible_label(make: Callable[..., Playground]) -> None:
    board = make(**TINY)
    for control in [*board.controls.values(), *board.buttons.values(), board.picker]:
        assert control.description


@pytest.mark.parametrize(("settings", "message"), [*BAD, ({"colour": 1}, "colour = 1: is no setting")])
def test_bad_first_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message):
        Playground(**TINY | settings)
