"""The tree of errors that can reach a client.

::

    LaneError
    ├── models       ModelNotFound, ModelFileMissing, ModelUnreadable, ModelDoesNotFit, ModelStopped
    ├── engines      UnknownEngineKind, EngineMissing, EngineBinaryMissing, NotAnEngine, ProfileRejected,
    │                LoadFailed, LoadTimeout, EngineCrashed, EngineUnreachable, EngineStalled, BreakerOpen
    ├── admission    QueueFull, DeadlineMissed, ShuttingDown
    └── requests     InvalidRequest, BodyTooLarge, UnsupportedEndpoint, MethodNotAllowed, OriginRefused,
                     HostRefused, AdminOnly, InternalError
"""

from blazar_routing.errors.admission import DeadlineMissed, QueueFull, ShuttingDown
from blazar_routing.errors.base import LaneError
from blazar_routing.errors.engines import (
    BreakerOpen,
    EngineBinaryMissing,
    EngineCrashed,
    EngineMissing,
    EngineStalled,
    EngineUnreachable,
    LoadFailed,
    LoadTimeout,
    NotAnEngine,
    ProfileRejected,
    UnknownEngineKind,
)
from blazar_routing.errors.models import (
    ModelDoesNotFit,
    ModelFileMissing,
    ModelNotFound,
    ModelStopped,
    ModelUnreadable,
)
from blazar_routing.errors.requests import (
    AdminOnly,
    BodyTooLarge,
    HostRefused,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    OriginRefused,
    UnsupportedEndpoint,
)

__all__ = [
    "AdminOnly",
    "BodyTooLarge",
    "BreakerOpen",
    "DeadlineMissed",
    "EngineBinaryMissing",
    "EngineCrashed",
    "EngineMissing",
    "EngineStalled",
    "EngineUnreachable",
    "HostRefused",
    "InternalError",
    "InvalidRequest",
    "LaneError",
    "LoadFailed",
    "LoadTimeout",
    "MethodNotAllowed",
    "ModelDoesNotFit",
    "ModelFileMissing",
    "ModelNotFound",
    "ModelStopped",
    "ModelUnreadable",
    "NotAnEngine",
    "OriginRefused",
    "ProfileRejected",
    "QueueFull",
    "ShuttingDown",
    "UnknownEngineKind",
    "UnsupportedEndpoint",
]
