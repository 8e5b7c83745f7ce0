"""The bodies of Ollama's routes."""

from blazar_gateway.dialects.ollama.options import FLOATS, INTEGERS
from blazar_gateway.dialects.ollama.request import THINK_LEVELS
from blazar_gateway.forms.fields import FLAG, KEEP_ALIVE, NAME, OBJECT, OBJECTS, TEXT, TEXTS, message
from blazar_gateway.forms.form import Described, Form

_NAMED = {"model": NAME, "name": NAME}
_EITHER = ("model", "name")

_OPTIONS = Described(
    {
        "type": "object",
        "properties": {
            **{name: {"type": ["number", "null"]} for name in FLOATS},
            **{name: {"type": ["integer", "null"]} for name in INTEGERS},
            "num_ctx": {"type": ["integer", "null"], "minimum": 1},
            "stop": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}]},
        },
    }
)

_GENERATION = {
    **_NAMED,
    "stream": FLAG,
    "format": Described({"anyOf": [{"enum": ["", "json"]}, {"type": "object"}]}),
    "options": _OPTIONS,
    "keep_alive": KEEP_ALIVE,
    "think": Described({"enum": [True, False, *THINK_LEVELS]}),
    "logprobs": FLAG,
    "top_logprobs": Described({"type": "integer", "minimum": 0, "maximum": 20}),
}

CHAT = Form(
    "OllamaChatRequest",
    {**_GENERATION, "messages": message("system", "user", "assistant", "tool"), "tools": OBJECTS},
    one_of=_EITHER,
)

GENERATE = Form(
    "OllamaGenerateRequest",
    {
        **_GENERATION,
        "prompt": TEXT,
        "suffix": TEXT,
        "system": TEXT,
        "template": TEXT,
        "raw": FLAG,
        "images": TEXTS,
        "context": Described({"type": "array", "items": {"type": "integer", "minimum": 0}}),
    },
    one_of=_EITHER,
)

EMBED = Form(
    "OllamaEmbedRequest",
    {
        **_NAMED,
        "input": Described({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        "truncate": FLAG,
        "dimensions": Described({"type": "integer", "minimum": 1}),
        "options": OBJECT,
        "keep_alive": KEEP_ALIVE,
    },
    one_of=_EITHER,
)

EMBEDDING = Form(
    "OllamaEmbeddingRequest",
    {**_NAMED, "prompt": TEXT, "options": OBJECT, "keep_alive": KEEP_ALIVE},
    one_of=_EITHER,
)

SHOW = Form("OllamaShowRequest", {**_NAMED, "verbose": FLAG}, one_of=_EITHER)
NAMED = Form("OllamaNameRequest", _NAMED, one_of=_EITHER)
PULL = Form("OllamaPullRequest", {**_NAMED, "insecure": FLAG, "stream": FLAG}, one_of=_EITHER)
PUSH = Form("OllamaPushRequest", {**_NAMED, "insecure": FLAG, "stream": FLAG}, one_of=_EITHER)
COPY = Form("OllamaCopyRequest", {"source": NAME, "destination": NAME}, required=("source", "destination"))

CREATE = Form(
    "OllamaCreateRequest",
    {
        **_NAMED,
        "from": TEXT,
        "files": Described({"type": "object", "additionalProperties": {"type": "string"}}),
        "adapters": Described({"type": "object", "additionalProperties": {"type": "string"}}),
        "template": TEXT,
        "system": TEXT,
        "parameters": OBJECT,
        "messages": OBJECTS,
        "license": Described({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        "quantize": TEXT,
        "stream": FLAG,
    },
    one_of=_EITHER,
)
