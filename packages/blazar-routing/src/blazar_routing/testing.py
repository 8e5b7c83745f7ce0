"""For tests: one error of each class, as whoever shows them to people has to show them."""

from blazar_routing import errors
from blazar_routing.errors import LaneError

TAIL = ("first line", "second line")


def one_of_each() -> list[LaneError]:
    """Return an error of every class, with facts such as they have."""
    return [
        errors.ModelNotFound(model="lama", near=("llama", "lamb")),
        errors.ModelFileMissing(model="m", path="/weights/m.gguf"),
        errors.ModelUnreadable(path="/weights/m.gguf", reason="it ends in the middle of its header"),
        errors.ModelDoesNotFit(model="m", verdict="it needs 9 GiB, and 4 GiB are free."),
        errors.ContextDoesNotFit(model="m", ctx_tokens=131072, verdict="it needs 9 GiB, and 4 GiB are free."),
        errors.ModelStopped(model="m"),
        errors.UnknownEngineKind(given="vllm"),
        errors.EngineMissing(model="m", shape="a GGUF file", kinds=("llamacpp", "mistralrs")),
        errors.EngineBinaryMissing(engine="local", path="/opt/llama-server"),
        errors.NotAnEngine(path="/bin/ls", reason="it does not know --list-devices"),
        errors.ProfileRejected(model="m", reason="the engine has no flag --ctx-sice (did you mean --ctx-size?)"),
        errors.LoadFailed(model="m", reason="the file is cut short", advice="Fetch it again.", tail=TAIL),
        errors.LoadTimeout(model="m", seconds=180, tail=TAIL),
        errors.EngineCrashed(model="m", how="signal 9", tail=TAIL),
        errors.EngineUnreachable(model="m", reason="connection reset"),
        errors.EngineStalled(model="m", seconds=120),
        errors.BreakerOpen(model="m", crashes=3, wait_s=29.6, tail=TAIL),
        errors.QueueFull(model="m", waiting=512, retry_after_s=5),
        errors.DeadlineMissed(model="m", waited_s=2.04),
        errors.ShuttingDown(),
        errors.InvalidRequest("`messages` must be a list", param="messages"),
        errors.BodyTooLarge(limit_bytes=50 << 20),
        errors.PromptTooLong(model="m", needed=5000, available=4095, ctx=4096, trained=8192, param="messages"),
        errors.UnsupportedEndpoint(method="POST", path="/v1/fine_tuning/jobs"),
        errors.ResponseNotFound(response_id="resp_1"),
        errors.PreviousResponseNotFound(response_id="resp_1"),
        errors.MethodNotAllowed(method="GET", path="/v1/chat/completions", allowed=("POST",)),
        errors.OriginRefused(origin="https://evil.example"),
        errors.HostRefused(host="evil.example"),
        errors.AdminOnly(what="stopping a model"),
        errors.InternalError(request_id="req-1"),
        errors.KeyMissing(),
        errors.KeyInvalid(),
        errors.KeysConflict(),
        errors.ModelNotAllowed(key="k", model="m", models=("a", "b")),
        errors.TooManyConcurrent(key="k", limit=2),
        errors.RateLimited(key="k", unit="tokens", limit=1000, retry_after_s=7),
        errors.DailyQuotaSpent(key="k", limit=1000, retry_after_s=3600),
        errors.ManagementClosed(),
        errors.LastKey(name="k"),
        errors.KeyNameTaken(name="k"),
        errors.NoSuchKey(name="k"),
        errors.KeyMalformed("`rpm` must be a non-negative integer, not -1"),
        errors.PullRefused("'x y' names nothing that can be pulled."),
        errors.PullNotFound("there is no repository 'a/b'."),
        errors.PullFailed("the server sent a web page."),
    ]
