"""The bodies of Anthropic's routes."""

from blazar_gateway.dialects.openai.parameters import boolean, number, whole_number
from blazar_gateway.forms.fields import COUNT, KEEP_ALIVE, NAME, OBJECT, OBJECTS, TEXTS, message
from blazar_gateway.forms.form import Described, Form

_COUNTED = {
    "model": NAME,
    "messages": message("user", "assistant", "system"),
    "system": Described({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}),
    "tools": OBJECTS,
    "tool_choice": OBJECT,
    "thinking": Described(
        {
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": ["enabled", "disabled", "adaptive"]},
                "budget_tokens": {"type": "integer", "minimum": 1024},
            },
            "required": ["type"],
        }
    ),
    "output_config": OBJECT,
    "metadata": OBJECT,
}

COUNT_TOKENS = Form("CountTokensRequest", _COUNTED, required=("model", "messages"))

MESSAGES = Form(
    "MessagesRequest",
    {
        **_COUNTED,
        "max_tokens": COUNT,
        "stream": boolean,
        "stop_sequences": TEXTS,
        "temperature": number,
        "top_p": number,
        "top_k": whole_number,
        "keep_alive": KEEP_ALIVE,
    },
    required=("model", "messages", "max_tokens"),
)
