"""The command line: run the book's sweeps outside a notebook, and see what is in the store."""

from pathlib import Path

import click
import torch

from fvbook.catalogue import PROFILES, SWEEPS, Profile
from fvbook.experiments import pick_device
from fvbook.store import Store
from fvbook.sweeps import ensembles, run_sweep

_name = click.argument("name", type=click.Choice(list(SWEEPS)), metavar="NAME")
_profile = click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="book",
    show_default=True,
    help="The size: seconds, minutes, or an hour.",
)
_store = click.option(
    "--store",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where results are kept. [default: $FVBOOK_STORE, else a folder in your cache]",
)


_EXAMPLES = """\b
Examples:
  python -m fvbook list
  python -m fvbook run tree --profile smoke
  python -m fvbook run tree --profile paper --workers 2
  python -m fvbook status
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=_EXAMPLES
)
@click.version_option(package_name="fvbook")
def main() -> None:
    """Run the experiments of the book and keep their results.

    A sweep is a list of experiments; each result is kept in a store under a hash of what it is a result of.
    What is there already is never computed again, so a run can be stopped at any time (Ctrl-C, or worse) and
    started again with the same command.
    """


@main.command("list")
def list_sweeps() -> None:
    """Show the sweeps, and how many runs each profile has."""
    for sweep in SWEEPS.values():
        sizes = ", ".join(f"{profile} {len(sweep.experiments(profile))}" for profile in PROFILES)
        click.echo(f"{sweep.name:10s} {sweep.question}\n{'':10s} runs: {sizes}")


@main.command()
@_name
@_profile
@_store
@click.option("--workers", type=click.IntRange(1), help="Processes. [default: one for each CPU]")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda", "auto"]), default="cpu", show_default=True, help="Device."
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the Dask cluster at this address instead, tcp://host:port; needs Dask (extra: cluster).",
)
def run(
    name: str,
    profile: Profile,
    folder: Path | None,
    workers: int | None,
    device: str,
    scheduler: str | None,
) -> None:
    """Run a sweep; print a table of the mean losses over the seeds.

    Only what the store lacks is computed. Runs that fail are named at the end, do not stop the others, and
    make the exit status 1.
    """
    torch.set_num_threads(1)
    try:
        device = pick_device(device)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    experiments, store = SWEEPS[name].experiments(profile), Store(folder)
    if scheduler is None:
        report = run_sweep(experiments, store, workers=workers, device=device)
    elif workers is not None:
        raise click.UsageError("--workers is the cluster's affair: must be left out with --scheduler")
    else:
        try:
            from distributed import Client

            client = Client(scheduler)
        except ImportError:
            raise click.ClickException('--scheduler needs Dask, the extra "cluster" of the package') from None
        except (OSError, ValueError) as error:
            raise click.ClickException(f"no scheduler at {scheduler}: {error}") from None
        with client:
            report = run_sweep(experiments, store, executor=client.get_executor(), device=device)
    found = {r.experiment: r for r in report.results if r is not None}
    for group in sorted(ensembles(list(found)), key=lambda group: str(group[0])):
        losses = torch.tensor([found[experiment].loss for experiment in group], dtype=torch.float64)
        spread = f" ± {losses.std() / len(losses) ** 0.5:.4f}" if len(losses) > 1 else ""
        click.echo(f"{losses.mean():.4f}{spread}  {group[0]}")
    click.echo(f"{report.computed} of {len(report.results)} results computed now, kept in {store.root}")
    for failure in report.failures:
        click.echo(f"failed: {failure}", err=True)
    if report.failures:
        raise SystemExit(1)


@main.command()
@_store
def status(folder: Path | None) -> None:
    """Show what the store holds: for each sweep how much is done, and files that do not belong."""
    store = Store(folder)
    click.echo(f"store: {store.root}")
    for sweep in SWEEPS.values():
        for profile in PROFILES:
            experiments = sweep.experiments(profile)
            done = sum(store.get(experiment) is not None for experiment in experiments)
            if done:
                click.echo(f"  {sweep.name:10s} {profile:6s} {done} of {len(experiments)} results")
    survey = store.survey()
    click.echo(f"  records: {len(survey.current)} current, {len(survey.outdated)} by other code or versions")
    for path in survey.unfinished:
        click.echo(f"  unfinished: {path.name}")
    for path, reason in survey.damaged.items():
        click.echo(f"  damaged: {path.name}: {reason}")
    for path in survey.foreign:
        click.echo(f"  not of the store, left alone: {path.name}")


@main.command()
@_name
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@_profile
@_store
@click.option(
    "--weights", is_flag=True, help="Copy the trained weights, even where the book does not publish them."
)
def export(name: str, target: Path, profile: Profile, folder: Path | None, weights: bool) -> None:
    """Copy the results of a sweep to the folder TARGET, to be published.

    They replace older results of the same experiments there. Every result of the sweep must be in the store.
    """
    sweep = SWEEPS[name]
    try:
        count = Store(folder).copy(
            sweep.experiments(profile), Store(target), weights=weights or sweep.weights
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{count} records copied to {target}")


if __name__ == "__main__":
    main(prog_name="python -m fvbook")
