"""The store: results on disk, each beside what produced it, found by what it is a result of.

A record is a JSON file and, where weights are kept, a safetensors file of the same name. It holds one
ensemble: experiments that differ in the seed alone and were trained together. Its name says the model, the
budget and the prior, and goes on with a hash of the experiment without its seed, a hash of the version (the
code that computes results, and the versions of Python and torch), and the seeds:
``A3-tree5-<16 digits>-<8 digits>-0.1.2.json``. Records are written whole or not at all, so any number of
processes may read and write one store.
"""

import ast
import functools
import hashlib
import inspect
import json
import os
import time
import uuid
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fvbook import _check, contexts, experiments, models, priors, training
from fvbook.experiments import Experiment, Result, versions

_FORMAT = 1


@functools.cache
def code_version() -> str:
    """A hash of the code that results depend on; comments, docstrings and layout do not count."""
    digest = hashlib.sha256()
    for module in (_check, priors, contexts, models, training, experiments):
        tree = ast.parse(inspect.getsource(module))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                node.body = [part for part in node.body if not _is_text(part)]
        digest.update(ast.unparse(tree).encode())
    return digest.hexdigest()[:16]


def _is_text(statement: ast.stmt) -> bool:
    """Whether it is a docstring, of an attribute perhaps."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash(value: Any, digits: int) -> str:
    return _digest(json.dumps(value, sort_keys=True).encode())[:digits]


def _version() -> str:
    """The part of a record's name that says which code and versions made it, for the present ones."""
    return _hash([code_version(), versions()], 8)


def _family(experiment: Experiment) -> str:
    """The part of a record's name that all seeds and versions of an experiment share."""
    prior, config = experiment.prior, experiment.with_seed(0).as_dict()
    kind = f"tree{prior.levels}" if isinstance(prior, priors.TreePrior) else f"gaussian{prior.dim}"
    return f"{experiment.model}{experiment.budget}-{kind}-{_hash(config, 16)}"


def _name(ensemble: Sequence[Experiment], code: str, libraries: dict[str, str]) -> str:
    seeds = ".".join(str(experiment.seed) for experiment in ensemble)
    return f"{_family(ensemble[0])}-{_hash([code, libraries], 8)}-{seeds}"


@dataclass
class Survey:
    """What lies in a store.

    Attributes
    ----------
    current, outdated : list of Path
        Whole records, made by the present code and versions or by others.
    damaged : dict of Path to str
        Records that cannot be trusted, and why. They are never read, and replaced when computed again.
    unfinished : list of Path
        Checkpoints of ensembles that are under way or were interrupted, and drafts.
    foreign : list of Path
        Other files. They are left alone.
    """

    current: list[Path] = field(default_factory=list)
    outdated: list[Path] = field(default_factory=list)
    damaged: dict[Path, str] = field(default_factory=dict)
    unfinished: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)


