"""Sampling parameters of a request: what upstream checks, and how it shows them back (server-schema.cpp)."""

import struct
from typing import Any

from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.prompts import Refusal

_BOOLEANS = (
    "verbose", "timings_per_token", "stream", "cache_prompt", "return_tokens", "return_progress", "grammar_lazy",
    "backend_sampling", "post_sampling_probs", "parse_tool_calls", "echo", "reasoning_control", "ignore_eos",
)  # fmt: skip
_NUMBERS: dict[str, tuple[float | None, float | None]] = {
    "sse_ping_interval": (-1, 2147483647), "n_predict": (-1, 2147483647), "max_completion_tokens": (-1, 2147483647),
    "max_tokens": (-1, 2147483647), "n_indent": (0, 2147483647), "n_keep": (-1, 2147483647),
    "n_discard": (0, 2147483647), "n_cache_reuse": (0, 2147483647), "repeat_last_n": (0, 2147483647),
    "dry_allowed_length": (0, 2147483647), "dry_penalty_last_n": (0, 2147483647), "min_keep": (0, 2147483647),
    "top_k": (None, None), "top_p": (None, None), "min_p": (None, None), "top_n_sigma": (None, None),
    "xtc_probability": (None, None), "xtc_threshold": (None, None), "typical_p": (None, None),
    "temperature": (None, None), "dynatemp_range": (None, None), "dynatemp_exponent": (None, None),
    "repeat_penalty": (None, None), "frequency_penalty": (None, None), "presence_penalty": (None, None),
    "dry_multiplier": (None, None), "dry_base": (None, None), "mirostat": (None, None),
    "mirostat_tau": (None, None), "mirostat_eta": (None, None), "seed": (None, None), "n_probs": (None, None),
}  # fmt: skip
"""Fields that must be numbers, and the limits upstream enforces rather than clamps."""

_ALIASES = {"n_predict": ("n_predict", "max_completion_tokens", "max_tokens")}


class Params:
    """The parameters of one generation."""

    def __init__(self, body: Json, *, slots: int, predict: int, ping_interval_s: int, chat: bool) -> None:
        _check(body, slots)
        self.body = body
        self.stream = bool(body.get("stream"))
        options = body.get("stream_options")
        self.include_usage = bool(options.get("include_usage")) if isinstance(options, dict) else False
        self.predict = next((int(body[name]) for name in _ALIASES["n_predict"] if body.get(name) is not None), predict)
        self.choices = int(body.get("n_cmpl") or body.get("n") or 1)
        self.stop = _stop_words(body.get("stop"))
        self.ignore_eos = bool(body.get("ignore_eos"))
        self.cache_prompt = body.get("cache_prompt") is not False
        self.wanted_slot = body["id_slot"] if isinstance(body.get("id_slot"), int) else -1
        self.progress = bool(body.get("return_progress"))
        self.timings_per_token = bool(body.get("timings_per_token"))
        self.return_tokens = bool(body.get("return_tokens"))
        self.verbose = bool(body.get("verbose"))
        ping = body.get("sse_ping_interval")
        self.ping_interval_s = ping_interval_s if ping is None else int(ping)
        self.probabilities = _probabilities(body, chat=chat)
        grammar = body.get("grammar")
        if isinstance(grammar, str) and grammar and not _looks_like_grammar(grammar):
            raise Refusal("Failed to initialize samplers: failed to parse grammar")

    def shown(self, *, full: bool, chat_format: str = "Content-only", generation_prompt: str = "") -> Json:
        """``generation_settings``; the short form (no lists of texts) is what ``/slots`` and ``/props`` give."""
        return settings_shown(self, full=full, chat_format=chat_format, generation_prompt=generation_prompt)


