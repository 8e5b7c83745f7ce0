"""An engine's own errors, as OpenAI's clients expect them."""

import json

import pytest

from blazar_gateway.dialects.openai.engine_errors import from_answer, from_object, is_parse_trouble
from blazar_gateway.error_responses import Dialect, error_body


def test_prompt_that_is_too_long_has_the_word_that_agents_look_for() -> None:
    body = (
        b'{"error":{"code":400,"message":"request (6024 tokens) exceeds the available context size (2048 tokens), '
        b'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":6024,"n_ctx":2048}}'
    )
    wire = from_answer(400, body)
    assert (wire.status, wire.type, wire.code) == (400, "invalid_request_error", "context_length_exceeded")
    error = json.loads(error_body(Dialect.OPENAI, wire, request_id="r"))["error"]
    assert set(error) == {"message", "type", "param", "code", "n_prompt_tokens", "n_ctx"}
    assert error["n_ctx"] == 2048


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        pytest.param(
            400,
            b'{"error":{"code":400,"message":"Field \'n\': bad","type":"invalid_request_error"}}',
            (400, "invalid_request_error", "invalid_request", "Field 'n': bad"),
            id="a 400 stays one, its number leaves the code",
        ),
        pytest.param(
            500,
            b'{"error":{"code":500,"message":"image input is not supported - hint: mmproj","type":"server_error"}}',
            (400, "invalid_request_error", "invalid_request", "image input is not supported - hint: mmproj"),
            id="a 500 for the client's mistake becomes a 400",
        ),
        pytest.param(
            501,
            b'{"error":{"code":501,"message":"no","type":"not_supported_error"}}',
            (400, "invalid_request_error", "not_supported_error", "no"),
            id="a 501 would be retried",
        ),
        pytest.param(
            500,
            b'{"error":{"code":500,"message":"boom","type":"server_error"}}',
            (500, "server_error", "engine_error", "boom"),
            id="a breakage stays one",
        ),
        pytest.param(
            503,
            b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}',
            (503, "server_error", "unavailable_error", "Loading model"),
            id="a load is a 503",
        ),
        pytest.param(
            400,
            b'{"error":{"message":"m","type":"t","code":"word","param":"n"}}',
            (400, "t", "word", "m"),
            id="words are kept",
        ),
        pytest.param(
            422, b'{"error":"text"}', (422, "invalid_request_error", "invalid_request", "text"), id="bare text"
        ),
        pytest.param(
            500, b"<html>\xff</html>", (500, "server_error", "engine_error", "<html>\ufffd</html>"), id="no JSON"
        ),
        pytest.param(
            502, b"", (502, "server_error", "engine_error", "the engine answered with status 502"), id="no body"
        ),
        pytest.param(
            500,
            b'{"error":{"message":7}}',
            (500, "server_error", "engine_error", "the engine reported an error without a text"),
            id="no text",
        ),
        pytest.param(500, b"[1]", (500, "server_error", "engine_error", "[1]"), id="an array"),
    ],
)
def test_answers_become_wire_errors(status: int, body: bytes, wanted: tuple[int, str, str, str]) -> None:
    wire = from_answer(status, body)
    assert (wire.status, wire.type, wire.code, wire.message) == wanted


def test_loading_engine_is_worth_another_try() -> None:
    assert from_answer(503, b"{}").retry_after_s == 1


@pytest.mark.parametrize(("code", "status"), [(500, 500), (400, 400), ("x", 500), (None, 500), (7, 500)])
def test_error_within_a_stream_takes_its_status_from_its_code(code: object, status: int) -> None:
    assert from_object({"message": "m", "code": code}).status == status


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("Invalid diff: now finding less tool calls!", True),
        ("Failed to parse input at pos 12", True),
        ("The model produced output that does not match the expected format", True),
        ("Context size has been exceeded.", False),
        (None, False),
    ],
)
def test_parse_trouble_is_told_from_other_errors(message: object, *, trouble: bool) -> None:
    assert is_parse_trouble({"message": message}) is trouble
