"""Drawing contexts: the moment from its exact law against tokens and their moment.

θ is of the tree prior, times are for one context. Tokens come in batches of the book's 512 contexts, or as
many as 2^26 numbers hold: a quarter of a gigabyte, and with what checks and products need under one. The
moment comes in batches of 512 always.
"""

from functools import partial

import torch
from torch import Generator, Tensor

from benchmarks.common import Part, Result, cell, exponent, markdown, number, ratio, rounds, seconds, spread
from fvbook.contexts import moment, sample_moment, sample_tokens
from fvbook.priors import TreePrior

BATCH, LARGEST = 512, 2**26


def _moment_of_tokens(theta: Tensor, n_tokens: int, generator: Generator) -> Tensor:
    return moment(*sample_tokens(theta, n_tokens, 0.0, generator=generator))


def run(quick: bool) -> Result:
    """Measure at each dimension and length."""
    all_levels, lengths = ([2, 3], [2, 4]) if quick else ([5, 7, 9], [2**k for k in range(5, 13)])
    repeats, at_least = (1, 0.0) if quick else (3, 0.05)
    generator = torch.Generator().manual_seed(0)
    rows, exponents = [], []
    for levels in all_levels:
        prior = TreePrior(levels, 0.8)
        theta = prior.sample(BATCH, generator=generator)
        for n in lengths:
            batch = min(BATCH, LARGEST // (n * prior.dim))
            draw = partial(_moment_of_tokens, theta[:batch], n, generator)
            exact = partial(sample_moment, theta, n, 0.0, generator=generator)
            times = rounds(
                {"tokens": partial(seconds, draw, at_least), "moment": partial(seconds, exact, at_least)},
                repeats,
            )
            tokens = [time / batch for time in times["tokens"]]
            moments = [time / BATCH for time in times["moment"]]
            rows.append(
                {
                    "dim": prior.dim,
                    "n_tokens": n,
                    "token_batch": batch,
                    "tokens_s": spread(tokens),
                    "moment_s": spread(moments),
                    "ratio": ratio(tokens, moments),
                }
            )
        of_dim = rows[-len(lengths) :]
        exponents.append(
            {
                "dim": prior.dim,
                "tokens": exponent(lengths, [row["tokens_s"]["median"] for row in of_dim]),
                "moment": exponent(lengths, [row["moment_s"]["median"] for row in of_dim]),
            }
        )
    return {"rows": rows, "exponents": exponents}


def table(result: Result) -> str:
    """Each dimension and length, and how times grow with N."""
    rows = [
        [
            row["dim"],
            row["n_tokens"],
            cell(row["tokens_s"], 1e6),
            cell(row["moment_s"], 1e6),
            cell(row["ratio"]),
        ]
        for row in result["rows"]
    ]
    growth = [[row["dim"], number(row["tokens"]), number(row["moment"])] for row in result["exponents"]]
    return (
        markdown(["D", "N", "tokens, µs", "moment, µs", "ratio"], rows)
        + "\n\n"
        + markdown(["D", "exponent of N: tokens", "moment"], growth)
    )


PART = Part("Drawing a context", run, table)
