"""Does it fit? The answer before anything is spawned; the arithmetic is in :mod:`blazar_budget.judgement`.

A model over budget is refused with one text that names four ways out and the values that would do. One that is tight
is served, ``-ngl`` left to the engine's own fitter, with a warning. An architecture whose cache is not known is
estimated high, warned about, and never refused on that guess: only when its weights alone are too large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from blazar_budget import teaching
from blazar_budget.errors import BudgetError
from blazar_budget.footprint import Footprint, Launch, footprint
from blazar_budget.judgement import Room, certainly_over, judge
from blazar_budget.levers import Levers, find_levers
from blazar_budget.machine import Memory
from blazar_gguf import GgufMeta


class Answer(StrEnum):
    """A verdict in one word, for listings and JSON."""

    FIT = "fit"
    FIT_WITH_WARNING = "fit-with-warning"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Fit:
    """It fits with room to spare.

    Attributes:
        footprint: the needs behind the answer.
    """

    footprint: Footprint
    answer: Answer = Answer.FIT
    serves: bool = True


@dataclass(frozen=True, slots=True)
class FitWithWarning:
    """It may be spawned, but it is tight or not certain.

    Attributes:
        footprint: the needs behind the answer.
        warnings: one sentence each.
        fitter_owns_layers: leave ``-ngl`` out, so that the engine's own fitter may keep layers on the host.
    """

    footprint: Footprint
    warnings: tuple[str, ...]
    fitter_owns_layers: bool = True
    answer: Answer = Answer.FIT_WITH_WARNING
    serves: bool = True


@dataclass(frozen=True, slots=True)
class Refuse:
    """It can not be served like this; nothing is spawned or evicted for it.

    Attributes:
        text: the whole teaching text.
        footprint: the needs; None when the engine refuses the settings whatever the memory.
        levers: the values that would fit; None in that case too.
    """

    text: str
    footprint: Footprint | None = None
    levers: Levers | None = None
    answer: Answer = Answer.REFUSE
    serves: bool = False


Verdict: TypeAlias = Fit | FitWithWarning | Refuse


def unified_ctx_verdict(meta: GgufMeta, launch: Launch, memory: Memory, *, parts: Sequence[GgufMeta] = ()) -> Verdict:
    """Say whether a model may be spawned like this.

    Args:
        meta: header of the model.
        launch: how it would be started.
        memory: what there is: :meth:`Machine.capacity` to learn whether it could ever fit,
            :meth:`Machine.available` to learn whether something must go first.
        parts: headers of all parts of a split model, the first included.
    """
    try:
        needs = footprint(meta, launch, memory, parts=parts)
    except BudgetError as error:
        return Refuse(str(error))
    judgement = judge(needs, memory)
    doubts = teaching.doubt_warnings(needs)
    match judgement.room:
        case Room.OVER if doubts and not certainly_over(needs, memory):
            return FitWithWarning(needs, (*doubts, teaching.guess_warning(needs)))
        case Room.OVER:
            levers = find_levers(meta, launch, needs, memory, parts=parts)
            return Refuse(teaching.refusal(needs, judgement, levers), needs, levers)
        case Room.TIGHT:
            return FitWithWarning(needs, (*teaching.tight_warnings(needs, judgement), *doubts))
        case Room.AMPLE if doubts:
            return FitWithWarning(needs, doubts, fitter_owns_layers=False)
        case Room.AMPLE:
            return Fit(needs)
