"""llamacpp.md, section 3.1: every endpoint of single-model mode, and section 3.2's refusals."""

import re
from typing import Any

import pytest

from blazar_stubs.testing import Launched, Reply

HI = [{"role": "user", "content": "hi"}]


def error(code: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "type": kind}}


def refusal(message: str) -> dict[str, Any]:
    return error(400, "invalid_request_error", message)


def shape_of(value: Any) -> Any:
    """Names and kinds only; lists by their first element."""
    match value:
        case dict():
            return {key: shape_of(inner) for key, inner in value.items()}
        case [first, *_]:
            return [shape_of(first)]
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case None:
            return None
        case _:
            return type(value).__name__


TIMINGS = dict.fromkeys(
    [
        "cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second",
        "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second",
    ],
    "number",
)  # fmt: skip
USAGE = {
    "completion_tokens": "number",
    "prompt_tokens": "number",
    "total_tokens": "number",
    "prompt_tokens_details": {"cached_tokens": "number"},
}


@pytest.mark.usefixtures("b10434")
@pytest.mark.parametrize("path", ["/health", "/v1/health"])
def test_health_is_ok_with_the_headers_of_every_answer(server: Launched, path: str) -> None:
    reply = server.request("GET", path)
    assert reply.status == 200
    assert reply.json() == {"status": "ok"}
    assert reply.headers == [
        ("Server", "llama.cpp"),
        ("Access-Control-Allow-Origin", ""),
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", "15"),
        ("Keep-Alive", "timeout=5, max=100"),
    ]


@pytest.mark.parametrize("path", ["/models", "/v1/models"])
def test_models_lists_the_alias_in_two_formats(server: Launched, path: str) -> None:
    body = server.get(path)
    (entry,) = body["data"]
    meta = entry.pop("meta")
    assert body["object"] == "list"
    assert body["models"][0]["name"] == body["models"][0]["model"] == "tiny"
    assert body["models"][0]["capabilities"] == ["completion"]
    assert entry.pop("created") > 0
    assert entry == {"id": "tiny", "aliases": ["tiny"], "tags": [], "object": "model", "owned_by": "llamacpp"}
    assert meta == {
        "vocab_type": 1, "n_vocab": 356, "n_ctx": 2048, "n_ctx_train": 4096, "n_embd": 64,
        "n_params": 72256, "size": 145152, "ftype": "F16",
    }  # fmt: skip


def test_props_say_what_is_served(server: Launched) -> None:
    props = server.get("/props")
    assert {name: props[name] for name in ("total_slots", "model_alias", "is_sleeping")} == {
        "total_slots": 4,
        "model_alias": "tiny",
        "is_sleeping": False,
    }
    assert re.fullmatch("b[0-9]+-[0-9a-f]+", props["build_info"])
    assert props["default_generation_settings"]["n_ctx"] == 2048
    assert props["modalities"] == {"vision": False, "video": False, "audio": False}
    assert [props[f"endpoint_{name}"] for name in ("slots", "props", "metrics")] == [True, True, True]
    assert "<|im_start|>" in props["chat_template"]
    assert not any(props["chat_template_caps"][name] for name in ("supports_tools", "supports_tool_calls"))
    assert props["model_path"].endswith("tiny.gguf")
    assert (props["bos_token"], props["eos_token"]) == ("<s>", "</s>")


@pytest.mark.usefixtures("b10434")
def test_props_have_the_same_fields(server: Launched) -> None:
    props = server.get("/props")
    assert sorted(props) == [
        "bos_token", "build_info", "chat_template", "chat_template_caps", "cors_proxy_enabled",
        "default_generation_settings", "endpoint_metrics", "endpoint_props", "endpoint_slots", "eos_token",
        "is_sleeping", "media_marker", "modalities", "model_alias", "model_ftype", "model_path", "total_slots", "ui",
        "ui_settings",
    ]  # fmt: skip
    assert len(props["default_generation_settings"]["params"]) == 42


def test_props_can_be_posted_where_switched_on(server: Launched) -> None:
    assert server.post("/props", {}).json() == {"success": True}


