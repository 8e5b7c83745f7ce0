"""Refusals about a model: its name, its file, its memory."""

from blazar_routing.errors.base import LaneError, quoted_list
from blazar_routing.errors.shell import in_shell


class ModelNotFound(LaneError):
    """No model row has this name.

    Ollama's clients look for the words "not found", so they stay at the start.
    """

    code = "model-not-found"

    def __init__(self, *, model: str, near: tuple[str, ...] = ()) -> None:
        self.model = model
        self.near = near
        hint = f" Did you mean {quoted_list(near)}?" if near else ""
        super().__init__(
            f"model '{model}' not found.{hint} "
            "See what there is with `blazar models list`, or add a file with `blazar models add PATH`."
        )


class ModelFileMissing(LaneError):
    """The row is there, the weights are not."""

    code = "model-file-missing"

    def __init__(self, *, model: str, path: str) -> None:
        self.model = model
        self.path = path
        super().__init__(
            f"the file of model '{model}' is gone: {path}. "
            f"Put it back, or remove the row with `blazar models rm {in_shell(model)}` "
            "and add the file where it is now with `blazar models add PATH`."
        )


class ModelUnreadable(LaneError):
    """The file is there but is not a model that an engine could load."""

    code = "model-unreadable"

    def __init__(self, *, path: str, reason: str, advice: str | None = None) -> None:
        self.path = path
        self.reason = reason
        what_to_do = advice or (
            "Check that the download is complete (size and sha256 against its source) and fetch it again if not."
        )
        super().__init__(f"{path} cannot be served: {reason}. {what_to_do}")


class ModelDoesNotFit(LaneError):
    """The memory verdict refuses the model; the text (with its levers) is the budget's."""

    code = "model-does-not-fit"

    def __init__(self, *, model: str, verdict: str) -> None:
        self.model = model
        self.verdict = verdict
        super().__init__(f"model '{model}' does not fit: {verdict}")


class ContextDoesNotFit(LaneError):
    """The model fits, but not with the context that the client asks for; what runs has not been touched.

    Attributes:
        model: The row's name.
        ctx_tokens: What was asked for.
        verdict: The budget's text with its levers, or why nothing can be unloaded for it.
    """

    code = "context-does-not-fit"

    def __init__(self, *, model: str, ctx_tokens: int, verdict: str) -> None:
        self.model = model
        self.ctx_tokens = ctx_tokens
        self.verdict = verdict
        super().__init__(
            f"model '{model}' cannot be given the context of {ctx_tokens} tokens that num_ctx asks for: {verdict} "
            "Or send a smaller `num_ctx`, or none: then the model is served with what fits."
        )


class ModelStopped(LaneError):
    """Somebody stopped the model while this request was waiting for it or using it."""

    code = "model-stopped"
    retry_after_s = 1

    def __init__(self, *, model: str) -> None:
        self.model = model
        super().__init__(
            f"model '{model}' was stopped while this request needed it. Send the request again to load it anew."
        )