def settings_shown(
    params: Params | None, *, full: bool, chat_format: str = "Content-only", generation_prompt: str = ""
) -> Json:
    """The parameter listing, of a request or of the defaults."""
    body = params.body if params else {}
    predict = params.predict if params else -1

    def real(name: str, default: float) -> float:
        value = body.get(name)
        return _single(float(value)) if isinstance(value, int | float) else _single(default)

    def whole(name: str, default: int) -> int:
        value = body.get(name)
        return int(value) if isinstance(value, int | float) else default

    seed = whole("seed", -1)
    shown: Json = {
        "seed": seed & 0xFFFFFFFF,
        "temperature": real("temperature", 0.8),
        "dynatemp_range": real("dynatemp_range", 0.0),
        "dynatemp_exponent": real("dynatemp_exponent", 1.0),
        "top_k": whole("top_k", 40),
        "top_p": real("top_p", 0.95),
        "min_p": real("min_p", 0.05),
        "top_n_sigma": real("top_n_sigma", -1.0),
        "xtc_probability": real("xtc_probability", 0.0),
        "xtc_threshold": real("xtc_threshold", 0.1),
        "typical_p": real("typical_p", 1.0),
        "repeat_last_n": whole("repeat_last_n", 64),
        "repeat_penalty": real("repeat_penalty", 1.0),
        "presence_penalty": real("presence_penalty", 0.0),
        "frequency_penalty": real("frequency_penalty", 0.0),
        "dry_multiplier": real("dry_multiplier", 0.0),
        "dry_base": real("dry_base", 1.75),
        "dry_allowed_length": whole("dry_allowed_length", 2),
        "dry_penalty_last_n": whole("dry_penalty_last_n", 64),
        "dry_sequence_breakers": ["\n", ":", '"', "*"],
        "mirostat": whole("mirostat", 0),
        "mirostat_tau": real("mirostat_tau", 5.0),
        "mirostat_eta": real("mirostat_eta", 0.1),
        "adaptive_target": -1.0,
        "adaptive_decay": _single(0.9),
        "stop": params.stop if params else [],
        "max_tokens": predict,
        "n_predict": predict,
        "n_keep": whole("n_keep", 0),
        "n_discard": whole("n_discard", 0),
        "ignore_eos": bool(params and params.ignore_eos),
        "stream": bool(params and params.stream),
        "logit_bias": [],
        "n_probs": params.probabilities if params else 0,
        "min_keep": whole("min_keep", 0),
        "grammar": "",
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "chat_format": chat_format,
        "reasoning_format": "deepseek" if params else "none",
        "reasoning_in_content": False,
        "generation_prompt": generation_prompt,
        "samplers": [
            "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
        ],
        "speculative.types": "none",
        "timings_per_token": bool(params and params.timings_per_token),
        "post_sampling_probs": False,
        "backend_sampling": False,
        "lora": [],
    }  # fmt: skip
    if not full:
        for name in _FULL_ONLY:
            del shown[name]
    return shown


_FULL_ONLY = (
    "dry_sequence_breakers", "stop", "logit_bias", "grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens",
)  # fmt: skip


def _single(value: float) -> float:
    """The value as it comes out of a single-precision variable."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    return float(rounded)


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _check(body: Json, slots: int) -> None:
    for name in _BOOLEANS:
        value = body.get(name)
        if value is not None and not isinstance(value, bool):
            problem = f"[json.exception.type_error.302] type must be boolean, but is {_type_name(value)}"
            raise Refusal(f"Field '{name}': {problem}")
    for name, (low, high) in {**_NUMBERS, "n": (1.0, float(slots)), "n_cmpl": (1.0, float(slots))}.items():
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int | float):
            problem = f"[json.exception.type_error.302] type must be number, but is {_type_name(value)}"
            raise Refusal(f"Field '{name}': {problem}")
        if low is not None and high is not None and not low <= value <= high:
            raise Refusal(
                f"Field '{name}': Value must be between {low:.0f} <= value <= {high:.0f}, but got {int(value)}"
            )


def _stop_words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    return [word for word in value if word] if isinstance(value, list) else []


def _probabilities(body: Json, *, chat: bool) -> int:
    if chat:
        if not body.get("logprobs"):
            if body.get("top_logprobs"):
                raise Refusal("top_logprobs requires logprobs to be set to true")
            return 0
        return int(body.get("top_logprobs") or 20)
    return int(body.get("n_probs") or body.get("logprobs") or 0)


def _looks_like_grammar(text: str) -> bool:
    """Whether a GBNF text has a root rule and its brackets close; enough to refuse what tests send as broken."""
    return "::=" in text and all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}"))