def test_slots_grow_details_with_use(server: Launched) -> None:
    server.post("/completion", {"prompt": "hello", "n_predict": 2, "id_slot": 2})
    slots = server.get("/slots")
    assert [slot["id"] for slot in slots] == [0, 1, 2, 3]
    assert all(slot["n_ctx"] == 2048 and not slot["is_processing"] and not slot["speculative"] for slot in slots)
    assert sorted(slots[2]) == [
        "id", "id_task", "is_processing", "n_ctx", "n_prompt_tokens", "n_prompt_tokens_cache",
        "n_prompt_tokens_processed", "next_token", "params", "speculative",
    ]  # fmt: skip
    assert shape_of(slots[2]["next_token"]) == [
        {"has_next_token": "bool", "has_new_line": "bool", "n_remain": "number", "n_decoded": "number"}
    ]


@pytest.mark.usefixtures("b10434")
def test_metrics_have_upstreams_names_in_its_order(server: Launched) -> None:
    reply = server.request("GET", "/metrics")
    assert reply.header("Content-Type") == "text/plain; version=0.0.4"
    assert (reply.header("Process-Start-Time-Unix") or "").isdigit()
    names = [row.split()[0] for row in reply.body.decode().splitlines() if not row.startswith("#")]
    assert names == [
        f"llamacpp:{name}"
        for name in (
            "prompt_tokens_total", "prompt_tokens_cached_total", "prompt_seconds_total", "tokens_predicted_total",
            "tokens_predicted_seconds_total", "n_decode_total", "n_tokens_max", "spec_decode_num_draft_tokens_total",
            "spec_decode_num_accepted_tokens_total", "spec_decode_num_drafts_total", "prompt_tokens_seconds",
            "predicted_tokens_seconds", "requests_processing", "requests_deferred", "n_busy_slots_per_decode",
        )
    ]  # fmt: skip


@pytest.mark.usefixtures("b10434")
def test_counters_add_up_with_the_replies(server: Launched) -> None:
    before = server.metrics()
    replies = [
        server.post("/v1/chat/completions", {"messages": HI, "max_tokens": count, "ignore_eos": True}).json()
        for count in (3, 7)
    ]
    after = server.metrics()

    def grown(name: str) -> float:
        return after[f"llamacpp:{name}"] - before[f"llamacpp:{name}"]

    assert grown("tokens_predicted_total") == sum(reply["usage"]["completion_tokens"] for reply in replies) == 10
    assert grown("prompt_tokens_total") == sum(reply["timings"]["prompt_n"] for reply in replies)
    assert grown("prompt_tokens_cached_total") == sum(reply["timings"]["cache_n"] for reply in replies)
    for reply in replies:
        timings = reply["timings"]
        assert timings["cache_n"] + timings["prompt_n"] == reply["usage"]["prompt_tokens"]
        assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == timings["cache_n"]
    # All but one token of the same prompt need not be evaluated again.
    assert replies[1]["timings"]["prompt_n"] == 1


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_chat_answer_has_every_field_in_order(server: Launched, path: str) -> None:
    body = {"messages": HI, "max_tokens": 3, "model": "anything", "ignore_eos": True, "temperature": 0}
    reply = server.post(path, body).json()
    assert list(reply) == [
        "choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings",
    ]  # fmt: skip
    assert shape_of(reply["choices"]) == [
        {"finish_reason": "str", "index": "number", "message": {"role": "str", "content": "str"}}
    ]
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["model"] == "tiny"
    assert reply["object"] == "chat.completion"
    assert reply["system_fingerprint"] == server.get("/props")["build_info"]
    assert reply["id"].startswith("chatcmpl-")
    assert shape_of(reply["usage"]) == USAGE
    assert shape_of(reply["timings"]) == TIMINGS
    assert reply["usage"]["completion_tokens"] == 3


def test_zero_tokens_yield_one(server: Launched) -> None:
    reply = server.post("/v1/chat/completions", {"messages": HI, "max_tokens": 0}).json()
    assert reply["usage"]["completion_tokens"] == 1


