"""Stand-ins for the gateway's neighbours, for its own tests and for those who wire it.

Fakes are named for how they misbehave. :mod:`~blazar_gateway.testing.contract` holds what every host has to keep to;
fakes and the real one pass it alike.
"""

from blazar_gateway.testing import contract
from blazar_gateway.testing.client import Answer, RawClient, fetch
from blazar_gateway.testing.conditions import until
from blazar_gateway.testing.engine import Exchange, ScriptedEngine
from blazar_gateway.testing.frames import chat_frame, chat_stream, completion_frame, done_frame, error_frame
from blazar_gateway.testing.neighbours import (
    FakeLease,
    FixedCatalogue,
    HangingLease,
    HangsThenRecovers,
    LoadingHost,
    PlainSettings,
    ReadyHost,
    RecordingDaemon,
    RefusingHost,
    card,
)
from blazar_gateway.testing.served import Served, serve

__all__ = [
    "Answer",
    "Exchange",
    "FakeLease",
    "FixedCatalogue",
    "HangingLease",
    "HangsThenRecovers",
    "LoadingHost",
    "PlainSettings",
    "RawClient",
    "ReadyHost",
    "RecordingDaemon",
    "RefusingHost",
    "ScriptedEngine",
    "Served",
    "card",
    "chat_frame",
    "chat_stream",
    "completion_frame",
    "contract",
    "done_frame",
    "error_frame",
    "fetch",
    "serve",
    "until",
]
