"""Checks of arguments: each raises a ValueError that names the argument, its value and what is allowed."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """The value as an int; ValueError unless it is a whole number with low ≤ value (≤ high)."""
    allowed = f"an integer ≥ {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} = {value!r}: must be {allowed}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} = {number}: must be {allowed}")
    return number


def real(name: str, value: object, low: float, high: float = math.inf, *, open_: bool = False) -> float:
    """The value as a float; ValueError unless finite and in [low, high], or in (low, high) if `open_`."""
    left, right = "()" if open_ else "[]"
    allowed = f"a finite number in {left}{low:g}, {high:g}{')' if math.isinf(high) else right}"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} = {value!r}: must be {allowed}")
    number = float(value)
    if not (low < number < high if open_ else low <= number <= high):
        raise ValueError(f"{name} = {value!r}: must be {allowed}")
    return number


def tensor(name: str, value: object, *shape: int | None, dtype: torch.dtype | None = None) -> Tensor:
    """The value; ValueError unless a finite float tensor of this shape (None: any length ≥ 1) and dtype."""
    wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} = {value!r}: must be a torch.Tensor of shape {wanted}")
    fits = value.ndim == len(shape) and all(
        have >= 1 if size is None else have == size for have, size in zip(value.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} has shape {tuple(value.shape)}: must be {wanted}")
    if not value.is_floating_point():
        raise ValueError(f"{name} has dtype {value.dtype}: must be a floating-point type")
    if dtype is not None and value.dtype != dtype:
        raise ValueError(f"{name} has dtype {value.dtype}: must be {dtype}")
    # a finite sum has finite terms; not so the other way, for a sum can overflow
    if not (math.isfinite(value.detach().sum()) or bool(torch.isfinite(value).all())):
        raise ValueError(f"{name} holds NaN or infinite values: must be finite")
    return value
