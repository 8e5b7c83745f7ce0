"""The arithmetic of the verdict: is a footprint within, near, or over what there is?

Contract, "unified-KV context verdict", over all accelerators together, or the host's memory where none is used:

1. ``needed = weights + KV + state + extras + overhead``; KV at its exact size, overhead the larger of 700 MiB and the
   compute estimate.
2. Over: ``needed`` exceeds the pool.
3. Tight: ``needed`` exceeds 85 % of the pool, or the pool lies below floor 2a-bis of the weights, or scratch buffers
   could come out so large that it would not do.
4. What stays on the host beside accelerators must fit the host's memory as well; where accelerators share the host's
   memory, both parts together must.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from blazar_budget.contract import OVERHEAD_BYTES, weights_floor
from blazar_budget.footprint import Footprint
from blazar_budget.machine import Memory

_TIGHT_NUMERATOR: Final = 17
_TIGHT_DENOMINATOR: Final = 20


class Room(StrEnum):
    """How a footprint lies in the memory there is."""

    AMPLE = "ample"
    TIGHT = "tight"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the arithmetic says.

    Attributes:
        room: the answer.
        pool_room: the answer for the pool alone, whatever the host lacks.
        host_short_bytes: what the host lacks for its part; 0 when it has enough.
        below_floor: the weights alone leave less than 15 % of the pool.
    """

    room: Room
    pool_room: Room
    host_short_bytes: int = 0
    below_floor: bool = False


def judge(needs: Footprint, memory: Memory) -> Judgement:
    """Compare a footprint with the memory it was made for."""
    short = _host_shortage(needs, memory)
    pool, needed = needs.pool_bytes, needs.needed_bytes
    below_floor = weights_floor(needs.weights_bytes) > pool
    tight = needed * _TIGHT_DENOMINATOR > pool * _TIGHT_NUMERATOR or below_floor or needs.worst_bytes > pool
    pool_room = Room.OVER if needed > pool else Room.TIGHT if tight else Room.AMPLE
    return Judgement(Room.OVER if short else pool_room, pool_room, short, below_floor)


def certainly_over(needs: Footprint, memory: Memory) -> bool:
    """True when the weights alone are too large, whatever the cache turns out to be."""
    weights = sum(demand.weights_bytes + OVERHEAD_BYTES for demand in needs.pool)
    host = needs.host.weights_bytes if needs.host not in needs.pool else 0
    return weights > needs.pool_bytes or host > memory.ram_bytes


def _host_shortage(needs: Footprint, memory: Memory) -> int:
    """Bytes the host lacks; 0 where the host is the pool and judged as such."""
    if needs.host in needs.pool:
        return 0
    shared = {pool.device for pool in memory.pools if pool.unified}
    held = needs.host.needed_bytes + sum(d.needed_bytes for d in needs.pool if d.device in shared)
    return max(held - memory.ram_bytes, 0)
