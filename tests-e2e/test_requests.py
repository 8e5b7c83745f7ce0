"""What clients really send is accepted, probes are answered, and strangers are refused in the route's own words."""

import json
from typing import Any

import pytest

from blazar_stubs import StubModel
from e2e.http import Answer
from e2e.served import Served


@pytest.fixture(scope="module")
def model(shared: Served) -> StubModel:
    return shared.add_model("m", tools=True)


def forwarded(model: StubModel) -> Any:
    """Return the body that the engine received last."""
    return json.loads(model.requests("/v1/chat/completions")[-1]["body"])


# Shapes of messages

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.promise("request:assistant-content")
@pytest.mark.parametrize(
    "assistant",
    [
        pytest.param({"content": None, "tool_calls": [CALL]}, id="null"),
        pytest.param({"content": "", "tool_calls": [CALL]}, id="empty"),
        pytest.param({"tool_calls": [CALL]}, id="absent"),
        pytest.param({"content": [], "tool_calls": [CALL]}, id="no parts"),
        pytest.param({"content": [{"type": "text", "text": "let me look"}], "tool_calls": [CALL]}, id="text parts"),
    ],
)
@pytest.mark.parametrize(
    "tool", [pytest.param([{"type": "text", "text": "42"}], id="parts"), pytest.param("", id="empty"), None]
)
def test_an_assistant_turn_without_text_is_a_shape_that_templates_take(
    shared: Served, model: StubModel, assistant: dict[str, Any], tool: Any
) -> None:
    messages = [
        {"role": "user", "content": "what is it?"},
        {"role": "assistant", **assistant},
        {"role": "tool", "tool_call_id": "call_1", "content": tool},
    ]
    answer = shared.client.post("/v1/chat/completions", {"model": "m", "messages": messages})
    assert answer.status == 200, answer.text()
    for message in forwarded(model)["messages"]:
        content = message.get("content")
        assert content is None or isinstance(content, str) or (isinstance(content, list) and content)
    assert isinstance(forwarded(model)["messages"][2]["content"], str | list)


@pytest.mark.promise("request:assistant-content")
def test_a_user_turn_without_content_is_a_400_that_names_it(shared: Served, model: StubModel) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "user", "content": None}]
    answer = shared.client.post("/v1/chat/completions", {"model": "m", "messages": messages})
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["code"] == "invalid_request"
    assert "messages[1]" in error["message"]


# Loose values


@pytest.mark.promise("request:loose-values")
@pytest.mark.parametrize(
    "fields",
    [
        {"seed": None},
        {"temperature": None},
        {"stop": None},
        {"stop": ""},
        {"tools": []},
        {"tools": None},
        {"tool_choice": None},
        {"format": None},
        {"format": ""},
        {"options": None},
        {"images": None},
        {"response_format": {"type": "text"}},
        {"max_tokens": None, "max_completion_tokens": 5},
        {"seed": 1.0},
        {"max_tokens": 5.0},
        {"n": None},
        {"logprobs": None},
        {"stream": None},
        {"stream_options": None},
        {"user": "somebody", "service_tier": "auto", "store": False, "metadata": {"a": "b"}},
        {"never_heard_of": {"deep": [1, None]}},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
def test_null_means_absent_and_what_is_unknown_does_no_harm(
    shared: Served, model: StubModel, route: str, fields: dict[str, Any]
) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in route else {"prompt": "hi"}
    answer = shared.client.post(route, {"model": "m", **asked, **fields})
    assert answer.status == 200, answer.text()


@pytest.mark.promise("request:loose-values")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"n": -1}, "n", id="negative n"),
        pytest.param({"temperature": "hot"}, "temperature", id="text for temperature"),
        pytest.param({"max_tokens": "many"}, "max_tokens", id="text for max_tokens"),
        pytest.param({"messages": "hi"}, "messages", id="text for messages"),
        pytest.param({"stream": "yes"}, "stream", id="text for stream"),
    ],
)
def test_nonsense_is_a_400_with_the_name_of_the_field(
    shared: Served, model: StubModel, fields: dict[str, Any], named: str
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    answer = shared.client.post("/v1/chat/completions", body)
    assert answer.status == 400, answer.text()
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert named in (error["param"] or error["message"])


@pytest.mark.promise("request:loose-values")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="cut"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b'{"messages": []}', id="no model"),
        pytest.param(b'{"model": 5, "messages": []}', id="a number for the model"),
    ],
)
def test_a_body_that_is_no_request_is_a_400_in_json(shared: Served, model: StubModel, body: bytes) -> None:
    answer = shared.client.post("/v1/chat/completions", body)
    assert answer.status == 400, answer.text()
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.promise("request:limit")
def test_a_body_over_50_mib_is_a_413_that_says_the_limit(shared: Served, model: StubModel) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * (51 << 20) + b'"}]}'
    answer = shared.client.post("/v1/chat/completions", body)
    assert answer.status == 413
    assert "50 MiB" in answer.json()["error"]["message"]


# Probes

PROBES = ("/", "/healthz", "/health", "/api/version", "/api/tags", "/v1/models")