def test_text_completion_answer(server: Launched) -> None:
    reply = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 3, "ignore_eos": True}).json()
    assert list(reply) == [
        "choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings",
    ]  # fmt: skip
    assert shape_of(reply["choices"]) == [{"text": "str", "index": "number", "logprobs": None, "finish_reason": "str"}]
    assert reply["object"] == "text_completion"
    assert reply["id"].startswith("chatcmpl-")


@pytest.mark.usefixtures("b10434")
@pytest.mark.parametrize("path", ["/completion", "/completions"])
def test_native_completion_answer(server: Launched, path: str) -> None:
    body = {"prompt": "Once", "n_predict": 3, "ignore_eos": True, "temperature": 0}
    reply = server.post(path, body).json()
    assert list(reply) == [
        "index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated",
        "generation_settings", "prompt", "has_new_line", "truncated", "stop_type", "stopping_word", "tokens_cached",
        "timings",
    ]  # fmt: skip
    assert reply["stop"] is True
    assert (reply["stop_type"], reply["tokens_predicted"], reply["prompt"]) == ("limit", 3, "Once")
    assert reply["tokens_cached"] == reply["tokens_evaluated"] + 2
    assert reply["id_slot"] in range(4)
    assert len(reply["generation_settings"]) == 49


def test_list_of_prompts_shares_one_answer_with_the_first_ones_usage(server: Launched) -> None:
    body = {"prompt": ["Once", "Twice"], "max_tokens": 2, "ignore_eos": True}
    reply = server.post("/v1/completions", body).json()
    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    assert reply["usage"]["completion_tokens"] == 2


def test_several_choices_share_one_answer_with_the_first_ones_usage(server: Launched) -> None:
    body = {"messages": HI, "max_tokens": 2, "n": 3, "ignore_eos": True}
    reply = server.post("/v1/chat/completions", body).json()
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["completion_tokens"] == 2


def test_logprobs_come_with_bytes_and_alternatives(server: Launched) -> None:
    body = {"messages": HI, "max_tokens": 2, "logprobs": True, "top_logprobs": 2, "ignore_eos": True}
    choice = server.post("/v1/chat/completions", body).json()["choices"][0]
    assert len(choice["logprobs"]["content"]) == 2
    row = choice["logprobs"]["content"][0]
    assert list(row) == ["id", "token", "bytes", "logprob", "top_logprobs"]
    assert list(row["top_logprobs"][0]) == ["id", "token", "bytes", "logprob"]


def test_responses_answer(server: Launched) -> None:
    reply = server.post("/v1/responses", {"input": "hi", "max_output_tokens": 3, "ignore_eos": True}).json()
    assert list(reply) == [
        "completed_at", "created_at", "id", "model", "object", "output", "status", "usage",
    ]  # fmt: skip
    assert (reply["object"], reply["status"]) == ("response", "completed")
    assert [item["type"] for item in reply["output"]] == ["message"]
    assert list(reply["output"][0]) == ["content", "id", "role", "status", "type"]
    assert shape_of(reply["usage"]) == {
        "input_tokens": "number",
        "output_tokens": "number",
        "total_tokens": "number",
        "input_tokens_details": {"cached_tokens": "number"},
    }


def test_messages_answer_and_its_optional_limit(server: Launched) -> None:
    # Temperature 0: the engine drops `ignore_eos` here, and a drawn answer may be shorter than the limit.
    reply = server.post("/v1/messages", {"messages": HI, "max_tokens": 3, "temperature": 0}).json()
    assert list(reply) == [
        "id", "type", "role", "content", "model", "stop_reason", "stop_sequence", "usage",
    ]  # fmt: skip
    assert reply["id"].startswith("chatcmpl-")
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("max_tokens", None)
    assert [block["type"] for block in reply["content"]] == ["text"]
    assert sorted(reply["usage"]) == ["cache_read_input_tokens", "input_tokens", "output_tokens"]
    assert server.post("/v1/messages", {"messages": HI, "stop_sequences": ["!"], "temperature": 0}).status == 200


