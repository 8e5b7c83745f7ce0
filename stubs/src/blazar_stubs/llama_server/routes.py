"""Which path does what, and the small endpoints (llamacpp.md, section 3.1; server-context.cpp)."""

import time
from collections.abc import Awaitable, Callable

from blazar_stubs.llama_server import banks, completions, vectors
from blazar_stubs.llama_server.bodies import read_json, read_object
from blazar_stubs.llama_server.exchange import Exchange, dumps
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.metrics import exposition
from blazar_stubs.llama_server.params import settings_shown
from blazar_stubs.llama_server.prompts import Refusal, ServerFault, from_messages_api, from_responses_api
from blazar_stubs.llama_server.server import Server
from blazar_stubs.llama_server.shapes import FINGERPRINT
from blazar_stubs.llama_server.tokenizer import BOS, detokenize, piece_of, tokenize

Route = Callable[[Server, Exchange], Awaitable[None]]


def unsupported(text: str) -> Refusal:
    """A feature that a flag would switch on."""
    return Refusal(text, status=501, kind="not_supported_error")


async def health(server: Server, exchange: Exchange) -> None:
    """Never wakes a sleeper, and says nothing of one."""
    match server.playbook.knobs.get("health", "ok"):
        case "hang":
            await exchange.hang()
        case "error":
            raise ServerFault("stub: unhealthy")
        case _:
            await exchange.json(200, {"status": "ok"})


async def models(server: Server, exchange: Exchange) -> None:
    """The one model, in two formats at once."""
    model, name = server.loaded, server.settings.model_name
    vision = bool(server.settings.projector)
    entry = {
        "name": name, "model": name, "modified_at": "", "size": "", "digest": "", "type": "model",
        "description": "", "tags": [""],
        "capabilities": ["completion", "multimodal"] if vision else ["completion"], "parameters": "",
        "details": {
            "parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": "",
            "quantization_level": "",
        },
    }  # fmt: skip
    kind = {"llama": 1, "gpt2": 2, "bert": 3}.get(model.header.text("tokenizer.ggml.model"), 0)
    data = {
        "id": name, "aliases": server.settings.aliases, "tags": [], "object": "model", "created": int(time.time()),
        "owned_by": "llamacpp",
        "meta": {
            "vocab_type": kind, "n_vocab": model.shape.vocabulary, "n_ctx": model.shape.slot_context,
            "n_ctx_train": model.shape.train_context, "n_embd": model.shape.embedding,
            "n_params": model.shape.parameters, "size": model.shape.weight_bytes, "ftype": model.header.file_type,
        },
    }  # fmt: skip
    await exchange.json(200, {"models": [entry], "object": "list", "data": [data]})


