"""What operations answer, as JSON Schemas. Tests hold real answers against them, so that they cannot drift."""

from collections.abc import Mapping
from typing import Any

from blazar_gateway.error_responses import Dialect

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {"type": "object"}


def record(*, optional: Mapping[str, Schema] | None = None, **fields: Schema) -> dict[str, Any]:
    """Return the schema of an object in which ``fields`` are always there; it may hold more."""
    return {"type": "object", "properties": {**fields, **(optional or {})}, "required": list(fields)}


def listed(item: Schema) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": item}


def constant(value: str) -> dict[str, Any]:
    """Return the schema of one certain text."""
    return {"type": "string", "const": value}


def or_null(schema: Schema) -> dict[str, Any]:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


ERRORS: Mapping[Dialect, Schema] = {
    Dialect.OPENAI: record(error=record(message=TEXT, type=TEXT, param=or_null(TEXT), code=TEXT)),
    Dialect.ANTHROPIC: record(type=constant("error"), error=record(type=TEXT, message=TEXT), request_id=TEXT),
    Dialect.OLLAMA: record(error=TEXT, code=TEXT),
}
"""The envelope of a refusal in each dialect."""

_USAGE = record(prompt_tokens=WHOLE, completion_tokens=WHOLE, total_tokens=WHOLE)
_CHOICE = record(index=WHOLE, finish_reason=or_null(TEXT))

CHAT_COMPLETION = record(
    id=TEXT,
    object=constant("chat.completion"),
    created=WHOLE,
    model=TEXT,
    choices=listed({**_CHOICE, "properties": {**_CHOICE["properties"], "message": record(role=TEXT)}}),
    usage=_USAGE,
)
COMPLETION = record(
    id=TEXT,
    object=constant("text_completion"),
    created=WHOLE,
    model=TEXT,
    choices=listed({**_CHOICE, "properties": {**_CHOICE["properties"], "text": TEXT}}),
    usage=_USAGE,
)
MODEL = record(id=TEXT, object=constant("model"), created=WHOLE, owned_by=TEXT, capabilities=listed(TEXT), state=TEXT)
ANTHROPIC_MODEL = record(type=constant("model"), id=TEXT, display_name=TEXT, created_at=TEXT)
MODELS = {
    "anyOf": [
        record(object=constant("list"), data=listed(MODEL)),
        record(data=listed(ANTHROPIC_MODEL), has_more=FLAG, first_id=or_null(TEXT), last_id=or_null(TEXT)),
    ]
}
ONE_MODEL = {"anyOf": [MODEL, ANTHROPIC_MODEL]}
VECTORS = record(
    object=constant("list"),
    data=listed(
        record(object=constant("embedding"), index=WHOLE, embedding={"anyOf": [TEXT, listed({"type": "number"})]})
    ),
    model=TEXT,
    usage=record(prompt_tokens=WHOLE, total_tokens=WHOLE),
)
_RANKED = listed(record(index=WHOLE, relevance_score={"type": "number"}))
RERANKED = record(model=TEXT, object=constant("list"), results=_RANKED, usage=ANYTHING)
RERANKED_COHERE = record(id=TEXT, results=_RANKED, meta=ANYTHING)
RESPONSE = record(id=TEXT, object=constant("response"), created_at={"type": "number"}, status=TEXT, model=TEXT)
INPUT_TOKENS = record(object=constant("response.input_tokens"), input_tokens=WHOLE)
DELETED_RESPONSE = record(id=TEXT, object=TEXT, deleted=FLAG)
ITEMS = record(object=constant("list"), data=listed({"type": "object"}), has_more=FLAG)
MESSAGE = record(
    id=TEXT,
    type=constant("message"),
    role=constant("assistant"),
    model=TEXT,
    content=listed(record(type=TEXT)),
    stop_reason=or_null(TEXT),
    usage=record(input_tokens=WHOLE, output_tokens=WHOLE),
)
COUNTED = record(input_tokens=WHOLE)

_DETAILS = record(
    parent_model=TEXT,
    format=TEXT,
    family=TEXT,
    families=or_null(listed(TEXT)),
    parameter_size=TEXT,
    quantization_level=TEXT,
)
TAGS = record(models=listed(record(name=TEXT, model=TEXT, modified_at=TEXT, size=WHOLE, digest=TEXT, details=_DETAILS)))
LOADED = record(
    models=listed(record(name=TEXT, model=TEXT, size=WHOLE, size_vram=WHOLE, expires_at=TEXT, context_length=WHOLE))
)
SHOWN = record(
    modelfile=TEXT, parameters=TEXT, template=TEXT, details=_DETAILS, model_info={"type": "object"},
    capabilities=listed(TEXT), modified_at=TEXT,
)  # fmt: skip
OLLAMA_CHAT = record(model=TEXT, created_at=TEXT, message=record(role=TEXT, content=TEXT), done=FLAG)
OLLAMA_GENERATE = record(model=TEXT, created_at=TEXT, response=TEXT, done=FLAG)
OLLAMA_VECTORS = record(model=TEXT, embeddings=listed(listed({"type": "number"})), total_duration=WHOLE)
OLLAMA_VECTOR = record(embedding=listed({"type": "number"}))
STATUS = record(status=TEXT)
VERSION = record(version=TEXT)
PULLS = record(pulls=listed(record(reference=TEXT, status=TEXT, completed=WHOLE, total=WHOLE)))
CANCELLED = record(cancelled=FLAG)
STOPPED = record(model=TEXT, stopped=FLAG)
KEYS = record(keys=listed(record(name=TEXT, models=listed(TEXT), running=WHOLE)))
KEY_SECRET = record(name=TEXT, key=TEXT)
KEY_REMOVED = record(name=TEXT, removed=FLAG)
USAGE = record(
    usage=listed(record(day=TEXT, key=TEXT, model=TEXT, requests=WHOLE, prompt_tokens=WHOLE, completion_tokens=WHOLE))
)
