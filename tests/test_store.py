import inspect
import json
import math
import multiprocessing
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from fvbook import _check, contexts, experiments, models, priors, store, training
from fvbook.experiments import Experiment, Result, run_ensemble
from fvbook.priors import GaussianPrior, TreePrior
from fvbook.store import Store, Survey, code_version
from fvbook.sweeps import run_sweep
from fvbook.training import TrainConfig, held_out_loss

SHORT = TrainConfig(n_tokens=8, steps=6, batch_size=8, held_out=50, warmup=2)
BASE = Experiment(TreePrior(2, 0.6), "A", 2, 4, SHORT)
PAIR = [BASE.with_seed(1), BASE]
PLAIN_CODE_VERSION = code_version()


@pytest.fixture
def box(tmp_path: Path) -> Store:
    """An empty store, in a folder not there yet whose name is no easy one."""
    return Store(tmp_path / "a [b] *.c" / "d e.json")


def fill(target: Store, experiments: list[Experiment] = PAIR) -> Path:
    return target.put(run_ensemble(experiments, progress=False))


def same(one: Result | None, other: Result | None) -> bool:
    """Bit for bit, weights too."""
    if one is None or other is None:
        return False
    ours, theirs = one.weights or {}, other.weights or {}
    return (
        replace(one, weights=None) == replace(other, weights=None)
        and set(ours) == set(theirs)
        and all(torch.equal(ours[name], theirs[name]) for name in ours)
    )


def by_other_code(monkeypatch: pytest.MonkeyPatch, version: str = "0123456789abcdef") -> None:
    monkeypatch.setattr(store, "code_version", lambda: version)


@pytest.mark.parametrize(
    "experiment",
    [
        BASE,
        replace(BASE, prior=GaussianPrior(3, dtype=torch.float64)),
        replace(BASE, model="B").with_seed(2**63 - 1),
        replace(BASE, model="C", prior=TreePrior(2, 1e-7)),
        replace(BASE, model="D", train=replace(SHORT, noise_std=1 / 3)),
    ],
    ids=str,
)
def test_what_was_put_is_got(box: Store, experiment: Experiment) -> None:
    """Digits, weights and provenance; the model gives its loss again."""
    assert box.get(experiment) is box.find(experiment) is None
    assert box.survey() == Survey()
    assert not box.root.exists()
    results = run_ensemble([experiment, experiment.with_seed(5)], progress=False)
    path = box.put(results)
    for result in results:
        got = Store(box.root).get(result.experiment)
        assert got is not None
        assert same(got, result)
        assert same(box.find(result.experiment), result)
        again = held_out_loss(got.load_model(), got.experiment.prior, got.experiment.train)
        assert again == (result.loss, result.standard_error)
    assert box.get(experiment.with_seed(6)) is None
    assert box.get(replace(experiment, width=5)) is None
    assert box.survey() == Survey(current=[path])
    weights = path.with_suffix(".safetensors")
    assert sorted(file for file in box.root.rglob("*") if file.is_file()) == [path, weights]


def test_names_say_what_they_hold(box: Store) -> None:
    seeds = [2**63 - 1 - seed for seed in range(8)]  # as long as a name gets
    paths = [fill(box), fill(box, [replace(BASE, model="C", prior=GaussianPrior(3))])]
    paths.append(fill(box, [BASE.with_seed(seed) for seed in seeds]))
    names = [
        r"A2-tree2-[0-9a-f]{16}-[0-9a-f]{8}-1\.0\.json",
        r"C2-gaussian3-[0-9a-f]{16}-[0-9a-f]{8}-0\.json",
    ]
    names.append(r"A2-tree2-[0-9a-f]{16}-[0-9a-f]{8}-" + re.escape(".".join(map(str, seeds))) + r"\.json")
    for path, name in zip(paths, names, strict=True):
        assert re.fullmatch(name, path.name)
        assert len(path.with_suffix(".safetensors.draft").name) < 255
    assert paths[0].name.rsplit("-", 1)[0] == paths[2].name.rsplit("-", 1)[0]


def test_record_is_plain_json(box: Store) -> None:
    path = fill(box)
    document = json.loads(path.read_text())
    assert list(document) == ["format", "experiment", "code", "provenance", "results", "weights", "checksum"]
    assert document["code"] == code_version()
    assert document["experiment"] == BASE.as_dict()
    assert [result["seed"] for result in document["results"]] == [1, 0]
    stacked = load_file(path.with_suffix(".safetensors"))
    assert {name.split(".")[0] for name in stacked} == {"0", "1"}
    assert len(path.read_text().splitlines()) == len(document) + 2


def test_weights_need_not_be_kept(box: Store) -> None:
    results = [replace(result, weights=None) for result in run_ensemble(PAIR, progress=False)]
    path = box.put(results)
    assert not path.with_suffix(".safetensors").exists()
    assert same(box.get(BASE), results[1])


