"""Every operation: what it takes and what it answers. A test finds each route here, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from blazar_gateway.forms import anthropic, managing, ollama, openai
from blazar_gateway.forms.form import Form
from blazar_gateway.openapi import answers
from blazar_gateway.openapi.answers import Schema

_NDJSON = "application/x-ndjson"
_SSE = "text/event-stream"
_PLAIN = "text/plain"
_JSON = "application/json"
_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        summary: What it does, one line.
        tag: The dialect, or what it is about.
        form: The body, or ``None`` without one.
        answers: By status: content type to schema; none for an empty body.
        query: Query parameters and their schemas.
        uploads: Whether the body is a file's bytes.
    """

    summary: str
    tag: str
    form: Form | None = None
    answers: Mapping[int, Mapping[str, Schema]] = field(default_factory=dict)
    query: Mapping[str, Schema] = field(default_factory=dict)
    uploads: bool = False


def _json(schema: Schema, *, status: int = 200) -> dict[int, dict[str, Schema]]:
    return {status: {_JSON: schema}}


def _streams(schema: Schema, stream: str) -> dict[int, dict[str, Schema]]:
    return {200: {_JSON: schema, stream: answers.TEXT}}


_EMPTY: Mapping[int, Mapping[str, Schema]] = {200: {}}
_WHOLE: dict[str, Any] = {"type": "integer", "minimum": 1}

_CHAT = Operation("Answer a conversation", "OpenAI", openai.CHAT, _streams(answers.CHAT_COMPLETION, _SSE))
_COMPLETION = Operation("Go on with a text", "OpenAI", openai.COMPLETION, _streams(answers.COMPLETION, _SSE))
_EMBEDDINGS = Operation("Turn texts into vectors", "OpenAI", openai.EMBEDDINGS, _json(answers.VECTORS))
_RERANK = Operation("Order texts by how well they answer a query", "Rerank", openai.RERANK, _json(answers.RERANKED))
_MODELS = Operation(
    "List the models; in Anthropic's shape to its clients",
    "OpenAI",
    answers=_json(answers.MODELS),
    query={"limit": {**_WHOLE, "maximum": 1000}, "after_id": answers.TEXT, "before_id": answers.TEXT},
)
_MODEL = Operation("Show a model", "OpenAI", answers=_json(answers.ONE_MODEL))
_HEALTH = Operation("Say that the daemon is well", "Daemon", answers=_json(answers.STATUS))
_DELETE = Operation("Remove a model", "Ollama", ollama.NAMED, _EMPTY)
_ENGINE = _json(answers.ANYTHING)