def test_counts_agree_with_usage(server: Launched) -> None:
    usage = server.post("/v1/chat/completions", {"messages": HI, "max_tokens": 1}).json()["usage"]
    prompt = server.post("/apply-template", {"messages": HI}).json()["prompt"]
    counted = server.post("/v1/chat/completions/input_tokens", {"messages": HI}).json()

    assert counted == {"input_tokens": usage["prompt_tokens"], "object": "response.input_tokens"}
    assert server.post("/v1/responses/input_tokens", {"input": "hi"}).json() == counted
    assert server.post("/v1/messages/count_tokens", {"messages": HI}).json() == {"input_tokens": usage["prompt_tokens"]}
    tokens = server.post("/tokenize", {"content": prompt, "add_special": True}).json()["tokens"]
    assert len(tokens) == usage["prompt_tokens"]
    assert "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" in prompt


@pytest.mark.parametrize("text", ["Hello world", "  two\n\nlines", "Grüße 😀", "<|im_start|>x"])
def test_tokens_and_text_are_each_others_inverse(server: Launched, text: str) -> None:
    tokens = server.post("/tokenize", {"content": text}).json()["tokens"]
    assert server.post("/detokenize", {"tokens": tokens}).json() == {"content": text}


def test_tokens_come_with_their_pieces(server: Launched) -> None:
    rows = server.post("/tokenize", {"content": "Hello world", "with_pieces": True}).json()["tokens"]
    assert "".join(row["piece"] for row in rows) == "Hello world"
    assert [row["id"] for row in rows] == server.post("/tokenize", {"content": "Hello world"}).json()["tokens"]


def test_mixed_content_keeps_numbers_as_tokens(server: Launched) -> None:
    tokens = server.post("/tokenize", {"content": ["a", 5, "b"]}).json()["tokens"]
    assert tokens[1] == 5
    assert len(tokens) == 3


def test_adapters_can_be_listed_and_set(server: Launched) -> None:
    assert server.get("/lora-adapters") == []
    assert server.post("/lora-adapters", [{"id": 5, "scale": 1.0}]).json() == {"success": True}


NOT_FOUND = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}
DISABLED = {"error": {"message": "this feature is disabled", "type": "feature_disabled"}}
EMPTY = (
    "[json.exception.parse_error.101] parse error at line 1, column 1: attempting to parse an empty input; "
    "check that your input string or stream contains the expected JSON"
)
CHAT = "/v1/chat/completions"

