"""Blazar's HTTP surface: OpenAI, Anthropic and Ollama clients in front of local engines."""

from blazar_gateway.app import create_app, create_runner
from blazar_gateway.bodies import MAX_BODY_BYTES
from blazar_gateway.error_responses import WIRE_TABLE, Dialect, WireError, wire_error
from blazar_gateway.ports import (
    Catalogue,
    Daemon,
    Endpoint,
    GatewaySettings,
    Lease,
    ModelCard,
    ModelHost,
    Resident,
    Waiting,
    Watched,
)

__all__ = [
    "MAX_BODY_BYTES",
    "WIRE_TABLE",
    "Catalogue",
    "Daemon",
    "Dialect",
    "Endpoint",
    "GatewaySettings",
    "Lease",
    "ModelCard",
    "ModelHost",
    "Resident",
    "Waiting",
    "Watched",
    "WireError",
    "create_app",
    "create_runner",
    "wire_error",
]
