"""Every teaching text, once, as people read it."""

import pytest
from inline_snapshot import snapshot

from blazar_routing import errors
from blazar_routing.testing import one_of_each


def texts() -> dict[str, str]:
    return {type(error).__name__: str(error) for error in one_of_each()}


def test_every_error_class_has_its_text_in_the_table() -> None:
    assert set(texts()) == {name for name in errors.__all__ if name != "LaneError"}


def test_codes_are_kebab_case_and_unique() -> None:
    codes = [getattr(errors, name).code for name in errors.__all__]
    assert len(set(codes)) == len(codes)
    assert all(code == code.lower() and "_" not in code and " " not in code for code in codes)


def test_teaching_texts_are_what_they_were() -> None:
    assert texts() == snapshot(
        {
            "ModelNotFound": "model 'lama' not found. Did you mean 'llama' or 'lamb'? See what there is with `blazar models list`, or add a file with `blazar models add PATH`.",
            "ModelFileMissing": "the file of model 'm' is gone: /weights/m.gguf. Put it back, or remove the row with `blazar models rm m` and add the file where it is now with `blazar models add PATH`.",
            "ModelUnreadable": "/weights/m.gguf cannot be served: it ends in the middle of its header. Check that the download is complete (size and sha256 against its source) and fetch it again if not.",
            "ModelDoesNotFit": "model 'm' does not fit: it needs 9 GiB, and 4 GiB are free.",
            "ContextDoesNotFit": (
                "model 'm' cannot be given the context of 131072 tokens that num_ctx asks for: it needs 9 GiB, "
                "and 4 GiB are free. Or send a smaller `num_ctx`, or none: then the model is served with what fits."
            ),
            "ModelStopped": "model 'm' was stopped while this request needed it. Send the request again to load it anew.",
            "UnknownEngineKind": "unknown engine kind 'vllm': the supported kinds are llamacpp, mistralrs, sglang, sdcpp, whisper, mlx.",
            "EngineMissing": "no installed engine can serve model 'm': a GGUF file needs llamacpp or mistralrs, and none is installed. Register a binary you have with `blazar engine add-local PATH`, or run `blazar demo` to fetch a tested llama.cpp engine and try it.",
            "EngineBinaryMissing": "the binary of engine 'local' is gone: /opt/llama-server. Put it back, or register another with `blazar engine add-local PATH`.",
            "NotAnEngine": "/bin/ls is not an engine Blazar can drive: it does not know --list-devices. Give the path of a llama-server binary, for example `blazar engine add-local /opt/llama.cpp/llama-server`.",
            "ProfileRejected": "the settings of model 'm' cannot be used: the engine has no flag --ctx-sice (did you mean --ctx-size?). Change them with `blazar config path` at hand and try again; nothing was started.",
            "LoadFailed": """\
model 'm' failed to load: the file is cut short. Fetch it again.
The engine's last lines:
  first line
  second line\
""",
            "LoadTimeout": """\
model 'm' was not ready within 180 s and was stopped. Raise `load_timeout_secs` under [models."m"] if the disk is slow, or look at `blazar logs m`.
The engine's last lines:
  first line
  second line\
""",
            "EngineCrashed": """\
the engine of model 'm' died while answering (signal 9); the answer is incomplete. Send the request again; if it happens again, look at `blazar logs m`.
The engine's last lines:
  first line
  second line\
""",
            "EngineUnreachable": "the connection to the engine of model 'm' broke: connection reset; the answer is incomplete. Send the request again; if it happens again, look at `blazar logs m`.",
            "EngineStalled": "the engine of model 'm' sent nothing for 120 s and showed no progress; it was replaced, and the second try went the same way. Look at `blazar logs m`; `child_header_timeout_secs` sets the limit (0 turns it off).",
            "BreakerOpen": """\
the engine of model 'm' died 3 times in a row; the next start is tried in 30 s. Look at `blazar logs m`, or start it at once with `blazar stop m` and a new request.
The engine's last lines:
  first line
  second line\
""",
            "QueueFull": "the queue for model 'm' is full: 512 requests wait already, this would be number 513. Try again in 5 s, or raise `queue_limit` in the configuration.",
            "DeadlineMissed": "model 'm' could not start this request within its deadline; it waited 2.0 s. Try again, or allow more time with the `x-blazar-deadline-ms` header.",
            "ShuttingDown": "the daemon is shutting down and takes no new requests. Try again once it is back (`blazar serve` starts it).",
            "InvalidRequest": "`messages` must be a list",
            "BodyTooLarge": "the request body is larger than 50 MiB, the most this server takes. Send less: shorten the history, or make images smaller.",
            "PromptTooLong": "prompt is too long: 5000 tokens > 4095 maximum. Model 'm' is loaded with a context of 4096 tokens, for the prompt and its answer together. Send less (a shorter history, fewer documents or tools), or set `ctx = 7168` under [models.\"m\"] in config.toml and unload the model: `blazar stop m`.",
            "UnsupportedEndpoint": "POST /v1/fine_tuning/jobs is not an endpoint of this server. Chat is at POST /v1/chat/completions; GET /v1/models lists the models.",
            "ResponseNotFound": "response 'resp_1' not found: it was never stored, has expired, or belongs to another key. Ask for it to be kept with `store: true` when you create it.",
            "PreviousResponseNotFound": "previous response 'resp_1' not found: it was never stored, has expired, or belongs to another key. Send the whole conversation as `input` instead, or keep responses with `store: true`.",
            "MethodNotAllowed": "/v1/chat/completions does not take GET; it takes POST.",
            "OriginRefused": "requests from the web origin 'https://evil.example' are not allowed. Add it to `allowed_origins` in the configuration if you trust that page.",
            "HostRefused": "this server does not answer to the host name 'evil.example'. Use its address, or add the name to `allowed_hosts` in the configuration.",
            "AdminOnly": "stopping a model is for the owner of this server: use the `blazar` command on the machine itself, or an unscoped key.",
            "InternalError": "an internal error stopped this request (req-1). `blazar logs` shows it under that id; the request can be sent again.",
            "KeyMissing": "this server needs an API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`. Its owner makes one with `blazar keys add NAME`.",
            "KeyInvalid": "the API key is not known to this server. Its owner makes a new one with `blazar keys add NAME` or `blazar keys rotate NAME`.",
            "KeysConflict": "`Authorization` and `x-api-key` carry different keys. Send one of them, or the same key in both.",
            "ModelNotAllowed": "the API key 'k' may not use model 'm': it is for 'a' or 'b'.",
            "TooManyConcurrent": "the API key 'k' has 2 requests running, the most it may have at once (max_concurrent). Wait until one has finished, or end one.",
            "RateLimited": "the API key 'k' has used its 1000 tokens per minute (tpm). Try again in 7 s.",
            "DailyQuotaSpent": "the API key 'k' has used its 1000 tokens for today (daily_tokens). The next day begins at 00:00 UTC.",
            "ManagementClosed": "no keys configured: add the first [[keys]] entry in config.toml (or BLAZAR_KEYS env) and restart",
            "LastKey": "'k' is the last key; removing it would leave the gateway authless. Add another first with `blazar keys add NAME`.",
            "KeyNameTaken": "there is a key named 'k' already. Choose another name, or give that key a new secret with `blazar keys rotate k`.",
            "NoSuchKey": "there is no key named 'k'. `blazar keys list` shows those there are.",
            "KeyMalformed": "`rpm` must be a non-negative integer, not -1",
            "PullRefused": "'x y' names nothing that can be pulled.",
            "PullNotFound": "there is no repository 'a/b'.",
            "PullFailed": "the server sent a web page.",
        }
    )


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        pytest.param(
            {"shape": "a GGUF file", "kinds": ("llamacpp", "mistralrs")},
            "engine add-local PATH",
            id="nothing-installed",
        ),
        pytest.param(
            {"shape": "a GGUF file", "kinds": ("llamacpp", "mistralrs"), "chosen": "mlx"},
            'Take `engine` out of [models."m"]',
            id="setting-against-the-shape",
        ),
        pytest.param(
            {
                "shape": "a GGUF file",
                "kinds": ("llamacpp", "mistralrs"),
                "refused_by": ("local",),
                "architecture": "newarch",
            },
            "the architecture 'newarch' is unknown to local",
            id="unknown-architecture",
        ),
        pytest.param(
            {"shape": "an MLX directory", "kinds": ("mlx",)}, "cannot run mlx-lm yet", id="a-kind-without-an-adapter"
        ),
    ],
)
def test_a_missing_engine_teaches_what_fits_the_case(facts: dict[str, object], says: str) -> None:
    assert says in str(errors.EngineMissing(model="m", **facts))  # type: ignore[arg-type]  # a table of keywords


def test_an_error_says_when_to_come_back() -> None:
    assert errors.BreakerOpen(model="m", crashes=3, wait_s=0.2).retry_after_s == 1
    assert errors.QueueFull(model="m", waiting=1, retry_after_s=7).retry_after_s == 7
    assert errors.InvalidRequest("no").retry_after_s is None


@pytest.mark.parametrize(
    "error",
    [
        errors.LoadTimeout(model="m", seconds=1, child="m@embed"),
        errors.EngineCrashed(model="m", how="signal 9", child="m@embed"),
        errors.EngineUnreachable(model="m", reason="reset", child="m@embed"),
        errors.BreakerOpen(model="m", crashes=3, wait_s=1, child="m@embed"),
    ],
)
def test_the_log_that_is_named_is_the_childs_own(error: errors.LaneError) -> None:
    assert "`blazar logs m@embed`" in str(error)
    assert "model 'm'" in str(error)