def test_loss_that_is_no_number(box: Store) -> None:
    (result,) = run_ensemble([BASE], progress=False)
    box.put([replace(result, loss=math.inf, standard_error=math.nan)])
    got = box.get(BASE)
    assert got is not None
    assert (got.loss, str(got.standard_error)) == (math.inf, "nan")


def test_results_by_other_code_are_found_but_not_got(box: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fill(box)
    first = box.get(BASE)
    by_other_code(monkeypatch)
    assert box.get(BASE) is None
    assert same(box.find(BASE), first)
    assert box.survey() == Survey(outdated=[old])
    later = [
        replace(result, provenance=result.provenance | {"date": "2999-01-01T00:00:00+00:00"})
        for result in run_ensemble(PAIR, progress=False)
    ]
    new = box.put(later)
    assert box.survey() == Survey(current=[new], outdated=[old])
    assert same(box.get(BASE), later[1])
    monkeypatch.setattr(store, "code_version", lambda: PLAIN_CODE_VERSION)
    assert same(box.get(BASE), first)
    assert same(box.find(BASE), later[1])  # the newest


def test_versions_of_python_and_torch_count(box: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(box)
    monkeypatch.setattr(store, "versions", lambda: experiments.versions() | {"torch": "99.0"})
    assert box.get(BASE) is None
    assert box.find(BASE) is not None
    assert box.survey() == Survey(outdated=[path])


SOURCE = '''
"""A module."""

RATE = 2
"""An attribute."""

def f(x):
    """A function."""
    return RATE * x  # doubled

class C:
    """A class."""
    size: int = 3
'''


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ('"""A module."""', '"""Other words."""', False),
        ('"""A module."""', "", False),
        ('"""An attribute."""', '"""Another."""', False),
        ('"""An attribute."""', "", False),
        ('    """A function."""\n', "", False),
        ('"""A class."""', '"""A class.\n\n    At length."""', False),
        ("# doubled", "# twice", False),
        ("RATE * x", "(RATE\n        * x)", False),
        ("size", '"""Text."""\n    size', False),
        ("RATE = 2", "RATE = 3", True),
        ("RATE * x", "x * RATE", True),
        ("size: int = 3", "size: int = 4", True),
        ("RATE * x", "'doubled'", True),
        ("def f(x)", "def f(x, y='text')", True),
    ],
)
def test_code_version_is_that_of_the_code_alone(
    old: str, new: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = [SOURCE]
    monkeypatch.setattr(inspect, "getsource", lambda module: source[0] if module is priors else "")
    before = code_version.__wrapped__()
    assert old in SOURCE
    source[0] = SOURCE.replace(old, new)
    assert (code_version.__wrapped__() != before) is counts


@pytest.mark.parametrize("module", [_check, priors, contexts, models, training, experiments])
def test_code_of_each_module_counts(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda m: plain(m) + ("\nx = 1" if m is module else ""))
    assert code_version.__wrapped__() != PLAIN_CODE_VERSION


def test_code_version_is_the_same_in_another_process() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(code_version).result() == code_version()
    assert re.fullmatch("[0-9a-f]{16}", code_version())


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a record, and its checksum too."""
    document = json.loads(path.read_text())
    change(document)
    path.write_bytes(store._dump(document))


def change_digit(path: Path) -> None:
    text = path.read_text()
    place = text.index(".", text.index('"loss": ')) + 1
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])


def flip_bit(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "half": (lambda path: cut(path, path.stat().st_size // 2), "JSONDecodeError"),
    "all but the end": (lambda path: cut(path, path.stat().st_size - 3), "JSONDecodeError"),
    "empty": (lambda path: cut(path, 0), "JSONDecodeError"),
    "binary": (lambda path: path.write_bytes(bytes(range(256))), "Error"),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "Error"),
    "list": (lambda path: path.write_text("[1, 2]"), "TypeError"),
    "null": (lambda path: path.write_text("null"), "TypeError"),
    "number": (lambda path: path.write_text("3.5"), "TypeError"),
    "string": (lambda path: path.write_text('"checksum"'), "TypeError"),
    "deep": (lambda path: path.write_text("[" * 100_000), "RecursionError"),
    "no entries": (lambda path: path.write_text("{}"), "KeyError('checksum')"),
    "digit of a loss": (change_digit, "its content does not match its checksum"),
    "other format": (lambda path: rewrite(path, lambda d: d.update(format=2)), "its format is 2, must be 1"),
    "no format": (lambda path: rewrite(path, lambda d: d.pop("format")), "KeyError('format')"),
    "no results": (lambda path: rewrite(path, lambda d: d.pop("results")), "KeyError('results')"),
    "one result": (lambda path: rewrite(path, lambda d: d["results"].pop()), "does not belong to its name"),
    "other seed": (
        lambda path: rewrite(path, lambda d: d["results"][0].update(seed=9)),
        "does not belong to its name",
    ),
    "other code": (lambda path: rewrite(path, lambda d: d.update(code="ab")), "does not belong to its name"),
    "other budget": (
        lambda path: rewrite(path, lambda d: d["experiment"].update(budget=1)),
        "does not belong to its name",
    ),
    "bad budget": (
        lambda path: rewrite(path, lambda d: d["experiment"].update(budget=0)),
        "budget = 0: must",
    ),
    "bad dtype": (
        lambda path: rewrite(path, lambda d: d["experiment"]["prior"].update(dtype="float33")),
        "AttributeError",
    ),
    "no loss": (lambda path: rewrite(path, lambda d: d["results"][0].pop("loss")), "KeyError('loss')"),
    "no weights": (lambda path: path.with_suffix(".safetensors").unlink(), "FileNotFoundError"),
    "empty weights": (lambda path: cut(path.with_suffix(".safetensors"), 0), "its weights do not match"),
    "half weights": (lambda path: cut(path.with_suffix(".safetensors"), 300), "its weights do not match"),
    "bit of weights": (
        lambda path: flip_bit(path.with_suffix(".safetensors"), -7),
        "its weights do not match",
    ),
    "bit of header": (lambda path: flip_bit(path.with_suffix(".safetensors"), 0), "its weights do not match"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_and_healed(damage: str, box: Store) -> None:
    """It counts as missing, wherever the reason is said; computing again puts things right."""
    path = fill(box)
    whole = box.get(BASE)
    change, reason = DAMAGE[damage]
    change(path)
    expected = re.escape(f"{path} is damaged: ") + ".*" + re.escape(reason)
    for lookup in [box.get, box.find]:
        with pytest.warns(UserWarning, match=f"{expected}.*; it counts as missing"):
            assert lookup(BASE) is None
    survey = box.survey()
    assert list(survey.damaged) == [path]
    assert re.match(expected, survey.damaged[path])
    assert replace(survey, damaged={}) == Survey()
    with pytest.warns(UserWarning, match=expected):
        report = run_sweep(PAIR, box, workers=1, progress=False)
    assert (report.failures, report.computed) == ([], 2)
    assert box.survey() == Survey(current=[path])
    healed = box.get(BASE)
    assert whole is not None
    assert healed is not None
    assert same(healed, replace(whole, provenance=healed.provenance))


def test_record_under_the_name_of_another_is_not_trusted(box: Store) -> None:
    path = fill(box)
    for other in [path.name.replace("-1.0.", "-3.4."), path.name.replace("A2-", "B2-")]:
        copied = path.with_name(other)
        copied.write_bytes(path.read_bytes())
        copied.with_suffix(".safetensors").write_bytes(path.with_suffix(".safetensors").read_bytes())
    assert len(box.survey().damaged) == 2
    with pytest.warns(UserWarning, match="does not belong to its name"):
        assert box.get(BASE.with_seed(4)) is None
    assert box.get(BASE) is not None
    assert box.get(BASE.with_seed(1)) is not None


def test_foreign_files_are_left_alone(box: Store) -> None:
    path = fill(box)
    names = ["notes.txt", "A2-tree2.json", "a.safetensors", ".hidden", "x.json", "A2-tree2-q.draft"]
    for name in names:
        (box.root / name).write_text("{")
    (box.root / "a folder").mkdir()
    (box.root / "a folder" / "file.json").write_text("{")
    assert run_sweep(PAIR, box, progress=False).computed == 0
    assert run_sweep([BASE.with_seed(9)], box, workers=1, progress=False).computed == 1
    survey = box.survey()
    assert [file.name for file in survey.foreign] == sorted(names)
    assert path in survey.current
    assert not survey.damaged
    assert all((box.root / name).read_text() == "{" for name in [*names, "a folder/file.json"])


def test_damaged_checkpoint_is_named_and_removed(box: Store) -> None:
    for content in [b"", b"\0" * 100, b"{}"]:
        path = box.checkpoint(PAIR)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        with pytest.warns(UserWarning, match=re.escape(f"{path} is damaged")):
            assert box.checkpoint(PAIR) == path
        assert not path.exists()


def test_checkpoints_are_told_apart(box: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [PAIR, PAIR[::-1], [BASE], [replace(BASE, model="B")], [replace(BASE, train=TrainConfig())]]
    paths = {box.checkpoint(group) for group in groups}
    by_other_code(monkeypatch)
    paths.add(box.checkpoint(PAIR))
    assert len(paths) == len(groups) + 1


def test_tidy_removes_what_crashes_leave(box: Store) -> None:
    box.tidy()
    fill(box)
    done, needed = box.checkpoint(PAIR), box.checkpoint([BASE])
    fresh, stale = (done.with_name(name) for name in ["0.draft", "1.draft"])
    for path in [done, needed]:
        save_file({"x": torch.zeros(1)}, path)
    for path in [fresh, stale]:
        path.write_bytes(b"")
    os.utime(stale, (time.time() - 25 * 3600,) * 2)
    assert box.survey().unfinished == sorted([done, needed, fresh, stale])
    box.tidy()
    assert box.survey().unfinished == sorted([needed, fresh])
    assert box.get(BASE) is not None


def test_lock_is_held_by_one(box: Store) -> None:
    with box.lock(PAIR):
        with pytest.raises(TimeoutError):
            box.lock(PAIR).acquire(timeout=0)
        with box.lock([BASE]).acquire(timeout=0):
            pass
    with box.lock(PAIR).acquire(timeout=0):
        pass


def write_often(root: Path, round_: int) -> int:
    """Put the same records again and again, and read them meanwhile. Returns how often one was missing."""
    box = Store(root)
    results = run_ensemble(PAIR, progress=False)
    (own,) = run_ensemble([BASE.with_seed(100 + round_)], progress=False)
    missing = 0
    for _ in range(12):
        box.put(results)
        box.put([own])
        missing += box.get(own.experiment) is None
        missing += box.get(BASE) is None
    return missing


def test_processes_that_write_at_once_leave_a_whole_store(box: Store) -> None:
    """The same record by all, with the same digits, and one of its own by each."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(write_often, [box.root] * 2, range(2))) == [0, 0]
    survey = box.survey()
    assert len(survey.current) == 3
    assert replace(survey, current=[]) == Survey()
    assert not list((box.root / "unfinished").iterdir())
    (result,) = run_ensemble([BASE.with_seed(101)], progress=False)
    got = box.get(BASE.with_seed(101))
    assert got is not None
    assert same(got, replace(result, provenance=got.provenance))


@pytest.mark.parametrize("weights", [True, False])
def test_copy(weights: bool, box: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outdated records of the same experiments are replaced; the rest of the target stays."""
    target = Store(tmp_path / "target")
    by_other_code(monkeypatch)
    fill(target, [BASE, BASE.with_seed(1)])
    other = fill(target, [replace(BASE, model="B")])
    monkeypatch.setattr(store, "code_version", lambda: PLAIN_CODE_VERSION)
    more = fill(target, [BASE.with_seed(8)])
    fill(box)
    fill(box, [BASE.with_seed(7)])
    fill(box, [replace(BASE, model="C")])
    for _ in range(2):
        assert box.copy([*PAIR, BASE.with_seed(7)], target, weights=weights) == 2
        survey = target.survey()
        assert len(survey.current) == 3
        assert more in survey.current
        assert replace(survey, current=[]) == Survey(outdated=[other])
        for experiment in [*PAIR, BASE.with_seed(7)]:
            ours, theirs = box.get(experiment), target.get(experiment)
            assert ours is not None
            assert same(theirs, ours if weights else replace(ours, weights=None))
    assert target.get(replace(BASE, model="C")) is None
    for flag in [weights, True, False]:  # weights come when asked for, and stay
        box.copy(PAIR, target, weights=flag)
        got = target.get(BASE)
        assert got is not None
        assert got.weights is not None or not flag
        assert target.survey().foreign == []
        kept = got.weights is not None
    assert kept
    shared = next(path for path in target.root.glob("*.safetensors") if (box.root / path.name).exists())
    shared.write_bytes(b"others")  # not those of the record
    box.copy([*PAIR, BASE.with_seed(7)], target)
    assert target.survey().damaged == {}


def test_copy_needs_every_result(box: Store, tmp_path: Path) -> None:
    target = Store(tmp_path / "target")
    fill(box)
    with pytest.raises(ValueError, match=r"experiments holds A, M=2.*seed=3.*: must be in Store\(.*run it"):
        box.copy([BASE, BASE.with_seed(3)], target)
    assert not target.root.exists()


def test_copy_onto_itself_would_lose_the_weights(box: Store) -> None:
    fill(box)
    with pytest.raises(ValueError, match="must be another folder"):
        box.copy(PAIR, Store(box.root / ".." / box.root.name))
    assert box.survey().damaged == {}


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FVBOOK_STORE", str(tmp_path / "x"))
    assert Store().root == tmp_path / "x"
    assert Store(tmp_path / "y").root == tmp_path / "y"
    monkeypatch.setenv("FVBOOK_STORE", "")
    assert Store().root.name == "fvbook"
    monkeypatch.chdir(tmp_path)
    assert Store("relative").root == tmp_path / "relative"
    assert repr(Store(tmp_path)) == f"Store({str(tmp_path)!r})"