REFUSALS: list[Any] = [
    pytest.param("GET", "/nope", None, 404, NOT_FOUND, id="unknown-path"),
    pytest.param("POST", "/health", {}, 404, NOT_FOUND, id="wrong-method"),
    pytest.param("GET", CHAT, None, 404, NOT_FOUND, id="chat-by-get"),
    pytest.param("POST", "/models/load", {"model": "x"}, 404, NOT_FOUND, id="router-only-path"),
    pytest.param("GET", "/v1/streams", None, 404, NOT_FOUND, id="streams"),
    pytest.param("GET", "/tools", None, 403, DISABLED, id="tools"),
    pytest.param("GET", "/cors-proxy", None, 403, DISABLED, id="cors-proxy"),
    pytest.param(
        "POST", "/v1/embeddings", {"input": "hi"}, 501,
        error(501, "not_supported_error", "This server does not support embeddings. Start it with `--embeddings`"),
        id="embeddings",
    ),
    pytest.param(
        "POST", "/v1/rerank", {"query": "a", "documents": ["b"]}, 501,
        error(501, "not_supported_error", "This server does not support reranking. Start it with `--reranking`"),
        id="rerank",
    ),
    pytest.param(
        "POST", "/v1/audio/transcriptions", {}, 501,
        error(501, "not_supported_error", "The current model does not support audio input."), id="transcriptions",
    ),
    pytest.param(
        "POST", "/infill", {"input_prefix": "a", "input_suffix": "b"}, 501,
        error(
            501, "not_supported_error",
            "Infill is not supported by this model: prefix token is missing. suffix token is missing. middle token is missing. ",
        ),
        id="infill",
    ),
    pytest.param("POST", "/v1/chat/completions/control", {}, 400, refusal("missing completion id"), id="control"),
    pytest.param(
        "POST", "/v1/chat/completions/control", {"id": "x"}, 400, refusal("unknown control action"), id="control-action"
    ),
    pytest.param("POST", "/lora-adapters", {}, 400, refusal("Request body must be an array"), id="adapters-object"),
    pytest.param("POST", "/apply-template", {}, 400, refusal("'messages' is required"), id="template-without-messages"),
    pytest.param("POST", CHAT, {}, 400, refusal("'messages' is required"), id="chat-without-messages"),
    pytest.param("POST", CHAT, [1], 400, refusal("'messages' is required"), id="chat-list"),
    pytest.param("POST", CHAT, {"messages": "x"}, 400, refusal("Expected 'messages' to be an array"), id="messages-text"),
    pytest.param(
        "POST", CHAT, {"messages": [{"role": "user"}]}, 400,
        refusal("All non-assistant messages must contain 'content'"), id="user-without-content",
    ),
    pytest.param(
        "POST", CHAT, {"messages": [{"content": "x"}]}, 500,
        error(500, "server_error", "Failed to parse messages: Missing 'role' in message: {\"content\":\"x\"}"),
        id="message-without-role",
    ),
    pytest.param(
        "POST", CHAT, {"messages": HI, "max_tokens": "x"}, 400,
        refusal("Field 'max_tokens': [json.exception.type_error.302] type must be number, but is string"),
        id="text-for-number",
    ),
    pytest.param(
        "POST", CHAT, {"messages": HI, "stream": "yes"}, 400,
        refusal("Field 'stream': [json.exception.type_error.302] type must be boolean, but is string"),
        id="text-for-boolean",
    ),
    pytest.param(
        "POST", CHAT, {"messages": HI, "n": 9}, 400,
        refusal("Field 'n': Value must be between 1 <= value <= 4, but got 9"), id="more-choices-than-slots",
    ),
    pytest.param(
        "POST", "/v1/completions", {"prompt": "a", "max_tokens": -5}, 400,
        refusal("Field 'max_tokens': Value must be between -1 <= value <= 2147483647, but got -5"), id="negative-limit",
    ),
    pytest.param(
        "POST", CHAT, {"messages": HI, "grammar": "root ::= ("}, 400,
        refusal("Failed to initialize samplers: failed to parse grammar"), id="bad-grammar",
    ),
    pytest.param(
        "POST", CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]},
        500,
        error(500, "server_error", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        id="image-without-projector",
    ),
    pytest.param(
        "POST", "/v1/completions", {}, 400, refusal("[json.exception.out_of_range.403] key 'prompt' not found"),
        id="completion-without-prompt",
    ),
    pytest.param("POST", "/v1/responses", {}, 400, refusal("'input' is required"), id="responses-without-input"),
    pytest.param(
        "POST", "/v1/messages", {}, 500, error(500, "server_error", "'messages' is required"),
        id="messages-without-messages",
    ),
    pytest.param("POST", CHAT, None, 500, error(500, "server_error", EMPTY), id="empty-body"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "status", "answer"), REFUSALS)
def test_refusal_has_upstreams_status_and_words(
    server: Launched, method: str, path: str, body: Any, status: int, answer: dict[str, Any]
) -> None:
    reply = server.request(method, path, body)
    assert (reply.status, reply.json()) == (status, answer)
    # Announced on every error, though the connection stays open until it idles out.
    assert reply.header("Connection") == "close"


@pytest.mark.usefixtures("b10434")
def test_stream_to_resume_must_be_named(server: Launched) -> None:
    reply = server.request("GET", "/v1/stream")
    assert (reply.status, reply.json()) == (400, refusal("Missing conversation id in path"))


def test_malformed_json_is_a_server_error(server: Launched) -> None:
    reply = server.request("POST", CHAT, raw=b'{"messages":')
    assert reply.status == 500
    message = reply.json()["error"]["message"]
    assert message.startswith("[json.exception.parse_error.101] parse error at line 1, column 13: ")
    assert reply.json()["error"]["type"] == "server_error"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(CHAT, {"messages": [{"role": "user", "content": "word " * 3000}]}, id="chat"),
        pytest.param("/v1/completions", {"prompt": "word " * 3000}, id="text"),
        pytest.param("/completion", {"prompt": "word " * 3000}, id="native"),
        pytest.param("/v1/responses", {"input": "word " * 3000}, id="responses"),
        pytest.param("/v1/messages", {"messages": [{"role": "user", "content": "word " * 3000}]}, id="messages"),
    ],
)
def test_prompt_beyond_the_window_is_a_plain_400_with_its_numbers(
    server: Launched, path: str, body: dict[str, Any], stream: bool
) -> None:
    reply = server.post(path, {**body, "stream": stream})
    failure = reply.json()["error"]
    count = failure["n_prompt_tokens"]
    assert reply.status == 400
    assert count > 2048
    assert failure == {
        "code": 400,
        "message": f"request ({count} tokens) exceeds the available context size (2048 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": count,
        "n_ctx": 2048,
    }


