"""The bodies of the calls that manage the daemon and its keys."""

from blazar_gateway.forms.fields import NAME, TEXT, TEXTS, choice
from blazar_gateway.forms.form import Described, Form

_LIMIT = Described({"type": "integer", "minimum": 0})

STOP = Form("StopRequest", {"model": NAME}, required=("model",))

EXPLAIN = Form("ExplainRequest", {"model": NAME}, required=("model",))

NEW_KEY = Form(
    "NewKeyRequest",
    {
        "name": Described({"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,128}$"}),
        "models": TEXTS,
        "rpm": _LIMIT,
        "tpm": _LIMIT,
        "daily_tokens": _LIMIT,
        "max_concurrent": _LIMIT,
        "weight": Described({"type": "integer", "minimum": 1}),
        "max_priority": choice("high", "normal", "low"),
        "expires": TEXT,
    },
    required=("name",),
)
