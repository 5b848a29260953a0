"""Twenty questions on a tree: the reader against a strategy that listens and one that does not."""

from collections.abc import Sequence

import anywidget
import traitlets

from fvbook import _check
from fvbook.widgets import _assets

PLAYERS = ("you", "adaptive", "fixed")


class TwentyQuestions(anywidget.AnyWidget):
    """A game: find the hidden leaf of a tree by noisy questions, each to one node.

    All players read the same answers b = θ + N(0, τ²). The adaptive one follows the signs down the tree
    (`policies.one_coordinate`), the one with a fixed list reads the nodes in order
    (`policies.breadth_first_keys`); beliefs are exact (`inference.tree_log_posterior`). The curves below the
    tree are means over 400 games.

    Parameters
    ----------
    levels : int
        K, from 2 to 5, to fit a page.
    decay : float
        α in (0, 1).
    noise_var : float
        τ² > 0.
    budget : int, optional
        M, the number of questions, from 1 to 2^K − 1; K by default.
    seed : int
        ≥ 0, of the leaf and the noise.
    asked : sequence of int
        Nodes that the reader has asked already, at most M, none twice. Their answers are in the trait
        `outcomes` once the game is drawn.
    player : {"you", "adaptive", "fixed"}
        Whose questions the tree shows.

    Raises
    ------
    ValueError
        If an argument is not as described.
    """

    _esm = _assets.script("twenty_questions")
    _css = _assets.style("twenty_questions")
    levels = traitlets.Int(min=2, max=5).tag(sync=True)
    decay = traitlets.Float().tag(sync=True)
    noise_var = traitlets.Float().tag(sync=True)
    budget = traitlets.Int(min=1).tag(sync=True)
    seed = traitlets.Int(min=0).tag(sync=True)
    asked: traitlets.List[int] = traitlets.List(traitlets.Int()).tag(sync=True)
    outcomes: traitlets.List[float] = traitlets.List(traitlets.Float()).tag(sync=True)
    player = traitlets.Enum(PLAYERS).tag(sync=True)

    def __init__(
        self,
        levels: int = 4,
        decay: float = 0.8,
        *,
        noise_var: float = 0.04,
        budget: int | None = None,
        seed: int = 5,
        asked: Sequence[int] = (0,),
        player: str = "you",
    ) -> None:
        levels = _check.integer("levels", levels, 2, 5)
        dim = 2**levels - 1
        budget = levels if budget is None else _check.integer("budget", budget, 1, dim)
        for i, node in enumerate(asked):
            _check.integer(f"asked[{i}]", node, 0, dim - 1)
        if len(set(asked)) != len(asked) or len(asked) > budget:
            raise ValueError(f"asked = {list(asked)!r}: must be at most {budget} nodes, none twice")
        if player not in PLAYERS:
            raise ValueError(f"player = {player!r}: must be one of {', '.join(PLAYERS)}")
        super().__init__(
            levels=levels,
            decay=_check.real("decay", decay, 0, 1, open_=True),
            noise_var=_check.real("noise_var", noise_var, 0, open_=True),
            budget=budget,
            seed=_check.integer("seed", seed, 0),
            asked=list(asked),
            player=player,
        )

    def __repr__(self) -> str:
        return f"TwentyQuestions(levels={self.levels}, decay={self.decay}, noise_var={self.noise_var})"