async def props(server: Server, exchange: Exchange) -> None:
    """Never wakes a sleeper, and says whether there is one."""
    model, settings = server.loaded, server.settings
    tokens = model.header.tokens
    marks = [model.header.keys.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")]
    bos, eos = (tokens[mark] if isinstance(mark, int) and mark < len(tokens) else "" for mark in marks)
    body: Json = {
        "default_generation_settings": {"params": settings_shown(None, full=False), "n_ctx": model.shape.slot_context},
        "total_slots": settings.slots,
        "model_alias": settings.model_name,
        "model_ftype": model.header.file_type,
        "model_path": settings.model_path,
        "modalities": {"vision": bool(settings.projector), "video": False, "audio": False},
        "media_marker": "<__media__>",
        "endpoint_slots": settings.slots_endpoint,
        "endpoint_props": settings.props,
        "endpoint_metrics": settings.metrics,
        "ui": settings.ui,
        "ui_settings": {},
        "chat_template": model.template.source,
        "chat_template_caps": model.template.capabilities,
        "bos_token": bos,
        "eos_token": eos,
        "build_info": FINGERPRINT,
        "is_sleeping": model.engine.is_sleeping,
        "cors_proxy_enabled": False,
    }
    await exchange.json(200, body)


async def change_props(server: Server, exchange: Exchange) -> None:
    """Nothing can be changed; the endpoint must be switched on all the same."""
    await server.loaded.engine.touch(resets=False)
    if not server.settings.props:
        raise unsupported("This server does not support changing global properties. Start it with `--props`")
    await exchange.json(200, {"success": True})


async def slots(server: Server, exchange: Exchange) -> None:
    """What each slot does. Wakes a sleeper."""
    if not server.settings.slots_endpoint:
        raise unsupported("This server does not support slots endpoint. Start it with `--slots`")
    engine = server.loaded.engine
    await engine.touch()
    if exchange.request.query.get("fail_on_no_slot") and engine.busy == len(engine.slots):
        raise Refusal("no slot available", status=503, kind="unavailable_error")
    await exchange.json(200, [slot.shown() for slot in engine.slots])


async def metrics(server: Server, exchange: Exchange) -> None:
    """Counters. Wakes a sleeper."""
    if not server.settings.metrics:
        raise unsupported("This server does not support metrics endpoint. Start it with `--metrics`")
    engine = server.loaded.engine
    await engine.touch()
    started = [("Process-Start-Time-Unix", str(int(server.started_at)))]
    text = exposition(engine).encode()
    await exchange.answer(200, text, content_type="text/plain; version=0.0.4", headers=started)


async def tokenize_text(server: Server, exchange: Exchange) -> None:
    """Token numbers, or numbers with their pieces."""
    body = read_object(exchange)
    await server.loaded.engine.touch(resets=False)
    content = body.get("content", "")
    special = body.get("parse_special") is not False
    tokens: list[int] = []
    for part in content if isinstance(content, list) else [content]:
        tokens += tokenize(part, special=special) if isinstance(part, str) else [int(part)]
    if body.get("add_special") and server.loaded.header.keys.get("tokenizer.ggml.add_bos_token", True):
        tokens.insert(0, BOS)
    if body.get("with_pieces"):
        await exchange.json(200, {"tokens": [{"id": token, "piece": piece_of(token)} for token in tokens]})
    else:
        await exchange.json(200, {"tokens": tokens})


async def detokenize_tokens(server: Server, exchange: Exchange) -> None:
    """The text of token numbers."""
    body = read_object(exchange)
    await server.loaded.engine.touch(resets=False)
    await exchange.json(200, {"content": detokenize([int(token) for token in body.get("tokens", [])])})


async def apply_template(server: Server, exchange: Exchange) -> None:
    """The prompt a chat body becomes."""
    body = read_object(exchange)
    await server.loaded.engine.touch(resets=False)
    prompt = server.loaded.template.render(body, vision=bool(server.settings.projector))
    await exchange.json(200, {"prompt": prompt})


async def _count(server: Server, exchange: Exchange, body: Json, *, named: bool) -> None:
    await server.loaded.engine.touch(resets=False)
    prompt = server.loaded.template.render(body, vision=bool(server.settings.projector))
    counted: Json = {"input_tokens": len(tokenize(prompt))}
    await exchange.json(200, {**counted, "object": "response.input_tokens"} if named else counted)


async def count_chat(server: Server, exchange: Exchange) -> None:
    """How long the prompt of a chat body is."""
    await _count(server, exchange, read_object(exchange), named=True)


async def count_responses(server: Server, exchange: Exchange) -> None:
    """How long the prompt of a Responses body is."""
    await _count(server, exchange, from_responses_api(read_object(exchange)), named=True)


async def count_messages(server: Server, exchange: Exchange) -> None:
    """How long the prompt of a Messages body is."""
    await _count(server, exchange, from_messages_api(read_object(exchange)), named=False)


async def control_completion(server: Server, exchange: Exchange) -> None:
    """Ending a model's reasoning from outside; the stub's has none to end."""
    body = read_object(exchange)
    await server.loaded.engine.touch()
    if not body.get("id"):
        raise Refusal("missing completion id")
    if body.get("action") != "reasoning_end":
        raise Refusal("unknown control action")
    await exchange.json(200, {"success": False})


async def adapters(server: Server, exchange: Exchange) -> None:
    """The adapters that were loaded."""
    await server.loaded.engine.touch()
    await exchange.json(200, server.loaded.adapters)


async def set_adapters(server: Server, exchange: Exchange) -> None:
    """New scales; unknown numbers are accepted."""
    body = read_json(exchange)
    await server.loaded.engine.touch()
    if not isinstance(body, list):
        raise Refusal("Request body must be an array")
    scales = {entry.get("id"): entry.get("scale", 0.0) for entry in body}
    for adapter in server.loaded.adapters:
        adapter["scale"] = scales.get(adapter["id"], 0.0)
    await exchange.json(200, {"success": True})


async def infill(server: Server, exchange: Exchange) -> None:  # noqa: ARG001 - a route's signature
    """The stub's vocabulary has no marks for filling in."""
    missing = "prefix token is missing. suffix token is missing. middle token is missing. "
    raise unsupported(f"Infill is not supported by this model: {missing}")


async def transcriptions(server: Server, exchange: Exchange) -> None:  # noqa: ARG001 - a route's signature
    """The stub hears nothing."""
    raise unsupported("The current model does not support audio input.")


async def disabled(server: Server, exchange: Exchange) -> None:  # noqa: ARG001 - a route's signature
    """Features off by default; their error has no code."""
    await exchange.json(403, {"error": {"message": "this feature is disabled", "type": "feature_disabled"}})


async def front_page(server: Server, exchange: Exchange) -> None:
    """The web page, which exists compressed only."""
    if not server.settings.ui:
        await exchange.json(404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}})
    elif "gzip" not in exchange.request.header("accept-encoding"):
        await exchange.answer(415, b"Error: gzip is not supported by this browser", content_type="text/plain")
    else:
        import gzip

        page = gzip.compress(b"<!doctype html><title>llama.cpp</title>")
        await exchange.answer(200, page, content_type="text/html", headers=[("Content-Encoding", "gzip")])


