import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from fvbook import _check

GRID = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("value", "low", "high", "complaint"),
    [
        (3, 1, 5, None),
        (1, 1, 1, None),
        (np.int64(4), 0, None, None),
        (0, 1, None, "n = 0: must be an integer ≥ 1"),
        (6, 1, 5, "n = 6: must be an integer from 1 to 5"),
        (2.0, 1, None, "n = 2.0: must be an integer ≥ 1"),
        (True, 0, None, "n = True: must be an integer ≥ 0"),
        ("2", 0, None, "n = '2': must be an integer ≥ 0"),
        (None, 0, 3, "n = None: must be an integer from 0 to 3"),
    ],
)
def test_integer(value: object, low: int, high: int | None, complaint: str | None) -> None:
    if complaint is None:
        result = _check.integer("n", value, low, high)
        assert type(result) is int
        assert result == value
    else:
        with pytest.raises(ValueError, match=re.escape(complaint)):
            _check.integer("n", value, low, high)


@pytest.mark.parametrize(
    ("value", "low", "high", "open_", "complaint"),
    [
        (0, 0, math.inf, False, None),
        (0.5, 0, 1, True, None),
        (np.float32(0.25), 0, 1, False, None),
        (Fraction(1, 2), 0, 1, False, None),
        (1, 0, 1, False, None),
        (0, 0, 1, True, "r = 0: must be a finite number in (0, 1)"),
        (1.0, 0, 1, True, "r = 1.0: must be a finite number in (0, 1)"),
        (-0.1, 0, math.inf, False, "r = -0.1: must be a finite number in [0, inf)"),
        (2, 0, 1, False, "r = 2: must be a finite number in [0, 1]"),
        (math.nan, 0, 1, False, "r = nan: must be"),
        (math.inf, 0, math.inf, False, "r = inf: must be"),
        (True, 0, 1, False, "r = True: must be"),
        ("1", 0, 1, False, "r = '1': must be"),
        (1j, 0, 1, False, "r = 1j: must be"),
    ],
)
def test_real(value: object, low: float, high: float, open_: bool, complaint: str | None) -> None:
    if complaint is None:
        result = _check.real("r", value, low, high, open_=open_)
        assert type(result) is float
        assert result == value
    else:
        with pytest.raises(ValueError, match=re.escape(complaint)):
            _check.real("r", value, low, high, open_=open_)


@pytest.mark.parametrize(
    ("value", "shape", "dtype", "complaint"),
    [
        (GRID, (2, 3), None, None),
        (GRID, (None, 3), torch.float32, None),
        (GRID.half(), (None, None), None, None),
        (torch.full((2,), 3e38), (2,), None, None),  # finite, but not their sum
        (GRID, (3, 3), None, "t has shape (2, 3): must be (3, 3)"),
        (GRID, (2, 3, None), None, "t has shape (2, 3): must be (2, 3, any)"),
        (GRID[:0], (None, 3), None, "t has shape (0, 3): must be (any, 3)"),
        (GRID.long(), (2, 3), None, "t has dtype torch.int64: must be a floating-point type"),
        (GRID, (2, 3), torch.float64, "t has dtype torch.float32: must be torch.float64"),
        (GRID + math.nan, (2, 3), None, "t holds NaN or infinite values: must be finite"),
        (GRID - math.inf, (2, 3), None, "t holds NaN or infinite values: must be finite"),
        (torch.tensor([math.inf, -math.inf]), (2,), None, "t holds NaN or infinite values: must be finite"),
        (GRID.numpy(), (2, 3), None, "must be a torch.Tensor of shape (2, 3)"),
        (1.0, (), None, "t = 1.0: must be a torch.Tensor of shape ()"),
    ],
)
def test_tensor(
    value: object, shape: tuple[int | None, ...], dtype: torch.dtype | None, complaint: str | None
) -> None:
    if complaint is None:
        assert _check.tensor("t", value, *shape, dtype=dtype) is value
    else:
        with pytest.raises(ValueError, match=re.escape(complaint)):
            _check.tensor("t", value, *shape, dtype=dtype)
