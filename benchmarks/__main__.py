"""The command: `python -m benchmarks [NAME ...] [--json FILE] [--quick]`."""

import json
import time
from datetime import datetime, timezone
from pathlib import Path

import click

from benchmarks import book, common, contexts, ensemble, imports, scaling, step, sweep, tokens

PARTS = {
    "contexts": contexts.PART,
    "step": step.PART,
    "tokens": tokens.PART,
    "ensemble": ensemble.PART,
    "sweep": sweep.PART,
    "scaling": scaling.PART,
    "imports": imports.PART,
    "book": book.PART,
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(PARTS)), metavar="[NAME]...")
@click.option(
    "--json",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all numbers there. Other parts that it holds are kept if they were measured on this machine.",
)
@click.option("--quick", is_flag=True, help="Tiny sizes, to see that all works: the numbers mean nothing.")
def main(names: tuple[str, ...], file: Path | None, quick: bool) -> None:
    r"""Measure what the book's computations cost, and print a table for each part.

    \b
    NAMEs are contexts, step, tokens, ensemble, sweep, scaling, imports and book.
    By default all are measured but book, which takes a quarter of an hour; the others take some minutes.
    """
    result = {"machine": common.machine(), "parts": {}}
    if file and file.exists():
        before = json.loads(file.read_text(encoding="utf8"))
        if before["machine"] == result["machine"]:
            result = before
    for name in names or [name for name, part in PARTS.items() if not part.slow]:
        date, start = datetime.now(timezone.utc), time.perf_counter()
        with common.threads(1):
            measured = PARTS[name].run(quick)
        result["parts"][name] = {
            "date": date.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - start, 1),
            "quick": quick,
        } | measured
        click.echo(f"\n### {PARTS[name].title}\n\n{PARTS[name].table(measured)}")
        if file:  # after each part, so that an interrupt loses one at most
            file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
