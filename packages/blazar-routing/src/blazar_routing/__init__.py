"""Blazar's pure decisions: which engine serves a model, and whose turn it is.

Nothing here reads a clock, a file or a socket: facts come in, decisions go out.
"""

from blazar_routing.errors import LaneError
from blazar_routing.kinds import EngineKind
from blazar_routing.lanes import (
    Build,
    RoutingPolicy,
    Subject,
    candidate_lanes,
    kinds_for,
    missing_kinds,
    route_format,
    serving_lane,
)
from blazar_routing.queue import AdmissionQueue, Capacity, Decision, Grant, Load, Refuse
from blazar_routing.shape import FormatShape, ShardFormat, is_quantized_safetensors
from blazar_routing.ticket import Priority, Ticket

__all__ = [
    "AdmissionQueue",
    "Build",
    "Capacity",
    "Decision",
    "EngineKind",
    "FormatShape",
    "Grant",
    "LaneError",
    "Load",
    "Priority",
    "Refuse",
    "RoutingPolicy",
    "ShardFormat",
    "Subject",
    "Ticket",
    "candidate_lanes",
    "is_quantized_safetensors",
    "kinds_for",
    "missing_kinds",
    "route_format",
    "serving_lane",
]
