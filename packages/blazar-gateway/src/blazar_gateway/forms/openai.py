"""The bodies of OpenAI's routes, and of llama-server's own."""

from blazar_gateway.dialects.openai.generation import CHAT_CHECKS, COMPLETION_CHECKS
from blazar_gateway.dialects.openai.parameters import (
    boolean,
    mapping,
    mixed_text,
    number,
    objects,
    text,
    token_numbers,
    whole_number,
)
from blazar_gateway.forms.fields import ANY, COUNT, FLAG, KEEP_ALIVE, NAME, OBJECTS, TEXT, choice, message
from blazar_gateway.forms.form import Described, Form

_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_INPUT = {"anyOf": [{"type": "string", "minLength": 1}, _TOKENS]}

CHAT = Form(
    "ChatCompletionRequest",
    {
        **CHAT_CHECKS,
        "model": NAME,
        "messages": message("system", "developer", "user", "assistant", "tool", "function"),
        "tools": OBJECTS,
        "tool_choice": Described({"type": ["string", "object"]}),
        "response_format": Described({"type": "object"}),
        "keep_alive": KEEP_ALIVE,
        "prompt_cache_key": TEXT,
    },
    required=("model", "messages"),
)

COMPLETION = Form(
    "CompletionRequest",
    {
        **COMPLETION_CHECKS,
        "model": NAME,
        "prompt": Described(
            {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}, _TOKENS]}},
                ]
            }
        ),
        "keep_alive": KEEP_ALIVE,
    },
    required=("model",),
)

EMBEDDINGS = Form(
    "EmbeddingRequest",
    {
        "model": NAME,
        "input": Described({"anyOf": [_INPUT, {"type": "array", "items": _INPUT, "minItems": 1, "maxItems": 2048}]}),
        "encoding_format": choice("float", "base64"),
        "dimensions": COUNT,
        "keep_alive": KEEP_ALIVE,
    },
    required=("model", "input"),
)

RESPONSE = Form(
    "ResponseRequest",
    {
        "model": NAME,
        "input": Described({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["object", "string"]}}]}),
        "instructions": TEXT,
        "max_output_tokens": COUNT,
        "stream": boolean,
        "store": FLAG,
        "previous_response_id": TEXT,
        "tools": OBJECTS,
        "tool_choice": Described({"type": ["string", "object"]}),
        "parallel_tool_calls": boolean,
        "text": Described({"type": "object"}),
        "reasoning": Described({"type": "object"}),
        "temperature": number,
        "top_p": number,
        "top_k": whole_number,
        "min_p": number,
        "seed": whole_number,
        "user": text,
        "metadata": ANY,
    },
    required=("model",),
)

_DOCUMENT = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    ]
}

RERANK = Form(
    "RerankRequest",
    {
        "model": NAME,
        "query": NAME,
        "documents": Described({"type": "array", "items": _DOCUMENT, "minItems": 1, "maxItems": 2048}),
        "top_n": COUNT,
        "return_documents": FLAG,
        "keep_alive": KEEP_ALIVE,
    },
    required=("model", "query", "documents"),
)

TOKENIZE = Form(
    "TokenizeRequest", {"model": NAME, "content": mixed_text, "add_special": boolean, "with_pieces": boolean}
)
DETOKENIZE = Form("DetokenizeRequest", {"model": NAME, "tokens": token_numbers})
APPLY_TEMPLATE = Form(
    "ApplyTemplateRequest",
    {
        "model": NAME,
        "messages": objects,
        "chat_template_kwargs": mapping,
    },
)
