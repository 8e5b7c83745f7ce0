"""Refusals and failures about engines: none installed, a failed load, a death."""

from blazar_routing.errors.base import LaneError, indented_tail
from blazar_routing.errors.shell import in_shell, in_toml

SUPPORTED_KINDS = "llamacpp, mistralrs, sglang, sdcpp, whisper, mlx"


class UnknownEngineKind(LaneError):
    """The word does not name an engine kind.

    Attributes:
        given: The word.
        model: The row whose setting ``engine`` it is; ``""`` where it is nobody's.
        tags: The installed builds, which such a setting may name too.
    """

    code = "unknown-engine-kind"

    def __init__(self, *, given: str, model: str = "", tags: tuple[str, ...] = ()) -> None:
        self.given = given
        self.model = model
        self.tags = tags
        text = f"unknown engine kind '{given}': the supported kinds are {SUPPORTED_KINDS}."
        if model:
            builds = f"an installed build ({', '.join(tags)})" if tags else "the tag of a build, once one is installed"
            text += (
                f" It is the setting `engine` of model '{model}', in [models.{in_toml(model)}] or [defaults] of the "
                f"configuration: set it to one of them or to {builds}, or take it out."
            )
        super().__init__(text)


_ADVICE_WITHOUT_ENGINE = {
    "llamacpp": (
        "Register a binary you have with `blazar engine add-local PATH`, "
        "or run `blazar demo` to fetch a tested llama.cpp engine and try it."
    ),
    "sglang": "Use a GGUF conversion of the model, which llama.cpp serves: this version cannot run SGLang yet.",
    "mistralrs": "Use a GGUF conversion of the model, which llama.cpp serves: this version cannot run mistral.rs yet.",
    "mlx": "Use a GGUF conversion of the model, which llama.cpp serves: this version cannot run mlx-lm yet.",
    "sdcpp": "This version cannot run stable-diffusion.cpp yet.",
    "whisper": "This version cannot run whisper.cpp yet.",
}


class EngineMissing(LaneError):
    """No installed engine can serve this model.

    Attributes:
        model: The row's name.
        shape: What its files are, with an article.
        kinds: The engine kinds that could serve it, best first.
        chosen: The row's own ``engine`` setting, or ``None``.
        refused_by: Builds that were tried and do not know the architecture.
        architecture: The architecture that they do not know.
    """

    code = "engine-missing"

    def __init__(
        self,
        *,
        model: str,
        shape: str,
        kinds: tuple[str, ...],
        chosen: str | None = None,
        refused_by: tuple[str, ...] = (),
        architecture: str = "",
    ) -> None:
        self.model = model
        self.shape = shape
        self.kinds = kinds
        self.chosen = chosen
        self.refused_by = refused_by
        self.architecture = architecture
        wanted = " or ".join(kinds)
        if refused_by:
            why = (
                f"the architecture '{architecture}' is unknown to {', '.join(refused_by)}, "
                "and no other installed engine says it knows it"
            )
            advice = "Register a newer build with `blazar engine add-local PATH`."
        elif chosen is not None and chosen not in kinds:
            why = f"its setting engine = '{chosen}' does not go with {shape}, which needs {wanted}"
            advice = f"Take `engine` out of [models.{in_toml(model)}] in the configuration, or set it to {wanted}."
        else:
            why = f"{shape} needs {wanted}, and none is installed"
            advice = _ADVICE_WITHOUT_ENGINE[kinds[0]]
        super().__init__(f"no installed engine can serve model '{model}': {why}. {advice}")


class EngineBinaryMissing(LaneError):
    """The engine's row points at a binary that is gone."""

    code = "engine-binary-missing"

    def __init__(self, *, engine: str, path: str) -> None:
        self.engine = engine
        self.path = path
        super().__init__(
            f"the binary of engine '{engine}' is gone: {path}. "
            "Put it back, or register another with `blazar engine add-local PATH`."
        )