@pytest.mark.parametrize(
    ("length", "made"), [(2045, 3), (2047, 1), (2048, None)], ids=["three-left", "one-left", "none-left"]
)
def test_window_ends_the_answer_exactly(server: Launched, length: int, made: int | None) -> None:
    reply = server.post("/completion", {"prompt": [5] * length, "n_predict": 9, "ignore_eos": True})
    if made is None:
        assert reply.json()["error"]["n_prompt_tokens"] == 2048
        return
    body = reply.json()
    assert (body["tokens_predicted"], body["stop_type"], body["truncated"]) == (made, "limit", True)


LENIENT: list[Any] = [
    pytest.param({"messages": []}, id="no-messages"),
    pytest.param({"messages": [{"role": "wizard", "content": "hi"}]}, id="unknown-role"),
    pytest.param({"messages": [{"role": "user", "content": None}]}, id="null-content"),
    pytest.param({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}, id="parts"),
    pytest.param(
        {"messages": HI, "tools": [], "tool_choice": None, "stop": None, "seed": None, "temperature": None}, id="nulls"
    ),
    pytest.param({"messages": HI, "seed": 1.0, "unknown_field": {"x": 1}}, id="loose-types"),
    pytest.param({"messages": [*HI, {"role": "assistant", "content": "Sure"}]}, id="continued-answer"),
]


@pytest.mark.parametrize("body", LENIENT)
def test_loose_bodies_are_accepted(server: Launched, body: dict[str, Any]) -> None:
    assert server.post(CHAT, {**body, "max_tokens": 1}).status == 200


@pytest.mark.usefixtures("b10434")
def test_empty_prompt_gives_an_empty_answer(server: Launched) -> None:
    body = server.post("/v1/completions", {"prompt": "", "max_tokens": 2}).json()
    assert (body["choices"][0]["text"], body["choices"][0]["finish_reason"]) == ("", "length")
    assert body["usage"]["total_tokens"] == 0


def test_front_page_wants_gzip(server: Launched) -> None:
    plain = server.request("GET", "/")
    zipped = server.request("GET", "/", headers={"Accept-Encoding": "gzip"})
    assert (plain.status, plain.body) == (415, b"Error: gzip is not supported by this browser")
    assert (zipped.status, zipped.header("Content-Encoding")) == (200, "gzip")


def test_compressed_request_is_refused(server: Launched) -> None:
    reply = server.request("POST", "/tokenize", headers={"Content-Encoding": "gzip"}, raw=b"\x1f\x8b")
    assert (reply.status, reply.body) == (415, b"")


@pytest.mark.usefixtures("b10434")
@pytest.mark.parametrize("path", [CHAT, "/nope"])
def test_preflight_is_always_answered(server: Launched, path: str) -> None:
    reply = server.request("OPTIONS", path, headers={"Origin": "http://example.com"})
    assert reply.status == 200
    assert reply.headers == [
        ("Server", "llama.cpp"),
        ("Access-Control-Allow-Origin", "http://example.com"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"),
        ("Access-Control-Allow-Headers", "*"),
        ("Content-Type", "text/html"),
        ("Keep-Alive", "timeout=5, max=100"),
        ("Content-Length", "0"),
    ]


def test_head_has_the_headers_without_the_body(server: Launched) -> None:
    with server.dialog() as dialog:
        dialog.send("HEAD", "/health")
        reply: Reply = dialog.head()
        assert (reply.status, reply.header("Content-Length")) == (200, "15")
        dialog.send("GET", "/health")
        assert dialog.reply().json() == {"status": "ok"}
