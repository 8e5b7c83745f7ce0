"""Where conversations are at home. On a clock passed in.

A conversation's next request goes back to the child that served its last one, as long as that one has room: what was
said so far is in its slots. The child is also the last among the idle ones to be evicted. It is a preference, both
times: nobody waits for a busy home while another child is free, and nobody is refused because of somebody's pause.
"""

from blazar_routing.ticket import Ticket

MOST = 4096
"""Conversations remembered; the one that was silent for longest goes first."""


class Homes:
    """The child that each conversation was served by last."""

    def __init__(self) -> None:
        self._homes: dict[tuple[str, str, str], tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._homes)

    def find(self, ticket: Ticket, *, now_s: float) -> str | None:
        """Return the key of the child where the ticket's conversation is at home, or ``None``."""
        if ticket.session is None:
            return None
        key, until_s = self._homes.get(_name(ticket), ("", now_s))
        return key if until_s > now_s else None

    def note(self, ticket: Ticket, key: str, *, now_s: float, keep_s: float) -> float | None:
        """Note that a child serves a request; return until when its conversation is at home there, if there is one.

        Args:
            ticket: The request.
            key: The child.
            now_s: The clock's time.
            keep_s: Seconds for which it stays so without another request; 0 for not at all.
        """
        if ticket.session is None:
            return None
        name = _name(ticket)
        # At the end of the order again: the dictionary's first is the one that was silent for longest.
        self._homes.pop(name, None)
        if keep_s <= 0:
            return None
        self._homes[name] = (key, now_s + keep_s)
        if len(self._homes) > MOST:
            del self._homes[next(iter(self._homes))]
        return now_s + keep_s

    def forget(self, key: str) -> None:
        """Forget who is at home in a child: somebody has stopped its model."""
        for name in [name for name, (home, _) in self._homes.items() if home == key]:
            del self._homes[name]


def _name(ticket: Ticket) -> tuple[str, str, str]:
    # Clients choose the names of their conversations: two keys that choose the same do not meet.
    return ticket.model, ticket.key, ticket.session or ""