class Store:
    """Results in a folder.

    Parameters
    ----------
    root : path, optional
        The folder, made when something is first put there. By default the folder that the environment
        variable FVBOOK_STORE names, else one of the user's cache folder.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        default = os.environ.get("FVBOOK_STORE") or user_cache_path("fvbook")
        self.root = Path(default if root is None else root).absolute()

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @staticmethod
    def published() -> "Store":
        """The results that come with the book: of its checkout, or of the installed package."""
        package = Path(__file__).parent
        checkout = package.parent / "results"
        return Store(checkout if checkout.exists() else package / "results")

    def get(self, experiment: Experiment) -> Result | None:
        """The result of this experiment by the present code and versions; None if there is none.

        A damaged record is named in a warning and counts as none.
        """
        return self._newest(self._holding(experiment, _version()))

    def find(self, experiment: Experiment) -> Result | None:
        """The newest result of this experiment, by whatever code and versions. Else as `get`."""
        return self._newest(self._holding(experiment, "*"))

    def _holding(self, experiment: Experiment, version: str) -> list[tuple[Path, Result]]:
        """The result in each whole record that holds it, with the record's path."""
        found = []
        for path in self.root.glob(f"{_family(experiment)}-{version}-*.json"):
            if str(experiment.seed) in path.stem.rsplit("-", 1)[1].split("."):
                try:
                    found += [(path, result) for result in _read(path) if result.experiment == experiment]
                except _Damaged as error:
                    warnings.warn(f"{error}; it counts as missing", stacklevel=4)
        return found

    @staticmethod
    def _newest(found: list[tuple[Path, Result]]) -> Result | None:
        return max((result for _, result in found), key=lambda r: r.provenance["date"], default=None)

    def put(self, results: Sequence[Result]) -> Path:
        """Write the record of one ensemble, just made by `run_ensemble`, and return its path."""
        ensemble = [result.experiment for result in results]
        libraries = results[0].provenance["versions"]
        document: dict[str, Any] = {
            "format": _FORMAT,
            "experiment": ensemble[0].with_seed(0).as_dict(),
            "code": code_version(),
            "provenance": results[0].provenance,
            "results": [
                {
                    "seed": result.experiment.seed,
                    "loss": result.loss,
                    "standard_error": result.standard_error,
                    "history": result.history,
                }
                for result in results
            ],
            "weights": None,
        }
        path = self.root / (_name(ensemble, document["code"], libraries) + ".json")
        if all(result.weights is not None for result in results):
            content = save(
                {
                    f"{result.experiment.seed}.{name}": weight
                    for result in results
                    for name, weight in (result.weights or {}).items()
                }
            )
            document["weights"] = _digest(content)
            self._write(path.with_suffix(".safetensors"), content)
        self._write(path, _dump(document))
        return path

    def copy(self, experiments: Sequence[Experiment], target: "Store", *, weights: bool = False) -> int:
        """Copy the current records that hold these experiments to another store; return how many.

        There they replace the records of the same experiments by other versions. Weights are copied only if
        asked for; those that are there already stay. ValueError if an experiment has no current result, or
        the target is this store.
        """
        if target.root.resolve() == self.root.resolve():
            raise ValueError(f"target = {target}: must be another folder than that of the store")
        sources: dict[Path, Experiment] = {}
        for experiment in experiments:
            holding = self._holding(experiment, _version())
            if not holding:
                raise ValueError(f"experiments holds {experiment}: must be in {self}; run it first")
            sources |= {path: experiment for path, _ in holding}
        families = {_family(experiment) for experiment in sources.values()}
        outdated = [path for family in families for path in target.root.glob(f"{family}-*")]
        for path in sources:
            document = json.loads(path.read_bytes())
            there = target.root / path.with_suffix(".safetensors").name
            if weights and document["weights"]:
                target._write(there, path.with_suffix(".safetensors").read_bytes())
            elif not there.exists() or _digest(there.read_bytes()) != document["weights"]:
                document["weights"] = None
                there.unlink(missing_ok=True)
            target._write(target.root / path.name, _dump(document))
        for path in outdated:
            if path.stem.split("-")[3] != _version():
                path.unlink()
        return len(sources)

    def checkpoint(self, ensemble: Sequence[Experiment]) -> Path:
        """Where the training of an ensemble keeps its state; a damaged one is named and removed."""
        path = self.root / "unfinished" / (_name(ensemble, code_version(), versions()) + ".safetensors")
        if path.exists():
            try:
                load(path.read_bytes())
            except SafetensorError as error:
                warnings.warn(f"{path} is damaged ({error}) and is removed", stacklevel=2)
                path.unlink()
        return path

    def lock(self, ensemble: Sequence[Experiment]) -> BaseFileLock:
        """A lock for the training of an ensemble. The system frees it when its holder dies."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / (_name(ensemble, code_version(), versions()) + ".lock"))

    def tidy(self) -> None:
        """Remove what crashes leave behind: checkpoints that have become records, drafts a day old."""
        for path in (self.root / "unfinished").glob("*"):
            with suppress(FileNotFoundError):  # another process is done with it
                if path.suffix == ".draft":
                    finished = time.time() - path.stat().st_mtime > 24 * 3600
                else:
                    finished = (self.root / path.name).with_suffix(".json").exists()
                if finished:
                    path.unlink()

    def survey(self) -> Survey:
        """Look at every file of the store."""
        survey = Survey(unfinished=sorted((self.root / "unfinished").glob("*")))
        for path in sorted(self.root.glob("*")):
            if path.is_dir() or (path.suffix == ".safetensors" and path.with_suffix(".json").exists()):
                continue
            if path.suffix != ".json" or path.stem.count("-") != 4:
                survey.foreign.append(path)
                continue
            try:
                _read(path)
            except _Damaged as error:
                survey.damaged[path] = str(error)
            else:
                current = path.stem.split("-")[3] == _version()
                (survey.current if current else survey.outdated).append(path)
        return survey

    def _write(self, path: Path, content: bytes) -> None:
        """A reader sees the old file or the new one, never a part, whoever else writes."""
        draft = self.root / "unfinished" / f"{uuid.uuid4().hex}.draft"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        os.replace(draft, path)


class _Damaged(ValueError):
    """A record that cannot be trusted."""


def _read(path: Path) -> list[Result]:
    """The results of a record. _Damaged, with the path and the reason, if it is not as `put` wrote it."""
    try:
        document = json.loads(path.read_bytes())
        if document["checksum"] != _hash({k: v for k, v in document.items() if k != "checksum"}, 64):
            raise ValueError("its content does not match its checksum")
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']}, must be {_FORMAT}")
        family, provenance = Experiment.from_dict(document["experiment"]), document["provenance"]
        ensemble = [family.with_seed(result["seed"]) for result in document["results"]]
        if path.stem != _name(ensemble, document["code"], provenance["versions"]):
            raise ValueError("its content does not belong to its name")
        tensors: dict[str, Tensor] | None = None
        if document["weights"]:
            content = path.with_suffix(".safetensors").read_bytes()
            if _digest(content) != document["weights"]:
                raise ValueError("its weights do not match their checksum")
            tensors = load(content)
        return [
            Result(
                experiment,
                values["loss"],
                values["standard_error"],
                tuple((step, loss) for step, loss in values["history"]),
                tensors
                and {
                    name.removeprefix(f"{experiment.seed}."): weight
                    for name, weight in tensors.items()
                    if name.startswith(f"{experiment.seed}.")
                },
                provenance,
            )
            for experiment, values in zip(ensemble, document["results"], strict=True)
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise _Damaged(f"{path} is damaged: {error!r}") from None


def _dump(document: dict[str, Any]) -> bytes:
    """JSON with a checksum and a line for each entry."""
    document = {key: value for key, value in document.items() if key != "checksum"}
    document["checksum"] = _hash(json.loads(json.dumps(document)), 64)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    return f"{{\n{lines}\n}}\n".encode()
