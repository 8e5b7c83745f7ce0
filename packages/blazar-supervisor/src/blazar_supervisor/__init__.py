"""Blazar's supervisor: spawn, watch, lend and evict engine processes."""

from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.children.orphans import Collected
from blazar_supervisor.engines.profile import Knobs, Profile
from blazar_supervisor.residency.host import EngineHost
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.preloading import Preload, PreloadState, Wanted
from blazar_supervisor.residency.states import ChildState
from blazar_supervisor.residency.views import ResidentView, WaitingView

__all__ = [
    "ChildState",
    "Collected",
    "Endpoint",
    "EngineHost",
    "Knobs",
    "Preload",
    "PreloadState",
    "Profile",
    "ResidentView",
    "SlotLease",
    "WaitingView",
    "Wanted",
]