OPERATIONS: Mapping[tuple[str, str], Operation] = MappingProxyType(
    {
        ("GET", "/"): Operation("Say that somebody is there", "Daemon", answers={200: {_PLAIN: answers.TEXT}}),
        ("GET", "/openapi.json"): Operation("Describe every operation", "Daemon", answers=_json(answers.ANYTHING)),
        ("GET", "/health"): _HEALTH,
        ("GET", "/healthz"): _HEALTH,
        ("GET", "/metrics"): Operation(
            "Show the daemon's figures for Prometheus", "Daemon", answers={200: {_PLAIN: answers.TEXT}}
        ),
        ("GET", "/v1/models"): _MODELS,
        ("GET", "/models"): _MODELS,
        ("GET", "/v1/models/{model}"): _MODEL,
        ("GET", "/models/{model}"): _MODEL,
        ("POST", "/v1/chat/completions"): _CHAT,
        ("POST", "/chat/completions"): _CHAT,
        ("POST", "/v1/completions"): _COMPLETION,
        ("POST", "/completions"): _COMPLETION,
        ("POST", "/v1/embeddings"): _EMBEDDINGS,
        ("POST", "/embeddings"): _EMBEDDINGS,
        ("POST", "/v1/rerank"): _RERANK,
        ("POST", "/rerank"): _RERANK,
        ("POST", "/v1/reranking"): _RERANK,
        ("POST", "/reranking"): _RERANK,
        ("POST", "/v2/rerank"): Operation(
            "Order texts by how well they answer a query",
            "Rerank",
            openai.RERANK,
            _json(answers.RERANKED_COHERE),
        ),
        ("POST", "/v1/responses"): Operation(
            "Answer, with a response that can be continued", "OpenAI", openai.RESPONSE, _streams(answers.RESPONSE, _SSE)
        ),
        ("POST", "/v1/responses/input_tokens"): Operation(
            "Count the tokens that a response's input takes", "OpenAI", openai.RESPONSE, _json(answers.INPUT_TOKENS)
        ),
        ("GET", "/v1/responses/{id}"): Operation(
            "Show a response that was kept", "OpenAI", answers=_json(answers.RESPONSE)
        ),
        ("DELETE", "/v1/responses/{id}"): Operation(
            "Forget a response", "OpenAI", answers=_json(answers.DELETED_RESPONSE)
        ),
        ("POST", "/v1/responses/{id}/cancel"): Operation(
            "Refuse to cancel what has ended", "OpenAI", answers=_json(answers.RESPONSE)
        ),
        ("GET", "/v1/responses/{id}/input_items"): Operation(
            "List the inputs of a response",
            "OpenAI",
            answers=_json(answers.ITEMS),
            query={"limit": {**_WHOLE, "maximum": 100}, "order": {"enum": ["asc", "desc"]}, "after": answers.TEXT},
        ),
        ("POST", "/v1/messages"): Operation(
            "Answer a conversation", "Anthropic", anthropic.MESSAGES, _streams(answers.MESSAGE, _SSE)
        ),
        ("POST", "/v1/messages/count_tokens"): Operation(
            "Count the tokens of a conversation", "Anthropic", anthropic.COUNT_TOKENS, _json(answers.COUNTED)
        ),
        ("POST", "/tokenize"): Operation("Turn a text into tokens", "llama-server", openai.TOKENIZE, _ENGINE),
        ("POST", "/detokenize"): Operation("Turn tokens into a text", "llama-server", openai.DETOKENIZE, _ENGINE),
        ("POST", "/apply-template"): Operation(
            "Write a conversation as the model's template does", "llama-server", openai.APPLY_TEMPLATE, _ENGINE
        ),
        ("GET", "/api/version"): Operation(
            "Tell the release of Ollama that this API follows", "Ollama", answers=_json(answers.VERSION)
        ),
        ("GET", "/api/tags"): Operation("List the models", "Ollama", answers=_json(answers.TAGS)),
        ("GET", "/api/ps"): Operation("List what is loaded", "Ollama", answers=_json(answers.LOADED)),
        ("POST", "/api/show"): Operation("Show what a model is", "Ollama", ollama.SHOW, _json(answers.SHOWN)),
        ("POST", "/api/chat"): Operation(
            "Answer a conversation, or load or unload a model",
            "Ollama",
            ollama.CHAT,
            _streams(answers.OLLAMA_CHAT, _NDJSON),
        ),
        ("POST", "/api/generate"): Operation(
            "Answer a prompt, or load or unload a model",
            "Ollama",
            ollama.GENERATE,
            _streams(answers.OLLAMA_GENERATE, _NDJSON),
        ),
        ("POST", "/api/embed"): Operation(
            "Turn texts into vectors of length 1", "Ollama", ollama.EMBED, _json(answers.OLLAMA_VECTORS)
        ),
        ("POST", "/api/embeddings"): Operation(
            "Turn a text into a vector", "Ollama", ollama.EMBEDDING, _json(answers.OLLAMA_VECTOR)
        ),
        ("DELETE", "/api/delete"): _DELETE,
        ("POST", "/api/delete"): _DELETE,
        ("POST", "/api/copy"): Operation("Give a model a second name", "Ollama", ollama.COPY, _EMPTY),
        ("POST", "/api/create"): Operation(
            "Make a model of another one, with defaults of its own",
            "Ollama",
            ollama.CREATE,
            _streams(answers.STATUS, _NDJSON),
        ),
        ("GET", "/api/pull"): Operation(
            "List the pulls in progress and those that ended lately", "Ollama", answers=_json(answers.PULLS)
        ),
        ("POST", "/api/pull"): Operation(
            "Fetch a model by name", "Ollama", ollama.PULL, _streams(answers.STATUS, _NDJSON)
        ),
        ("POST", "/api/pull/cancel"): Operation(
            "Stop a pull; what has arrived is kept", "Ollama", ollama.NAMED, _json(answers.CANCELLED)
        ),
        ("POST", "/api/push"): Operation(
            "Refuse: nothing is ever uploaded", "Ollama", ollama.PUSH, _json(answers.STATUS)
        ),
        ("GET", "/api/blobs/{digest}"): Operation("Tell whether a file was uploaded", "Ollama", answers=_EMPTY),
        ("POST", "/api/blobs/{digest}"): Operation(
            "Take a file for a later create", "Ollama", answers={200: {}, 201: {}}, uploads=True
        ),
        ("GET", "/api/keys"): Operation("List the keys, without their secrets", "Keys", answers=_json(answers.KEYS)),
        ("POST", "/api/keys"): Operation("Make a key", "Keys", managing.NEW_KEY, _json(answers.KEY_SECRET, status=201)),
        ("DELETE", "/api/keys/{name}"): Operation("Remove a key", "Keys", answers=_json(answers.KEY_REMOVED)),
        ("POST", "/api/keys/{name}/rotate"): Operation(
            "Give a key another secret", "Keys", answers=_json(answers.KEY_SECRET)
        ),
        ("GET", "/api/usage"): Operation(
            "Show what was used, by day, key and model",
            "Keys",
            answers=_json(answers.USAGE),
            query={"days": {**_WHOLE, "maximum": 366}},
        ),
        ("GET", "/api/daemon"): Operation("Show how the daemon does", "Daemon", answers=_json(answers.ANYTHING)),
        ("POST", "/api/stop"): Operation(
            "Unload a model once its requests have ended", "Daemon", managing.STOP, _json(answers.STOPPED)
        ),
        ("POST", "/api/explain"): Operation(
            "Say which engine would serve a model, how, and why", "Daemon", managing.EXPLAIN, _json(answers.ANYTHING)
        ),
        ("POST", "/api/refresh"): Operation(
            "Take up what was changed in the owner's files", "Daemon", answers=_json(answers.STATUS)
        ),
        ("GET", "/api/logs"): Operation(
            "Show the log's last lines, and on request what follows",
            "Daemon",
            answers={200: {_PLAIN: answers.TEXT}},
            query={"model": answers.TEXT, "lines": {"type": "integer", "minimum": 0}, "follow": answers.FLAG},
        ),
        ("POST", "/api/shutdown"): Operation(
            "Begin an orderly stop", "Daemon", answers=_json(answers.STATUS, status=202)
        ),
    }
)
"""By method and path. A GET also answers HEAD."""

UPLOAD = _BYTES
