"""What the exact sampler of the moment saves: run `python benchmarks/moment.py`.

At each context length N, on one thread, for the tree prior of the book (K = 5) and a batch of 256: the time
to draw tokens and take their moment against the time to draw the moment; and a step of model A (M = 5,
forward and backward) in token form, contexts drawn as tokens, against the same step in moment form.
"""

from collections.abc import Callable

import torch
from torch.utils.benchmark import Timer

from fvbook.contexts import moment, sample_moment, sample_tokens
from fvbook.models import model_a
from fvbook.priors import TreePrior

BATCH = 256


def milliseconds(action: Callable[[], object]) -> float:
    """Median time of one call, on one thread."""
    return 1e3 * Timer("action()", globals={"action": action}).blocked_autorange(min_run_time=0.5).median


def main() -> None:
    """Print one line for each N."""
    generator = torch.Generator().manual_seed(0)
    prior = TreePrior(5, 0.8)
    model = model_a(prior.dim, 5, generator=generator)
    theta = prior.sample(BATCH, generator=generator)
    query = torch.randn(BATCH, prior.dim, generator=generator)
    target = (query * theta).sum(1)

    print("     N   draw tokens   draw moment   ratio   token step   moment step   ratio")
    for n_tokens in [8, 32, 64, 128, 512]:

        def tokens(n: int = n_tokens) -> torch.Tensor:
            return moment(*sample_tokens(theta, n, 0.0, generator=generator))

        def exact(n: int = n_tokens) -> torch.Tensor:
            return sample_moment(theta, n, 0.0, generator=generator)

        def token_step(n: int = n_tokens) -> None:
            x, y = sample_tokens(theta, n, 0.0, generator=generator)
            (model.predict(x, y, query) - target).square().mean().backward()

        def moment_step(n: int = n_tokens) -> None:
            (model(exact(n)) - theta).square().sum(1).mean().backward()

        line = [milliseconds(tokens), milliseconds(exact)]
        text = f"{n_tokens:6d} {line[0]:10.2f} ms {line[1]:10.2f} ms {line[0] / line[1]:7.1f}"
        if n_tokens <= 128:  # beyond, the N (N + 1) scores of each context take gigabytes
            step = [milliseconds(token_step), milliseconds(moment_step)]
            text += f" {step[0]:9.1f} ms {step[1]:10.2f} ms {step[0] / step[1]:7.1f}"
        print(text)


if __name__ == "__main__":
    main()
