"""What the book's computations cost: `python -m benchmarks`. One module measures one thing.

Nothing here is a test of speed: other machines give other times. What carries over are the ratios, and the
two sides of each are measured in turn within one run.
"""
