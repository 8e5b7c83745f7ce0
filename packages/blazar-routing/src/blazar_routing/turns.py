"""Taking turns: when a model that waits may take the place of one that is loaded.

With room for some models but not for all that are asked for, each load throws somebody out. The rule:

* A loaded model that is idle and that nobody waits for gives way at once.
* One with work keeps its turn for a while (:meth:`TurnRule.turn_s`): long enough that loading takes a small,
  known share of the time. Its requests are served together meanwhile.
* After that it gives way to a model whose most urgent request, less the time to load, is due before its own;
  and in any case once the other has waited :attr:`TurnRule.max_turn_s`.
* Giving way means: no new request is started on it, those that run finish, then it goes. Nothing is aborted.
* Loads that throw somebody out are counted: in any minute no more than :attr:`TurnRule.max_swaps_per_minute` are begun.

So a request for one of ``m`` models that take turns waits at most ``m - 1`` turns, each at most
``max_turn_s`` plus the longest running answer plus one load.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnRule:
    """The numbers of the rule; see the module.

    Attributes:
        min_turn_s: The shortest turn of a model that has work.
        max_turn_s: The longest while others wait.
        turn_per_load: A turn's length in multiples of the time its load took: 4.0 lets loading take a fifth.
        max_swaps_per_minute: Loads that throw somebody out, in any 60 seconds.
    """

    min_turn_s: float = 5.0
    max_turn_s: float = 60.0
    turn_per_load: float = 4.0
    max_swaps_per_minute: int = 30

    def turn_s(self, load_s: float) -> float:
        """Return how long a model that took ``load_s`` to load keeps its turn while it has work."""
        return min(max(self.min_turn_s, self.turn_per_load * load_s), self.max_turn_s)


@dataclass(frozen=True, slots=True)
class Holder:
    """A loaded model that would have to go.

    Attributes:
        ready_since_s: When its turn began.
        load_s: Seconds its load took.
        in_flight: Requests that run on it.
        due_s: When its own most urgent waiting request is due, or ``None`` when nobody waits for it.
    """

    ready_since_s: float
    load_s: float
    in_flight: int
    due_s: float | None


@dataclass(frozen=True, slots=True)
class Challenger:
    """A model that waits to be loaded.

    Attributes:
        waiting_since_s: When its oldest request came.
        due_s: When its most urgent request is due.
        load_s: Seconds its load is expected to take.
    """

    waiting_since_s: float
    due_s: float
    load_s: float


def gives_way(rule: TurnRule, holder: Holder, challenger: Challenger, *, now_s: float) -> bool:
    """Return whether ``holder`` should stop taking requests in favour of ``challenger``."""
    if holder.in_flight == 0 and holder.due_s is None:
        return True
    if now_s - holder.ready_since_s < rule.turn_s(holder.load_s):
        return False
    if holder.due_s is None or challenger.due_s - challenger.load_s < holder.due_s:
        return True
    return now_s - challenger.waiting_since_s >= rule.max_turn_s


def gives_way_at_s(rule: TurnRule, holder: Holder, challenger: Challenger) -> float:
    """Return the time at which :func:`gives_way` will hold at the latest, if nothing else happens."""
    turn_over_s = holder.ready_since_s + rule.turn_s(holder.load_s)
    if holder.due_s is None or challenger.due_s - challenger.load_s < holder.due_s:
        return turn_over_s
    return max(turn_over_s, challenger.waiting_since_s + rule.max_turn_s)
