import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import common, step, summary, tokens
from benchmarks.__main__ import PARTS, main
from fvbook.contexts import moment, sample_tokens
from fvbook.models import ConstrainedTransformer
from fvbook.priors import TreePrior

TREE = TreePrior(4, 0.8)
# How many rows a quick run of each part has.
ROWS = {
    "contexts": 4,
    "step": 6,
    "tokens": 2,
    "ensemble": 6,
    "sweep": 2,
    "scaling": 2,
    "imports": 3,
    "book": 1,
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a quick run of every part prints and writes."""
    file = tmp_path_factory.mktemp("benchmarks") / "results.json"
    result = CliRunner().invoke(main, [*PARTS, "--quick", "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output, json.loads(file.read_text(encoding="utf8"))


def numbers(value: object) -> Iterator[float]:
    """All numbers in a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, float | int):
        yield value


def spreads(value: object) -> Iterator[common.Spread]:
    """All spreads in a JSON value."""
    if isinstance(value, dict) and "median" in value:
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from spreads(item)


def test_the_file_names_the_machine(quick: tuple[str, dict[str, Any]]) -> None:
    machine = quick[1]["machine"]
    assert machine == common.machine()
    assert set(machine) == {
        "cpu", "cores", "memory_gib", "system", "python", "torch", "blas", "cpu_capability"
    }  # fmt: skip
    assert all(machine.values())
    assert set(quick[1]["parts"]) == set(PARTS) == set(ROWS)


@pytest.mark.parametrize("name", PARTS)
def test_a_part_writes_its_numbers_and_prints_them(quick: tuple[str, dict[str, Any]], name: str) -> None:
    output, part = quick[0], quick[1]["parts"][name]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", part["date"])
    assert part["seconds"] >= 0
    assert part["quick"]
    assert len(part["rows"]) == ROWS[name]
    assert all(math.isfinite(value) for value in numbers(part))
    if name != "book":  # its times are of single runs
        assert list(spreads(part))
    for spread in spreads(part):
        assert spread.keys() == {"median", "min", "max"}
        assert 0 < spread["min"] <= spread["median"] <= spread["max"]
    table = PARTS[name].table(part)
    assert f"### {PARTS[name].title}\n\n{table}\n" in output
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len(lines) >= ROWS[name] + 2
    assert {line.count("|") for line in lines[: ROWS[name] + 2]} == {lines[0].count("|")}


def test_parts_of_the_same_machine_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = common.Part("A title", lambda quick: {"rows": []}, lambda result: "")
    file = tmp_path / "results.json"
    monkeypatch.setattr("benchmarks.__main__.PARTS", {"contexts": part, "step": part})

    def measure(name: str) -> set[str]:
        CliRunner().invoke(main, [name, "--json", str(file)], catch_exceptions=False)
        return set(json.loads(file.read_text(encoding="utf8"))["parts"])

    assert measure("contexts") == {"contexts"}
    assert measure("step") == {"contexts", "step"}
    monkeypatch.setattr("benchmarks.common.machine", lambda: {"cpu": "another"})
    assert measure("step") == {"step"}


def test_the_tables_of_the_book_have_the_numbers_of_the_file(quick: tuple[str, dict[str, Any]]) -> None:
    results = json.loads(json.dumps(quick[1]))
    contexts = results["parts"]["contexts"]
    contexts["rows"][0] |= {
        "dim": 127,
        "n_tokens": 1024,
        "ratio": {"median": 321.4, "min": 300.0, "max": 333.0},
    }
    contexts["exponents"][0] |= {"dim": 127, "moment": 0.014, "tokens": 0.987}
    text = summary.render(results)
    for expected in [
        results["machine"]["cpu"],
        "| 321 (300–333) times as fast |",
        "like $N^{0.01}$; tokens like $N^{0.99}$",
        "| A (3, 2, 8, 16) |",
        "| empty |",
    ]:
        assert expected in text


@pytest.mark.skipif(not (summary.FOLDER / "results.json").exists(), reason="nothing has been measured")
def test_the_page_shows_the_last_measurement() -> None:
    results = json.loads((summary.FOLDER / "results.json").read_text(encoding="utf8"))
    assert set(results["parts"]) == set(PARTS)
    assert not any(part["quick"] for part in results["parts"].values())
    text = (summary.FOLDER / "table.md").read_text(encoding="utf8")
    assert text == summary.render(results), "run python -m benchmarks.summary"
    page = (common.ROOT / "reproducing.md").read_text(encoding="utf8")
    assert "```{include} benchmarks/table.md" in page


@pytest.mark.parametrize("name", "ABC")
def test_the_network_on_tokens_is_the_network_on_their_moment(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    (model,) = common.build(name, TREE, 3, [0], width=16)
    x, y = sample_tokens(TREE.sample(5, generator=generator), 6, 0.1, generator=generator)
    theta_hat = tokens.at_every_token(model, x, y)
    torch.testing.assert_close(theta_hat, model(moment(x, y)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(theta_hat, tokens.moment_first(model, x, y))


def counted(model: ConstrainedTransformer, batch: int) -> int:
    """The operations of matrix products that torch counts in a step."""
    b = torch.randn(batch, model.dim, generator=torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        model(b).square().sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", "ABC")
def test_operations_are_those_of_a_step(name: str) -> None:
    batch, (model,) = 7, common.build(name, TREE, 3, [0], width=16)
    first, *others = sizes = step.products(model)
    assert first == (TREE.dim, 1 if name == "A" else 3, False)
    # the first layer's measurements may be done as a product or not
    least, most = step.operations(others, batch), step.operations(sizes, batch)
    assert least <= counted(model, batch) <= most
    with FlopCounterMode(display=False) as counter:
        step.Bare(sizes, batch, 2)()
    assert counter.get_total_flops() == 2 * most


def test_statistics() -> None:
    values = iter(range(6))
    kept = common.rounds({"a": lambda: next(values), "b": lambda: next(values)}, 2)
    assert kept == {"a": [2, 4], "b": [3, 5]}  # in turn, without the first round
    assert common.spread([3.0, 1.0, 2.0]) == {"median": 2, "min": 1, "max": 3}
    assert common.ratio([2.0, 9.0], [1.0, 3.0]) == {"median": 2.5, "min": 2, "max": 3}
    assert common.exponent([1, 10, 100], [3, 3e2, 3e4]) == pytest.approx(2)


def test_seconds_fill_the_time_they_are_given() -> None:
    calls: list[None] = []
    mean = common.seconds(lambda: calls.append(None), 0.01)
    assert len(calls) > 1
    assert mean * len(calls) >= 0.01


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1230"), (99.96, "100"), (12.345, "12.3"), (1.0, "1"), (0.00123, "0.00123")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert common.number(value) == text