async def resume(server: Server, exchange: Exchange) -> None:
    """What a conversation's stream has given so far."""
    conversation = _conversation(exchange)
    kept = server.conversations.get(conversation)
    if kept is None:
        await exchange.json(404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}})
        return
    await exchange.open_stream()
    await exchange.write(bytes(kept))
    await exchange.end_stream()


async def forget(server: Server, exchange: Exchange) -> None:
    """Drop a conversation's stream."""
    server.conversations.pop(_conversation(exchange), None)
    await exchange.answer(204, b"", content_type="application/json")


async def lookup(server: Server, exchange: Exchange) -> None:
    """Which of the asked conversations have a stream."""
    body = read_json(exchange)
    asked = body.get("conversation_ids", []) if isinstance(body, dict) else []
    await exchange.answer(200, dumps([name for name in asked if name in server.conversations]))


def _conversation(exchange: Exchange) -> str:
    conversation = exchange.request.query.get("conv_id", "")
    if not conversation:
        raise Refusal("Missing conversation id in path")
    return conversation


_TABLE: dict[tuple[str, str], Route] = {
    ("GET", "/health"): health,
    ("GET", "/v1/health"): health,
    ("GET", "/models"): models,
    ("GET", "/v1/models"): models,
    ("GET", "/props"): props,
    ("POST", "/props"): change_props,
    ("GET", "/slots"): slots,
    ("GET", "/metrics"): metrics,
    ("POST", "/tokenize"): tokenize_text,
    ("POST", "/detokenize"): detokenize_tokens,
    ("POST", "/apply-template"): apply_template,
    ("POST", "/chat/completions/input_tokens"): count_chat,
    ("POST", "/v1/chat/completions/input_tokens"): count_chat,
    ("POST", "/responses/input_tokens"): count_responses,
    ("POST", "/v1/responses/input_tokens"): count_responses,
    ("POST", "/v1/messages/count_tokens"): count_messages,
    ("POST", "/v1/chat/completions/control"): control_completion,
    ("GET", "/lora-adapters"): adapters,
    ("POST", "/lora-adapters"): set_adapters,
    ("POST", "/infill"): infill,
    ("POST", "/v1/audio/transcriptions"): transcriptions,
    ("POST", "/audio/transcriptions"): transcriptions,
    ("GET", "/tools"): disabled,
    ("POST", "/tools"): disabled,
    ("GET", "/cors-proxy"): disabled,
    ("POST", "/cors-proxy"): disabled,
    ("GET", "/"): front_page,
    ("GET", "/index.html"): front_page,
    ("GET", "/v1/stream"): resume,
    ("DELETE", "/v1/stream"): forget,
    ("POST", "/v1/streams/lookup"): lookup,
    ("POST", "/completion"): completions.native,
    ("POST", "/completions"): completions.native,
    ("POST", "/v1/completions"): completions.text,
    ("POST", "/chat/completions"): completions.chat,
    ("POST", "/v1/chat/completions"): completions.chat,
    ("POST", "/responses"): completions.responses,
    ("POST", "/v1/responses"): completions.responses,
    ("POST", "/v1/messages"): completions.messages,
    ("POST", "/embedding"): vectors.embed_native,
    ("POST", "/embeddings"): vectors.embed_native,
    ("POST", "/v1/embeddings"): vectors.embed_openai,
    ("POST", "/rerank"): vectors.rerank,
    ("POST", "/reranking"): vectors.rerank,
    ("POST", "/v1/rerank"): vectors.rerank,
    ("POST", "/v1/reranking"): vectors.rerank,
}

GENERATING_PATHS = frozenset(
    path for _, path in _TABLE if path.endswith(("/completion", "/completions", "/responses", "/messages", "/infill"))
)
"""Requests that a script without a path of its own is meant for."""


def find_route(method: str, path: str) -> Route | None:
    """The route of a request; HEAD is GET, and a wrong method is as unknown as a wrong path."""
    if method == "POST" and path.startswith("/slots/") and path.count("/") == 2:
        return banks.act
    return _TABLE.get(("GET" if method == "HEAD" else method, path))
