"""What the gateway needs of the rest of the daemon, in its own words.

Whoever runs engines fits :class:`ModelHost`; whoever knows the model rows fits :class:`Catalogue`; the daemon
itself fits :class:`Daemon`. They fit by shape and import nothing from here; ``blazar_cli.daemon`` alone hands
them over.
"""

from blazar_gateway.ports.daemon import Daemon, ModelPulls, PullState, ResponseMemory
from blazar_gateway.ports.engines import Endpoint, GatewaySettings, Lease, ModelHost, Resident, Waiting, Watched
from blazar_gateway.ports.keys import KeyRegistry, NewKey
from blazar_gateway.ports.models import Catalogue, ModelCard, ModelDetails, ModelRegistry, Overlay

__all__ = [
    "Catalogue",
    "Daemon",
    "Endpoint",
    "GatewaySettings",
    "KeyRegistry",
    "Lease",
    "ModelCard",
    "ModelDetails",
    "ModelHost",
    "ModelPulls",
    "ModelRegistry",
    "NewKey",
    "Overlay",
    "PullState",
    "Resident",
    "ResponseMemory",
    "Waiting",
    "Watched",
]
