"""Model A trained on tokens in plain PyTorch, against training on the exact law of the moment.

Steps: a plain loop with Adam that draws fresh tokens at each step, and either runs the network on them as a
transformer does, a router at every token, or takes their moment first; and the book's `train`. All three
minimise E|θ − θ̂|², so a step has the same law in each, and they need the same number of steps. (A loss that
compares y and its prediction at one query a context would only add noise.)

Time to a loss: for each seed, trainings of growing length, each from the start, until the held-out loss is at
most 0.08. What counts is the last of them, from end to end. Tokens would take its number of steps times their
time of a step; as both sides share that number, their ratio hardly depends on it, nor on the loss.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Generator, Tensor

from benchmarks.common import (
    Part,
    Result,
    build,
    cell,
    clock,
    markdown,
    ratio,
    rounds,
    seconds,
    spread,
    step_seconds,
)
from fvbook.contexts import moment, sample_tokens
from fvbook.models import ConstrainedTransformer
from fvbook.priors import TreePrior
from fvbook.training import TrainConfig, train

Form = Callable[[ConstrainedTransformer, Tensor, Tensor], Tensor]


def at_every_token(model: ConstrainedTransformer, x: Tensor, y: Tensor) -> Tensor:
    """θ̂ (B, D) at the query, from the tokens x (B, N, D) and y (B, N): the network as a transformer.

    Each token's router makes its keys of the token's workspace. Linear attention with constant queries reads
    the same sum over tokens at each position, so no N × N scores are formed.
    """
    n_tokens = x.shape[1]
    workspace = x[:, :, :0]  # Φ_0 is empty
    for router in model.routers:
        keys = torch.einsum("bnhd,bnd->bnh", router(workspace), x)  # (B, N, d)
        pooled = torch.einsum("bnh,bn->bh", keys, y) / n_tokens  # (B, d)
        workspace = torch.cat([workspace, pooled[:, None].expand(-1, n_tokens, -1)], dim=2)
    return model.decoder(workspace[:, -1])


def moment_first(model: ConstrainedTransformer, x: Tensor, y: Tensor) -> Tensor:
    """θ̂ (B, D) from the moment of the tokens."""
    return model(moment(x, y))


def plain_loop(
    form: Form, model: ConstrainedTransformer, prior: TreePrior, config: TrainConfig, generator: Generator
) -> Callable[[], None]:
    """A step of a plain training loop on tokens, ready to be called again and again."""
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)

    def step() -> None:
        theta = prior.sample(config.batch_size, generator=generator)
        x, y = sample_tokens(theta, config.n_tokens, config.noise_std, generator=generator)
        loss = (form(model, x, y) - theta).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def run(quick: bool) -> Result:
    """Measure a step of each form at two lengths of context, and the time to the loss."""
    prior, budget = (TreePrior(3, 0.8), 2) if quick else (TreePrior(5, 0.8), 5)
    recipe = TrainConfig(learning_rate=0.03)  # otherwise the defaults: N = 32, s = 0, batches of 512
    if quick:
        recipe = replace(recipe, n_tokens=4, batch_size=16, warmup=10, held_out=100)
    rows = [
        _steps(prior, budget, replace(recipe, n_tokens=factor * recipe.n_tokens), quick) for factor in (1, 16)
    ]
    goal, lengths, seeds = (0.99, range(50, 1000, 50), 2) if quick else (0.08, range(400, 4000, 200), 5)
    runs = [_to_goal(goal, lengths, prior, budget, replace(recipe, seed=seed)) for seed in range(seeds)]
    on_tokens = [
        {
            "n_tokens": row["n_tokens"],
            "seconds": spread(run["steps"] * row["at_every_token_s"]["median"] for run in runs),
            "ratio": spread(
                run["steps"] * row["at_every_token_s"]["median"] / run["seconds"] for run in runs
            ),
        }
        for row in rows
    ]
    on_moment = {
        "steps": spread(run["steps"] for run in runs),
        "seconds": spread(run["seconds"] for run in runs),
    }
    return {"rows": rows, "goal": goal, "runs": runs, "on_moment": on_moment, "on_tokens": on_tokens}


def _steps(prior: TreePrior, budget: int, config: TrainConfig, quick: bool) -> Result:
    """Times of a step of the three forms."""
    generator = torch.Generator().manual_seed(0)
    model = build("A", prior, budget, [0])
    actions = {
        form.__name__: partial(seconds, plain_loop(form, model[0], prior, config, generator))
        for form in (at_every_token, moment_first)
    }
    actions["moment"] = partial(step_seconds, model, prior, config, 1 if quick else 30)
    times = rounds(actions, 1 if quick else 3)
    return (
        {"n_tokens": config.n_tokens}
        | {f"{name}_s": spread(samples) for name, samples in times.items()}
        | {
            f"{name}_ratio": ratio(times[name], times["moment"])
            for name in ("at_every_token", "moment_first")
        }
    )


def _to_goal(goal: float, lengths: range, prior: TreePrior, budget: int, recipe: TrainConfig) -> Result:
    """The first training of these lengths that reaches the loss."""
    for steps in lengths:
        (model,) = build("A", prior, budget, [recipe.seed])
        start = clock()
        loss = train(model, prior, replace(recipe, steps=steps), progress=False).loss
        took = clock() - start
        if loss <= goal:
            return {"seed": recipe.seed, "steps": steps, "seconds": took, "loss": loss}
    raise RuntimeError(f"seed {recipe.seed} does not reach the loss {goal} in {lengths[-1]} steps")


def table(result: Result) -> str:
    """The steps, and the time to the loss."""
    steps = [
        [
            row["n_tokens"],
            *(cell(row[f"{name}_s"], 1e3) for name in ("at_every_token", "moment_first", "moment")),
            *(cell(row[f"{name}_ratio"]) for name in ("at_every_token", "moment_first")),
        ]
        for row in result["rows"]
    ]
    on_moment = result["on_moment"]
    goal = [
        ["the moment, any N", cell(on_moment["steps"]), cell(on_moment["seconds"]), "1"],
    ]
    for row in result["on_tokens"]:
        goal.append([f"tokens, N = {row['n_tokens']}", "the same", cell(row["seconds"]), cell(row["ratio"])])
    header = ["N", "router at every token, ms", "moment of tokens, ms", "moment, ms", "ratio", "ratio"]
    return (
        markdown(header, steps)
        + f"\n\nTo a held-out loss of {result['goal']}, each seed for itself:\n\n"
        + markdown(["trained on", "steps", "seconds", "ratio"], goal)
    )


PART = Part("Model A on tokens and on the moment", run, table)
