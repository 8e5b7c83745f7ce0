"""The table from code to status, and the envelopes."""

import json

import pytest
from inline_snapshot import snapshot

from blazar_gateway.error_responses import (
    WIRE_TABLE,
    Dialect,
    WireError,
    dialect_of,
    error_body,
    error_frame,
    error_headers,
    wire_error,
)
from blazar_routing import errors
from blazar_routing.errors import LaneError


def every_error_class() -> list[type[LaneError]]:
    found = [LaneError]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub.__module__.startswith("blazar_routing")]
    return found


@pytest.mark.parametrize("cls", every_error_class(), ids=lambda cls: cls.code)
def test_every_error_class_has_a_row(cls: type[LaneError]) -> None:
    assert cls.code in WIRE_TABLE


def test_every_row_has_an_error_class() -> None:
    assert set(WIRE_TABLE) == {cls.code for cls in every_error_class()}


def test_no_status_makes_an_sdk_repeat_what_cannot_succeed() -> None:
    statuses = {row.status for row in WIRE_TABLE.values()}
    assert not statuses & {408, 501}
    assert all(row.should_retry is False for row in WIRE_TABLE.values() if row.status == 409)


NOT_FOUND = wire_error(errors.ModelNotFound(model="lama", near=("llama",)))


def test_same_text_in_three_envelopes() -> None:
    bodies = {str(dialect): json.loads(error_body(dialect, NOT_FOUND, request_id="req_1")) for dialect in Dialect}
    assert bodies == snapshot(
        {
            "openai": {
                "error": {
                    "message": "model 'lama' not found. Did you mean 'llama'? See what there is with `blazar models list`, or add a file with `blazar models add PATH`.",
                    "type": "invalid_request_error",
                    "param": "model",
                    "code": "model_not_found",
                }
            },
            "anthropic": {
                "type": "error",
                "error": {
                    "type": "not_found_error",
                    "message": "model 'lama' not found. Did you mean 'llama'? See what there is with `blazar models list`, or add a file with `blazar models add PATH`.",
                },
                "request_id": "req_1",
            },
            "ollama": {
                "error": "model 'lama' not found. Did you mean 'llama'? See what there is with `blazar models list`, or add a file with `blazar models add PATH`.",
                "code": "model_not_found",
            },
        }
    )


def test_frames_that_end_a_stream() -> None:
    wire = WireError(status=500, type="server_error", code="x", message="no")
    frames = {str(dialect): error_frame(dialect, wire, request_id="req_1").decode() for dialect in Dialect}
    assert frames == snapshot(
        {
            "openai": """\
data: {"error":{"message":"no","type":"server_error","param":null,"code":"x"}}

""",
            "anthropic": """\
event: error
data: {"type":"error","error":{"type":"api_error","message":"no"},"request_id":"req_1"}

""",
            "ollama": '{"error":"no","code":"x"}\n',
        }
    )


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (
            errors.QueueFull(model="m", waiting=9, retry_after_s=5),
            {"x-blazar-queue-length": "9", "x-blazar-queue-position": "10", "Retry-After": "5"},
        ),
        (errors.LoadFailed(model="m", reason="r", advice="a"), {"x-should-retry": "false"}),
        (errors.EngineCrashed(model="m", how="signal 9"), {"Retry-After": "1", "x-should-retry": "true"}),
        (errors.MethodNotAllowed(method="PUT", path="/x", allowed=("GET", "POST")), {"Allow": "GET, POST"}),
        (errors.InvalidRequest("no", param="n"), {}),
    ],
    ids=lambda value: value.code if isinstance(value, LaneError) else "",
)
def test_headers_say_when_to_try_again(error: LaneError, headers: dict[str, str]) -> None:
    assert error_headers(wire_error(error)) == headers


@pytest.mark.parametrize(
    ("path", "headers", "dialect"),
    [
        ("/v1/chat/completions", {}, Dialect.OPENAI),
        ("/v1/chat/completions", {"anthropic-version": "2023-06-01"}, Dialect.OPENAI),
        ("/v1/messages", {}, Dialect.ANTHROPIC),
        ("/v1/messages/count_tokens", {}, Dialect.ANTHROPIC),
        ("/v1/models", {}, Dialect.OPENAI),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, Dialect.ANTHROPIC),
        ("/v1/nothing", {"anthropic-version": "2023-06-01"}, Dialect.ANTHROPIC),
        ("/api/tags", {}, Dialect.OLLAMA),
        ("/api/chat", {"anthropic-version": "2023-06-01"}, Dialect.OLLAMA),
        ("/", {}, Dialect.OPENAI),
        ("/nothing", {}, Dialect.OPENAI),
    ],
)
def test_dialect_of_a_route(path: str, headers: dict[str, str], dialect: Dialect) -> None:
    assert dialect_of(path, headers) is dialect