class NotAnEngine(LaneError):
    """The path given to ``engine add-local`` is not an engine Blazar can drive."""

    code = "not-an-engine"

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path} is not an engine Blazar can drive: {reason}. "
            "Give the path of a llama-server binary, for example `blazar engine add-local /opt/llama.cpp/llama-server`."
        )


class ProfileRejected(LaneError):
    """A knob or an extra argument that this engine build does not have, or that Blazar owns."""

    code = "profile-rejected"

    def __init__(self, *, model: str, reason: str) -> None:
        self.model = model
        self.reason = reason
        super().__init__(
            f"the settings of model '{model}' cannot be used: {reason}. "
            "Change them with `blazar config path` at hand and try again; nothing was started."
        )


class LoadFailed(LaneError):
    """The engine ended, or refused the model, before it was ready."""

    code = "load-failed"

    def __init__(self, *, model: str, reason: str, advice: str, tail: tuple[str, ...] = ()) -> None:
        self.model = model
        self.reason = reason
        self.advice = advice
        self.tail = tail
        super().__init__(f"model '{model}' failed to load: {reason}. {advice}{indented_tail(tail)}")


class LoadTimeout(LaneError):
    """The engine was alive but not ready in time."""

    code = "load-timeout"
    retry_after_s = 30

    def __init__(self, *, model: str, seconds: float, tail: tuple[str, ...] = (), child: str = "") -> None:
        self.model = model
        self.child = child or model
        self.seconds = seconds
        self.tail = tail
        super().__init__(
            f"model '{model}' was not ready within {seconds:g} s and was stopped. "
            f"Raise `load_timeout_secs` under [models.{in_toml(model)}] if the disk is slow, "
            f"or look at `blazar logs {in_shell(self.child)}`.{indented_tail(tail)}"
        )


class EngineCrashed(LaneError):
    """The engine's process died while it was serving this request."""

    code = "engine-crashed"
    retry_after_s = 1

    def __init__(self, *, model: str, how: str, tail: tuple[str, ...] = (), child: str = "") -> None:
        self.model = model
        self.child = child or model
        self.how = how
        self.tail = tail
        super().__init__(
            f"the engine of model '{model}' died while answering ({how}); the answer is incomplete. "
            f"Send the request again; if it happens again, look at `blazar logs {in_shell(self.child)}`."
            f"{indented_tail(tail)}"
        )


class EngineUnreachable(LaneError):
    """The engine's process lives but the connection to it broke or was refused."""

    code = "engine-unreachable"
    retry_after_s = 1

    def __init__(self, *, model: str, reason: str, child: str = "") -> None:
        self.model = model
        self.child = child or model
        self.reason = reason
        super().__init__(
            f"the connection to the engine of model '{model}' broke: {reason}; the answer is incomplete. "
            f"Send the request again; if it happens again, look at `blazar logs {in_shell(self.child)}`."
        )


class EngineStalled(LaneError):
    """The engine took the request, sent nothing, and shows no progress."""

    code = "engine-stalled"

    def __init__(self, *, model: str, seconds: float) -> None:
        self.model = model
        self.seconds = seconds
        super().__init__(
            f"the engine of model '{model}' sent nothing for {seconds:g} s and showed no progress; it was replaced, "
            "and the second try went the same way. "
            f"Look at `blazar logs {in_shell(model)}`; `child_header_timeout_secs` sets the limit (0 turns it off)."
        )


class BreakerOpen(LaneError):
    """The engine died too often in a row; new starts wait."""

    code = "breaker-open"

    def __init__(self, *, model: str, crashes: int, wait_s: float, tail: tuple[str, ...] = (), child: str = "") -> None:
        self.model = model
        self.child = child or model
        self.crashes = crashes
        self.wait_s = wait_s
        self.tail = tail
        self.retry_after_s = max(1, round(wait_s))
        super().__init__(
            f"the engine of model '{model}' died {crashes} times in a row; the next start is tried in "
            f"{self.retry_after_s} s. Look at `blazar logs {in_shell(self.child)}`, or start it at once with "
            f"`blazar stop {in_shell(model)}` and a new request.{indented_tail(tail)}"
        )