@pytest.mark.promise("probe:answers")
@pytest.mark.parametrize("path", PROBES)
def test_a_probe_is_answered_also_as_head_and_with_slashes_too_many(
    shared: Served, model: StubModel, path: str
) -> None:
    answer = shared.client.get(path)
    assert answer.status == 200
    assert answer.header("content-encoding") is None
    head = shared.client.call("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.header("content-type") == answer.header("content-type")
    assert head.header("content-length") == answer.header("content-length")
    for variant in (f"{path}/", f"/{path}", path.replace("/", "//")):
        assert shared.client.get(variant).status == 200, variant


@pytest.mark.promise("probe:answers")
def test_the_root_answers_the_words_that_clients_look_for(shared: Served) -> None:
    assert shared.client.get("/").text() == "Ollama is running"


@pytest.mark.promise("probe:answers")
def test_listings_name_the_model(shared: Served, model: StubModel) -> None:
    assert "m" in [entry["id"] for entry in shared.client.get("/v1/models").json()["data"]]
    (tag,) = [entry for entry in shared.client.get("/api/tags").json()["models"] if entry["name"].startswith("m")]
    assert tag["details"]["format"] == "gguf"
    assert shared.client.get("/api/version").json()["version"]


# Routes of the engine


@pytest.mark.promise("route:engine-calls")
def test_tokens_and_templates_are_the_engine_s_own(shared: Served, model: StubModel) -> None:
    # Short pieces: the stand-in's numbers of longer ones are larger than any engine's, and refused.
    tokens = shared.client.post("/tokenize", {"model": "m", "content": "go on"}).json()["tokens"]
    assert tokens
    again = shared.client.post("/detokenize", {"model": "m", "tokens": tokens}).json()["content"]
    assert again == "go on"
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert "hi" in shared.client.post("/apply-template", body).json()["prompt"]


@pytest.mark.promise("route:completions")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_text_completion_is_answered(shared: Served, model: StubModel, stream: bool) -> None:
    answer = shared.client.post("/v1/completions", {"model": "m", "prompt": "once", "max_tokens": 4, "stream": stream})
    assert answer.status == 200
    if stream:
        *events, done = answer.events()
        assert done == "[DONE]"
        text = "".join(choice["text"] for event in events for choice in event["choices"])
    else:
        text = answer.json()["choices"][0]["text"]
        assert answer.json()["usage"]["completion_tokens"] == 4
    assert text


# Refusals


@pytest.mark.promise("refuse:strangers")
@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/v1/chat/completions", "/api/tags"])
@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        pytest.param("Origin", "https://evil.example", "origin_refused", id="origin"),
        pytest.param("Origin", "null", "origin_refused", id="origin null"),
        pytest.param("Host", "evil.example", "host_refused", id="host"),
        pytest.param("Host", "evil.example:11435", "host_refused", id="host with port"),
    ],
)
def test_a_foreign_page_is_refused_on_every_route(
    shared: Served, path: str, header: str, value: str, code: str
) -> None:
    answer = shared.client.get(path, headers={header: value})
    assert answer.status == 403
    assert answer.header("access-control-allow-origin") is None
    if path.startswith("/v1"):
        assert answer.json()["error"]["code"] == code


@pytest.mark.promise("refuse:strangers")
def test_a_refused_page_does_no_work(shared: Served) -> None:
    model = shared.add_model("untouched")
    headers = {"Origin": "https://evil.example"}
    body = {"model": "untouched", "messages": [{"role": "user", "content": "hi"}]}
    assert shared.client.post("/v1/chat/completions", body, headers=headers).status == 403
    assert model.spawns == 0


@pytest.mark.promise("refuse:strangers")
@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:5173"])
def test_a_page_of_this_machine_may_ask(shared: Served, origin: str) -> None:
    answer = shared.client.get("/v1/models", headers={"Origin": origin})
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == origin


@pytest.mark.promise("refuse:envelope")
@pytest.mark.parametrize(
    ("path", "shape"),
    [
        pytest.param("/v1/chat/completions", "openai", id="openai"),
        pytest.param("/v1/nothing", "openai", id="unknown under v1"),
        pytest.param("/api/nothing", "ollama", id="ollama"),
        pytest.param("/nothing", "openai", id="anything else"),
    ],
)
def test_a_failure_comes_in_the_envelope_of_its_route(shared: Served, path: str, shape: str) -> None:
    answer = shared.client.post(path, {"model": "absent", "messages": [{"role": "user", "content": "hi"}]})
    assert answer.status == 404
    _check_envelope(answer, shape)


def _check_envelope(answer: Answer, shape: str) -> None:
    body = answer.json()
    if shape == "ollama":
        assert isinstance(body["error"], str)
    else:
        assert set(body["error"]) >= {"message", "type", "code", "param"}
        assert isinstance(body["error"]["code"], str)
    assert answer.header("x-blazar-request-id")


@pytest.mark.promise("refuse:envelope")
def test_a_method_that_a_route_does_not_take_is_a_405_that_says_which_it_takes(shared: Served) -> None:
    answer = shared.client.get("/v1/chat/completions")
    assert answer.status == 405
    assert answer.header("allow") is not None
    assert "POST" in (answer.header("allow") or "")
