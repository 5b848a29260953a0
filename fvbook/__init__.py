"""Function vectors and adaptive inference: the package under the book.

The rooms, each importing only from those above it: `priors` (what θ is drawn from), `contexts` (tokens and
their moment b), `theory` (closed forms), `models` (the constrained transformer), `training`, `figures`.
"""

__version__ = "0.1.0"
