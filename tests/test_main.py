import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import save_file

import fvbook
from fvbook import store
from fvbook.__main__ import main
from fvbook.catalogue import SWEEPS, Profile, Sweep
from fvbook.experiments import Experiment
from fvbook.priors import TreePrior
from fvbook.store import Store
from fvbook.training import TrainConfig

TINY = TrainConfig(n_tokens=8, steps=6, batch_size=8, held_out=50, warmup=2)
GOOD = [Experiment(TreePrior(2, 0.6), model, 1, 4, TINY).with_seed(s) for model in "BA" for s in range(2)]
GUILTY = Experiment(TreePrior(2, 0.6), "C", 1, 4, TrainConfig(steps=6, learning_rate=1e20, warmup=0))

Call = Callable[..., Result]


def few(profile: Profile) -> list[Experiment]:
    return GOOD[:2] if profile == "smoke" else GOOD


def mixed(profile: Profile) -> list[Experiment]:
    return [GOOD[0], GUILTY, GUILTY.with_seed(4)]


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The default store, with sweeps of two names made small."""
    monkeypatch.setenv("FVBOOK_STORE", str(tmp_path / "the store"))
    monkeypatch.setitem(SWEEPS, "tree", Sweep("tree", "Is it quick?", few))
    monkeypatch.setitem(SWEEPS, "noise", Sweep("noise", "Does it fail?", mixed))
    return Store()


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run(*arguments: object, name: str = "tree") -> Result:
    return call("run", name, "--workers", 1, *arguments)


def test_help_of_the_real_command() -> None:
    command = [sys.executable, "-m", "fvbook", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: python -m fvbook [OPTIONS] COMMAND [ARGS]...")
    assert "\n  Examples:\n    python -m fvbook list\n    python -m fvbook run tree" in done.stdout
    assert "\\b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", [[], ["list"], ["run"], ["status"], ["export"]])
def test_help(command: list[str]) -> None:
    for flag in ["-h", "--help"]:
        result = call(*command, flag)
        assert result.exit_code == 0
        assert "Usage:" in result.stdout


def test_list(box: Store) -> None:
    lines = call("list").stdout.splitlines()
    assert lines[:2] == ["tree       Is it quick?", "           runs: smoke 2, book 4, paper 4"]
    assert [line.split()[0] for line in lines[::2]] == list(SWEEPS)
    assert not box.root.exists()


def test_run_computes_once(box: Store) -> None:
    first = run("--profile", "smoke")
    assert (first.exit_code, first.exception) == (0, None)
    row, summary = first.stdout.splitlines()
    assert summary == f"2 of 2 results computed now, kept in {box.root}"
    losses = [result.loss for result in map(box.get, GOOD[:2]) if result is not None]
    mean, spread = sum(losses) / 2, abs(losses[0] - losses[1]) / 2
    assert row == f"{mean:.4f} ± {spread:.4f}  {GOOD[0]}"
    again = run("--profile", "smoke")
    assert again.stdout.splitlines() == [row, f"0 of 2 results computed now, kept in {box.root}"]
    larger = run()  # `book`
    assert larger.stdout.splitlines()[1:] == [row, f"2 of 4 results computed now, kept in {box.root}"]


def test_run_in_processes_and_in_another_folder(box: Store, tmp_path: Path) -> None:
    other = tmp_path / "an other.json"
    result = call("run", "tree", "--store", other, "--workers", 2, "--device", "cpu")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"4 of 4 results computed now, kept in {other}"
    assert not box.root.exists()
    assert len(Store(other).survey().current) == 2


def test_run_with_failures(box: Store) -> None:
    for computed in [1, 0]:
        result = run(name="noise")
        assert result.exit_code == 1
        row, summary = result.stdout.splitlines()
        assert re.fullmatch(rf"\d\.\d{{4}}  {re.escape(str(GOOD[0]))}", row)  # one seed: no spread
        assert summary == f"{computed} of 3 results computed now, kept in {box.root}"
        line = result.stderr.splitlines()[-1]
        assert line.startswith(f"failed: {GUILTY} (seeds [0, 4]): FloatingPointError: the training loss")


def test_status(box: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    head, records = f"store: {box.root}", "  records: {} current, {} by other code or versions"
    assert call("status").stdout.splitlines() == [head, records.format(0, 0)]
    assert not box.root.exists()
    run("--profile", "smoke")
    shares = [
        "  tree       smoke  2 of 2 results",
        "  tree       book   2 of 4 results",
        "  tree       paper  2 of 4 results",
        *(f"  noise      {profile:6s} 1 of 3 results" for profile in ["smoke", "book", "paper"]),
    ]
    assert call("status").stdout.splitlines() == [head, *shares, records.format(1, 0)]

    checkpoint = box.checkpoint(GOOD[2:])
    save_file({"x": torch.zeros(1)}, checkpoint)
    (box.root / "notes.txt").write_text("mine")
    (path,) = box.survey().current
    content = path.read_bytes()
    path.write_bytes(content[:100])
    with pytest.warns(UserWarning, match="is damaged"):
        result = call("status")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:3] == [head, records.format(0, 0), f"  unfinished: {checkpoint.name}"]
    damaged, foreign = result.stdout.splitlines()[3:]
    assert damaged.startswith(f"  damaged: {path.name}: ")
    assert "JSONDecodeError" in damaged
    assert foreign == "  not of the store, left alone: notes.txt"

    path.write_bytes(content)
    monkeypatch.setattr(store, "code_version", lambda: "other")
    assert call("status", "--store", box.root).stdout.splitlines()[:2] == [head, records.format(0, 1)]


@pytest.mark.parametrize("weights", [True, False])
def test_export(weights: bool, box: Store, tmp_path: Path) -> None:
    run()
    target, flags = tmp_path / "to be published", ["--weights"] if weights else []
    result = call("export", "tree", target, "--profile", "paper", *flags)
    assert (result.exit_code, result.stdout) == (0, f"2 records copied to {target}\n")
    for experiment in GOOD:
        ours, theirs = box.get(experiment), Store(target).get(experiment)
        assert ours is not None
        assert theirs is not None
        assert (theirs.loss, theirs.history) == (ours.loss, ours.history)
        assert (theirs.weights is not None) is weights


def test_export_of_what_is_not_there(box: Store, tmp_path: Path) -> None:
    run("--profile", "smoke")
    result = call("export", "tree", tmp_path / "target")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: experiments holds A, M=1")
    assert "run it first" in result.stderr
    same = call("export", "tree", box.root, "--profile", "smoke")
    assert (same.exit_code, "must be another folder" in same.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["run"], 2, "Missing argument 'NAME'"),
        (["run", "forest"], 2, "'forest' is not one of 'tree', '"),
        (["run", "tree", "--profile", "poster"], 2, "'poster' is not one of 'smoke', 'book', 'paper'"),
        (["run", "tree", "--workers", "0"], 2, "0 is not in the range x>=1"),
        (["run", "tree", "--device", "tpu"], 2, "'tpu' is not one of 'cpu', 'cuda', 'auto'"),
        (
            ["run", "tree", "--scheduler", "tcp://x:1", "--workers", "2"],
            2,
            "--workers is the cluster's affair",
        ),
        (["run", "tree", "--scheduler", "nowhere:"], 1, "no scheduler at nowhere:"),
        (["status", "--store", __file__], 2, "is a file"),
        (["export", "tree"], 2, "Missing argument 'TARGET'"),
        (["walk"], 2, "No such command 'walk'"),
    ],
)
def test_bad_call(arguments: list[str], code: int, complaint: str, box: Store) -> None:
    result = call(*arguments)
    assert result.exit_code == code
    assert complaint in " ".join(result.stderr.split())
    assert not box.root.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_device_that_is_not_there(box: Store) -> None:
    result = run("--device", "cuda")
    assert result.exit_code == 1
    assert "device = 'cuda': must be 'auto' or 'cpu' here" in result.stderr


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_scheduler(box: Store) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
    ) as cluster:
        result = call("run", "tree", "--scheduler", cluster.scheduler_address)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"4 of 4 results computed now, kept in {box.root}"


def test_scheduler_without_dask(box: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = call("run", "tree", "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert 'needs Dask, the extra "cluster"' in result.stderr


def test_version() -> None:
    result = call("--version")
    assert (result.exit_code, result.stdout.split()[-1]) == (0, fvbook.__version__)
