"""Function vectors and adaptive inference: the package under the book.

The rooms, each importing only from those before it: `priors` (what θ is drawn from), `contexts` (tokens
and their moment b), `inference` (exact Bayes decoders), `theory` (closed forms and bounds), `policies`
(measurement strategies and the dynamic programme), `models` (the constrained transformer), `training`,
`experiments` (what to train, as a value), `store` (results on disk), `sweeps` (many runs at once),
`catalogue` (the sweeps of the book), `interventions` (key patching), `probes` (what can be read from a
function vector), `figures`, `widgets`.
"""

__version__ = "0.1.0"
