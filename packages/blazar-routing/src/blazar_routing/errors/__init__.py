"""The tree of errors that can reach a client.

::

    LaneError
    ├── models       ModelNotFound, ModelFileMissing, ModelUnreadable, ModelDoesNotFit,
    │                ContextDoesNotFit, ModelStopped
    ├── engines      UnknownEngineKind, EngineMissing, EngineBinaryMissing, NotAnEngine, ProfileRejected,
    │                LoadFailed, LoadTimeout, EngineCrashed, EngineUnreachable, EngineStalled, BreakerOpen
    ├── access       KeyMissing, KeyInvalid, KeysConflict, ModelNotAllowed, TooManyConcurrent, RateLimited,
    │                DailyQuotaSpent, ManagementClosed, LastKey, KeyNameTaken, NoSuchKey, KeyMalformed
    ├── pulls        PullRefused, PullNotFound, PullFailed
    ├── admission    QueueFull, DeadlineMissed, ShuttingDown
    └── requests     InvalidRequest, BodyTooLarge, PromptTooLong, UnsupportedEndpoint, ResponseNotFound,
                     PreviousResponseNotFound, MethodNotAllowed, OriginRefused, HostRefused, AdminOnly, InternalError
"""

from blazar_routing.errors.access import (
    DailyQuotaSpent,
    KeyInvalid,
    KeyMalformed,
    KeyMissing,
    KeyNameTaken,
    KeysConflict,
    LastKey,
    ManagementClosed,
    ModelNotAllowed,
    NoSuchKey,
    RateLimited,
    TooManyConcurrent,
)
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
    ContextDoesNotFit,
    ModelDoesNotFit,
    ModelFileMissing,
    ModelNotFound,
    ModelStopped,
    ModelUnreadable,
)
from blazar_routing.errors.pulls import PullFailed, PullNotFound, PullRefused
from blazar_routing.errors.requests import (
    AdminOnly,
    BodyTooLarge,
    HostRefused,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    OriginRefused,
    PreviousResponseNotFound,
    PromptTooLong,
    ResponseNotFound,
    UnsupportedEndpoint,
)

__all__ = [
    "AdminOnly",
    "BodyTooLarge",
    "BreakerOpen",
    "ContextDoesNotFit",
    "DailyQuotaSpent",
    "DeadlineMissed",
    "EngineBinaryMissing",
    "EngineCrashed",
    "EngineMissing",
    "EngineStalled",
    "EngineUnreachable",
    "HostRefused",
    "InternalError",
    "InvalidRequest",
    "KeyInvalid",
    "KeyMalformed",
    "KeyMissing",
    "KeyNameTaken",
    "KeysConflict",
    "LaneError",
    "LastKey",
    "LoadFailed",
    "LoadTimeout",
    "ManagementClosed",
    "MethodNotAllowed",
    "ModelDoesNotFit",
    "ModelFileMissing",
    "ModelNotAllowed",
    "ModelNotFound",
    "ModelStopped",
    "ModelUnreadable",
    "NoSuchKey",
    "NotAnEngine",
    "OriginRefused",
    "PreviousResponseNotFound",
    "ProfileRejected",
    "PromptTooLong",
    "PullFailed",
    "PullNotFound",
    "PullRefused",
    "QueueFull",
    "RateLimited",
    "ResponseNotFound",
    "ShuttingDown",
    "TooManyConcurrent",
    "UnknownEngineKind",
    "UnsupportedEndpoint",
]
