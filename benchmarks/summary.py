"""The tables that the book shows: `python -m benchmarks.summary` writes `table.md` from `results.json`."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import Result, Spread, cell, markdown, number

FOLDER = Path(__file__).parent


def _find(rows: list[Result], **values: object) -> Result:
    """The row with these values."""
    return next(row for row in rows if values.items() <= row.items())


def _times(of: Spread) -> str:
    return f"{cell(of)} times as fast"


def _machine(machine: dict[str, Any], parts: dict[str, Result]) -> str:
    """Where and when."""
    dates = sorted({part["date"][:10] for part in parts.values()})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    details = [
        f"{machine['memory_gib']:.0f} GiB of memory",
        machine["system"],
        f"Python {machine['python']}",
        f"PyTorch {machine['torch']}",
        machine["blas"],
    ]
    return (
        f"Measured {when} on {machine['cores']} cores of {machine['cpu']} ({', '.join(details)}). Medians "
        "and, in brackets, the range of several rounds, on one thread where no other number is given."
    )


def _power(name: str, exponent: float) -> str:
    return f"${name}^{{{exponent:.2f}}}$"


def _overview(parts: dict[str, Result]) -> str:
    """One line for each question."""
    context = _find(parts["contexts"]["rows"], dim=127, n_tokens=1024)
    in_n = _find(parts["contexts"]["exponents"], dim=127)
    tokens = parts["tokens"]
    recipe = f"model A to a loss of {tokens['goal']} (K = 5, M = 5, N = 32)"
    ensembles = parts["ensemble"]["rows"]
    most = max(row["seeds"] for row in ensembles)
    growth = [
        _power({"batch": r"\text{batch}"}.get(row["varied"], row["varied"]), row["exponent"])
        for row in parts["scaling"]["rows"]
    ]
    slowest = max(
        (row for row in parts["imports"]["rows"] if row["module"] != "torch"),
        key=lambda row: row["seconds"]["median"],
    )
    rows = [
        ["a context of N = 1024, D = 127: its moment against its tokens", _times(context["ratio"])],
        [
            "the same as N grows from 32 to 4096",
            f"like {_power('N', in_n['moment'])}; tokens like {_power('N', in_n['tokens'])}",
        ],
        [recipe, f"{cell(tokens['on_moment']['seconds'])} s"],
        *(
            [f"against the same on N = {row['n_tokens']} tokens a context", _times(row["ratio"])]
            for row in tokens["on_tokens"]
        ),
        *(
            [
                f"{most} models {name} at once against one by one",
                _times(_find(ensembles, model=name, seeds=most)["ratio"]),
            ]
            for name in "ABC"
        ),
        ["a sweep by two processes against one", _times(_find(parts["sweep"]["rows"], workers=2)["speedup"])],
        ["a step's time, as one of them grows alone", ", ".join(growth)],
        [f"the slowest import beyond torch, `{slowest['module']}`", f"{cell(slowest['seconds'])} s"],
        ["the book: all chapters executed", f"{number(parts['book']['cold_s'] / 60)} minutes"],
        ["the book: nothing changed since", f"{number(parts['book']['warm_s'])} s"],
    ]
    return markdown(["what", "measured"], rows)


def _steps(rows: list[Result]) -> str:
    """A step of each model and size: five at once, on one thread and on all, and one alone."""
    columns = [(1, 1), (5, 1), *((5, n) for n in sorted({row["threads"] for row in rows} - {1}))]
    header = [f"{seeds} at once, {threads} thread{'s' * (threads > 1)}" for seeds, threads in columns]
    sizes = ("model", "levels", "budget", "width", "batch")
    body = []
    for key in dict.fromkeys(tuple(row[size] for size in sizes) for row in rows):
        line = [f"{key[0]} ({', '.join(map(str, key[1:]))})"]
        for seeds, threads in columns:
            row = _find(rows, **dict(zip(sizes, key, strict=True)), seeds=seeds, threads=threads)
            step, share = 1e3 * row["step_s"]["median"], 100 * row["share"]["median"]
            line.append(f"{number(step)} ms, {share:.0f} %")
        body.append(line)
    return markdown(["model (K, M, width, batch)", *header], body)


def _chapters(rows: list[Result]) -> str:
    """Each chapter's minutes and memory."""
    body = [[row["title"], f"{row['seconds'] / 60:.1f}", f"{row['peak_bytes'] / 1e9:.1f}"] for row in rows]
    return markdown(["chapter", "minutes", "memory, GB"], body)


def render(results: dict[str, Any]) -> str:
    """All tables, from a file with all parts."""
    parts = results["parts"]
    paragraphs = [
        "<!-- Written by python -m benchmarks.summary. -->",
        _machine(results["machine"], parts),
        _overview(parts),
        "A training step: its time, and the share of it that its matrix products would take as bare calls.",
        _steps(parts["step"]["rows"]),
        "Each chapter alone, executed from top to bottom:",
        _chapters(parts["book"]["rows"]),
    ]
    return "\n\n".join(paragraphs) + "\n"


if __name__ == "__main__":
    results = json.loads((FOLDER / "results.json").read_text(encoding="utf8"))
    (FOLDER / "table.md").write_text(render(results), encoding="utf8")
