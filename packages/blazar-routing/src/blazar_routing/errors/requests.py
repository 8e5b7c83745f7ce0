"""Refusals about the request itself, whichever dialect it came in."""

from blazar_routing.errors.base import LaneError
from blazar_routing.errors.shell import in_shell, in_toml


class InvalidRequest(LaneError):
    """The body or a parameter is not what the route takes.

    Attributes:
        param: The field at fault, dotted, or ``None``.
    """

    code = "invalid-request"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        self.param = param
        super().__init__(message)


class BodyTooLarge(LaneError):
    """The body is over the limit."""

    code = "body-too-large"

    def __init__(self, *, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the request body is larger than {limit_bytes >> 20} MiB, the most this server takes. "
            "Send less: shorten the history, or make images smaller."
        )


class PromptTooLong(LaneError):
    """The prompt does not fit into the context that the model is loaded with; nothing is ever cut off.

    The text begins with words that agents read the two figures from, to shorten the conversation and try again.

    Attributes:
        model: The row's name.
        needed: Tokens of the prompt, counted by the engine.
        available: The most tokens a prompt may have.
        ctx: Tokens of the context, which holds prompt and answer.
        trained: Tokens that the model was trained for, or ``None`` where that is not known.
        param: The field that holds the prompt.
    """

    code = "prompt-too-long"

    def __init__(
        self, *, model: str, needed: int, available: int, ctx: int, trained: int | None = None, param: str
    ) -> None:
        self.model = model
        self.needed = needed
        self.available = available
        self.ctx = ctx
        self.trained = trained
        self.param = param
        super().__init__(
            f"prompt is too long: {needed} tokens > {available} maximum. Model '{model}' is loaded with a context of "
            f"{ctx} tokens, for the prompt and its answer together. Send less (a shorter history, fewer documents or "
            f"tools), or {_more_room(model, needed, trained)}."
        )


def _more_room(model: str, needed: int, trained: int | None) -> str:
    if trained is not None and needed >= trained:
        return f"choose a model with a longer context: this one was trained for {trained} tokens"
    wanted = -(-needed * 5 // 4 // 1024) * 1024
    ctx = wanted if trained is None else min(wanted, trained)
    table = f"[models.{in_toml(model)}]"
    return f"set `ctx = {ctx}` under {table} in config.toml and unload the model: `blazar stop {in_shell(model)}`"


class UnsupportedEndpoint(LaneError):
    """No such route; 404, since clients retry a 501."""

    code = "unsupported-endpoint"

    def __init__(self, *, method: str, path: str) -> None:
        self.method = method
        self.path = path
        super().__init__(
            f"{method} {path} is not an endpoint of this server. "
            "Chat is at POST /v1/chat/completions; GET /v1/models lists the models."
        )


class ResponseNotFound(LaneError):
    """No response of the caller's is kept under this id."""

    code = "response-not-found"

    def __init__(self, *, response_id: str) -> None:
        self.response_id = response_id
        super().__init__(
            f"response '{response_id}' not found: it was never stored, has expired, or belongs to another key. "
            "Ask for it to be kept with `store: true` when you create it."
        )


class PreviousResponseNotFound(LaneError):
    """A request continues a response that is not kept; its text would be missing from the conversation."""

    code = "previous-response-not-found"

    def __init__(self, *, response_id: str) -> None:
        self.response_id = response_id
        super().__init__(
            f"previous response '{response_id}' not found: it was never stored, has expired, or belongs to another "
            "key. Send the whole conversation as `input` instead, or keep responses with `store: true`."
        )


class MethodNotAllowed(LaneError):
    """The route exists for other methods."""

    code = "method-not-allowed"

    def __init__(self, *, method: str, path: str, allowed: tuple[str, ...]) -> None:
        self.method = method
        self.path = path
        self.allowed = allowed
        super().__init__(f"{path} does not take {method}; it takes {', '.join(allowed)}.")


class OriginRefused(LaneError):
    """A web page of another origin asks; refused before any work."""

    code = "origin-refused"

    def __init__(self, *, origin: str) -> None:
        self.origin = origin
        super().__init__(
            f"requests from the web origin '{origin}' are not allowed. "
            "Add it to `allowed_origins` in the configuration if you trust that page."
        )


class HostRefused(LaneError):
    """The Host header names something else than this server (DNS rebinding)."""

    code = "host-refused"

    def __init__(self, *, host: str) -> None:
        self.host = host
        super().__init__(
            f"this server does not answer to the host name '{host}'. "
            "Use its address, or add the name to `allowed_hosts` in the configuration."
        )


class AdminOnly(LaneError):
    """A management call from somebody who may not manage."""

    code = "admin-only"

    def __init__(self, *, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what} is for the owner of this server: "
            "use the `blazar` command on the machine itself, or an unscoped key."
        )


class InternalError(LaneError):
    """A fault of Blazar's own; the log has the traceback under the same request id."""

    code = "internal-error"

    def __init__(self, *, request_id: str) -> None:
        self.request_id = request_id
        super().__init__(
            f"an internal error stopped this request ({request_id}). `blazar logs` shows it under that id; "
            "the request can be sent again."
        )
