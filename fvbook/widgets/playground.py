"""Controls in front of `fvbook.playground`: choose, train with progress, stop, go on, compare, export."""

import atexit
import html
import re
import threading
import time
from typing import Any

import ipywidgets as widgets

from fvbook import playground
from fvbook.experiments import MODELS, Experiment
from fvbook.figures import to_svg
from fvbook.playground import LiveRun

_TICK = 0.5  # seconds of training between two updates of what is shown
_LABELS = {
    "Task": {
        "prior": "prior", "levels": "levels K", "decay": "decay α", "dim": "dimension D",
        "n_tokens": "tokens N", "noise_std": "noise s",
    },
    "Network": {"model": "model", "budget": "budget M", "width": "width"},
    "Training": {
        "steps": "steps", "batch_size": "batch size", "learning_rate": "learning rate", "seed": "seed",
    },
}  # fmt: skip
_CHOICES = {"prior": [("tree", "tree"), ("Gaussian", "gaussian")], "model": list(MODELS)}
_OF_PRIOR = {"levels": "tree", "decay": "tree", "dim": "gaussian"}
_DEFAULTS: dict[str, Any] = playground.read_settings.__kwdefaults__ or {}


class Playground(widgets.VBox):  # type: ignore[misc]
    """Train the book's models on settings of your own and compare the runs with theory, in a notebook.

    Training has a thread of its own, so that the buttons, and other cells, work meanwhile; what is shown
    follows it twice a second. One run trains at a time; a stopped run can go on later.

    Parameters
    ----------
    **settings
        What the controls show first: arguments of `playground.read_settings`.

    Attributes
    ----------
    controls : dict of str to widget
        By the names of those arguments.
    buttons : dict of str to Button
        "train", "stop", "go on", "remove".
    picker : ipywidgets.Dropdown
        Its value is the selected run: to go on with, to remove, to compare with theory, to export.
    runs : list of LiveRun
        In the order in which they were started.

    Raises
    ------
    ValueError
        If the settings are not those of an experiment.
    """

    def __init__(self, **settings: Any) -> None:
        for name, value in settings.items():
            if name not in _DEFAULTS:
                raise ValueError(f"{name} = {value!r}: is no setting, must be one of {', '.join(_DEFAULTS)}")
        playground.read_settings(**settings)
        self.runs: list[LiveRun] = []
        self._training: LiveRun | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._lock = threading.RLock()  # for what both the training thread and the handlers change

        labels = {name: label for row in _LABELS.values() for name, label in row.items()}
        values = _DEFAULTS | settings
        self.controls = {name: _control(name, label, values[name]) for name, label in labels.items()}
        self._messages = {name: widgets.HTML() for name in labels}
        self._cells = {
            name: _column(self.controls[name], self._messages[name], width="13em") for name in labels
        }
        self._forecast, self._status = widgets.HTML(), widgets.HTML()
        handlers = {"train": self._train, "stop": self._halt, "go on": self._go_on, "remove": self._remove}
        self.buttons = {name: widgets.Button(description=name.capitalize()) for name in handlers}
        self.buttons["train"].button_style = "primary"
        self._bar = widgets.FloatProgress(max=1.0, description="progress")
        self._picture, self._table, self._links, self._code = (widgets.HTML() for _ in range(4))
        self.picker = widgets.Dropdown(
            description="run", layout=widgets.Layout(width="25em", max_width="100%")
        )
        self._results = _column(
            self._picture, _row(self.picker, self.buttons["remove"]), self._table, self._links, self._code
        )
        rows = []
        for title, row in _LABELS.items():
            rows += [widgets.HTML(f"<b>{title}</b>"), _row(*(self._cells[name] for name in row))]
        work = _row(*(self.buttons[name] for name in ("train", "stop", "go on")), self._bar)
        super().__init__([*rows, self._forecast, work, self._status, self._results])

        self.picker.observe(self._picked, "value")
        for control in self.controls.values():
            control.observe(self._settings_changed, "value")
        for name, handler in handlers.items():
            self.buttons[name].on_click(handler)
        atexit.register(self._leave)
        self._settings_changed()
        self._list(None)

    @property
    def state(self) -> str:
        """Where the work stands: "idle" (nothing to do), "training", "stopped" or "failed".

        The last two speak of the selected run.
        """
        run = self.picker.value
        if self._training:
            return "training"
        if run and run.failure:
            return "failed"
        return "stopped" if run and not run.done else "idle"

    def wait(self, seconds: float | None = None) -> None:
        """Return when no run is training any more, or after so many seconds."""
        if self._thread:
            self._thread.join(seconds)

    def __repr__(self) -> str:
        return f"Playground(runs={len(self.runs)}, state={self.state!r})"

    def _read(self) -> Experiment | None:
        """What the controls mean; if it is no experiment, the reason appears beside the control it names."""
        for message in self._messages.values():
            message.value = ""
        try:
            return playground.read_settings(**{name: each.value for name, each in self.controls.items()})
        except ValueError as error:
            name = re.match(r"\w*", str(error))
            message = self._messages.get(name.group() if name else "", self._forecast)
            message.value = f'<span role="alert">{html.escape(str(error))}</span>'
            return None

    def _settings_changed(self, _: Any = None) -> None:
        with self._lock:
            for name, prior in _OF_PRIOR.items():
                shown = self.controls["prior"].value == prior
                self._cells[name].layout.display = None if shown else "none"
            self._forecast.value = ""
            if experiment := self._read():
                self._forecast.value = playground.forecast(experiment)

    def _picked(self, _: Any) -> None:
        with self._lock:
            self._show()

    def _train(self, _: Any) -> None:
        with self._lock:
            if not self._training and (experiment := self._read()):
                self._status.value = "Starting…"  # the first run of a session loads parts of torch
                self.runs.append(LiveRun(experiment))
                self._start(self.runs[-1])

    def _go_on(self, _: Any) -> None:
        with self._lock:
            if self.state == "stopped":
                self._start(self.picker.value)

    def _halt(self, _: Any) -> None:
        self._stop.set()

    def _remove(self, _: Any) -> None:
        with self._lock:
            run = self.picker.value
            if run and run is not self._training:
                self.runs.remove(run)
                self._list(self.runs[-1] if self.runs else None)

    def _start(self, run: LiveRun) -> None:
        self._stop.clear()
        self._training = run
        self._list(run)
        self._thread = threading.Thread(target=self._work, args=(run,), name="playground", daemon=True)
        self._thread.start()

    def _work(self, run: LiveRun) -> None:
        """Train a run until it is done, stopped or fails: the body of the thread."""
        try:
            tick = _TICK
            while not run.done and not self._stop.is_set():
                run.advance(tick, self._stop)
                start = time.perf_counter()
                with self._lock:
                    self._show()
                tick = max(_TICK, 4 * (time.perf_counter() - start))  # on a slow machine train, do not draw
            run.measure()
        except Exception as error:  # raised in a thread it would reach nobody: the reader is told
            run.failure = str(error)
        with self._lock:
            self._training = None
            self._show()

    def _leave(self) -> None:
        """End the thread before the interpreter ends."""
        self._stop.set()
        self.wait(5)

    def _list(self, selected: LiveRun | None) -> None:
        """Put the runs into the picker, select one and show it."""
        self.picker.unobserve(self._picked, "value")
        self.picker.options = [(f"{number}: {run}", run) for number, run in enumerate(self.runs, 1)]
        self.picker.value = selected
        self.picker.observe(self._picked, "value")
        self._show()

    def _show(self) -> None:
        """Bring everything below the settings up to date."""
        state, chosen, training = self.state, self.picker.value, self._training
        self.buttons["train"].disabled = state == "training"
        self.buttons["stop"].disabled = state != "training"
        self.buttons["go on"].disabled = state != "stopped"
        self.buttons["remove"].disabled = chosen in (None, training)
        self._results.layout.display = None if chosen else "none"
        current = training or chosen
        if not chosen or not current:
            self._bar.value, self._status.value = 0, "No run yet."
            return
        self._bar.value = current.step / current.experiment.train.steps
        text = f"Run {self.runs.index(current) + 1}: {playground.progress(current)}"
        self._status.value = html.escape(text)
        self._table.value = playground.table(self.runs)
        selected = self.runs.index(chosen)
        if training:  # no files of a figure that is about to change
            figure, words = (
                playground.comparison(self.runs, selected),
                playground.describe(self.runs, selected),
            )
            self._picture.value = to_svg(figure, alt=words)
            self._links.value = self._code.value = ""
            return
        files = playground.files(self.runs, selected)
        self._picture.value = files["playground.svg"][1].decode()
        links = (playground.data_link(name, *file) for name, file in files.items())
        self._links.value = f"Download: {', '.join(links)}"
        self._code.value = playground.code_block(chosen.experiment)


def _control(name: str, label: str, value: Any) -> Any:
    """The control of a setting; its default says whether that is a choice, a real or a whole number."""
    options: dict[str, Any] = {"description": label, "value": value, "style": {"description_width": "6.5em"}}
    options["layout"] = widgets.Layout(width="auto")
    if name in _CHOICES:
        return widgets.Dropdown(options=_CHOICES[name], **options)
    return (widgets.FloatText if isinstance(_DEFAULTS[name], float) else widgets.IntText)(**options)


def _row(*children: Any) -> Any:
    return widgets.Box(children, layout=widgets.Layout(flex_flow="row wrap", align_items="flex-start"))


def _column(*children: Any, width: str | None = None) -> Any:
    return widgets.VBox(children, layout=widgets.Layout(width=width, max_width="100%"))
