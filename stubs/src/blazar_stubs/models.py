"""Write model files that cost a few kilobytes, and read back what a stub did with them.

A stub model is a real GGUF file: a complete header of a small llama (hyper-parameters, a byte-level
vocabulary, every tensor the loader asks for), with weights that are a hole in the file. A stock llama-server
loads it too. Around the file lie the stub's sidecars, all named after it:

* ``<model>.stub.json``: what the stub shall do (read at start and whenever it changes; see ``README.md``),
* ``<model>.stub.events.jsonl``: what it did, one JSON object a line (spawns, requests, exits).
"""

import json
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

CHATML_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""A chat template without a tool branch, as SmolLM2's."""

TOOL_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>system\\n' }}{% if messages[0]['role'] == 'system' %}"
    "{{ messages[0]['content'] + '\\n\\n' }}{% endif %}{{ '# Tools\\n<tools>' }}{% for tool in tools %}"
    "{{ '\\n' + (tool | tojson) }}{% endfor %}{{ '\\n</tools><|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}{% if message['role'] != 'system' or not tools %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}{% if message['content'] %}{{ message['content'] }}{% endif %}"
    "{% if message['tool_calls'] %}{% for call in message['tool_calls'] %}"
    "{{ '\\n<tool_call>\\n{\"name\": \"' + call['function']['name'] + '\", \"arguments\": ' }}"
    "{{ call['function']['arguments'] | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""A chat template with a tool branch."""

THINKING_SUFFIX = (
    "{% if add_generation_prompt and enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"
)
"""Appended to a template to give it thinking markers and a switch, as Qwen3's has."""

STUB_KEY = "blazar_stub.model"
"""The metadata key that says a file is one of ours; stubs keep an event log only beside such files."""

_ALIGNMENT = 32
_GIB = 1 << 30
_TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34)}
"""ggml type: number, elements in a block, bytes in a block (ggml.h, ggml-common.h)."""
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7}
"""general.file_type (llama.h, enum llama_ftype)."""


class StubModel:
    """One model file and the sidecars a stub keeps beside it."""

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def script_path(self) -> Path:
        """The file that tells the stub what to do."""
        return self.path.with_name(self.path.name + ".stub.json")

    @property
    def events_path(self) -> Path:
        """The file in which the stub says what it did."""
        return self.path.with_name(self.path.name + ".stub.events.jsonl")

    def script(self, **knobs: Any) -> Self:
        """Replace the sidecar by these knobs; a running stub takes them up at its next request."""
        partial = self.script_path.with_name(self.script_path.name + ".tmp")
        partial.write_text(json.dumps(knobs), "utf-8")
        partial.replace(self.script_path)
        return self

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All events so far, of one kind if given: ``spawn``, ``listening``, ``ready``, ``request``, ``done``, ...."""
        try:
            lines = self.events_path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return found if kind is None else [event for event in found if event["event"] == kind]

    @property
    def spawns(self) -> int:
        """How many stubs were started on this file."""
        return len(self.events("spawn"))

    def requests(self, path: str | None = None) -> list[dict[str, Any]]:
        """The requests received, in order: ``method``, ``path``, ``headers`` (pairs), ``body`` (text) and so on."""
        return [event for event in self.events("request") if path is None or event["path"] == path]

    def wait_for(
        self, condition: Callable[[list[dict[str, Any]]], bool], *, timeout_s: float = 30.0
    ) -> list[dict[str, Any]]:
        """Wait until the events satisfy `condition`; for synchronous tests.

        Raises:
            TimeoutError: They did not in time; the text lists them.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            events = self.events()
            if condition(events):
                return events
            if time.monotonic() > deadline:
                raise TimeoutError(f"still not so after {timeout_s} s; events: {events}")
            time.sleep(0.01)

    def clear(self) -> None:
        """Forget the events so far (for a stub that is not running)."""
        self.events_path.unlink(missing_ok=True)


def write_stub_model(
    path: str | os.PathLike[str],
    *,
    architecture: str = "llama",
    name: str | None = None,
    context_length: int = 4096,
    block_count: int | None = None,
    embedding_length: int | None = None,
    head_count: int | None = None,
    head_count_kv: int | None = None,
    feed_forward_length: int | None = None,
    weight_type: str = "F16",
    weights_bytes: int = 0,
    tools: bool = False,
    thinking: bool = False,
    chat_template: str | None = None,
    pooling_type: int | None = None,
    extra: Mapping[str, str | int | float | bool] | None = None,
    script: Mapping[str, Any] | None = None,
) -> StubModel:
    """Write one stub model and return the handle through which a test scripts and watches its stub.

    Args:
        path: The file to write; its directory must exist.
        architecture: ``general.architecture``; an unknown word makes stub and engine refuse the file.
        name: ``general.name``; the file's stem when absent.
        context_length: Training context, tokens.
        block_count: Layers; 2, or 32 with `weights_bytes`.
        embedding_length: Width, a multiple of `head_count` and, for quantised weights, of 32; 64, or 512 to 2048
            with `weights_bytes`.
        head_count: Attention heads; 4, or 16 with `weights_bytes`.
        head_count_kv: Key and value heads; 2, or 4 with `weights_bytes`.
        feed_forward_length: Width of the feed-forward network; 64, or what `weights_bytes` asks for.
        weight_type: ggml type of the two-dimensional weights: F32, F16, Q4_0 or Q8_0.
        weights_bytes: About how many bytes the weights shall have, from 64 MiB up; the feed-forward network is
            made as wide as that takes. The data is a hole in the file, so 14 GiB cost nothing.
        tools: Use a chat template with a tool branch.
        thinking: Give the template thinking markers and an ``enable_thinking`` switch.
        chat_template: A template of your own; an empty string leaves the key out.
        pooling_type: ``<arch>.pooling_type`` (1 mean, 2 cls, 3 last, 4 rank); makes the file an embedder.
        extra: Further metadata, later keys replacing earlier ones.
        script: What to write to the sidecar (see ``README.md``).

    Returns:
        The handle.
    """
    target = Path(path)
    if chat_template is None:
        chat_template = (TOOL_TEMPLATE if tools else CHATML_TEMPLATE) + (THINKING_SUFFIX if thinking else "")
    pieces = _vocabulary()
    arch = architecture
    heavy = weights_bytes > 0
    block_count = block_count or (32 if heavy else 2)
    embedding_length = embedding_length or ((2048 if weights_bytes >= _GIB else 512) if heavy else 64)
    head_count = head_count or (16 if heavy else 4)
    head_count_kv = head_count_kv or (4 if heavy else 2)
    key_value = embedding_length // head_count * head_count_kv
    if feed_forward_length is None:
        attention = 2 * embedding_length * (embedding_length + key_value)
        _, elements, size = _TYPES[weight_type]
        left = weights_bytes * elements // size // block_count - attention
        feed_forward_length = max(64, left // (3 * embedding_length) // 32 * 32)
    keys: dict[str, Any] = {
        "general.architecture": arch,
        "general.type": "model",
        "general.name": name if name is not None else target.stem,
        "general.file_type": _FILE_TYPES[weight_type],
        STUB_KEY: True,
        f"{arch}.block_count": block_count,
        f"{arch}.context_length": context_length,
        f"{arch}.embedding_length": embedding_length,
        f"{arch}.feed_forward_length": feed_forward_length,
        f"{arch}.attention.head_count": head_count,
        f"{arch}.attention.head_count_kv": head_count_kv,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.dimension_count": embedding_length // head_count,
        f"{arch}.vocab_size": len(pieces),
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [text for text, _ in pieces],
        "tokenizer.ggml.scores": [-1.0 * index for index in range(len(pieces))],
        "tokenizer.ggml.token_type": [kind for _, kind in pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }
    if chat_template:
        keys["tokenizer.chat_template"] = chat_template
    if pooling_type is not None:
        keys[f"{arch}.pooling_type"] = pooling_type
    keys |= extra or {}
    tensors = _tensors(
        block_count=block_count,
        embedding=embedding_length,
        key_value=key_value,
        feed_forward=feed_forward_length,
        vocabulary=len(pieces),
        weight_type=weight_type,
    )
    _write(target, keys, tensors)
    model = StubModel(target)
    if script is not None:
        model.script(**script)
    return model


def _vocabulary() -> list[tuple[str, int]]:
    """Pieces and their kinds (2 unknown, 3 control, 6 byte, 1 normal): enough to write any text."""
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<|im_start|>", 3), ("<|im_end|>", 3)]
    pieces += [(f"<0x{byte:02X}>", 6) for byte in range(256)]
    pieces += [("\u2581", 1)] + [(chr(code), 1) for code in range(33, 127)]
    return pieces


def _tensors(
    *, block_count: int, embedding: int, key_value: int, feed_forward: int, vocabulary: int, weight_type: str
) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape (fastest dimension first) and type of every tensor a llama has."""
    tensors: list[tuple[str, tuple[int, ...], str]] = [
        ("token_embd.weight", (embedding, vocabulary), weight_type),
        ("output_norm.weight", (embedding,), "F32"),
    ]
    for index in range(block_count):
        block = f"blk.{index}."
        tensors += [
            (block + "attn_norm.weight", (embedding,), "F32"),
            (block + "attn_q.weight", (embedding, embedding), weight_type),
            (block + "attn_k.weight", (embedding, key_value), weight_type),
            (block + "attn_v.weight", (embedding, key_value), weight_type),
            (block + "attn_output.weight", (embedding, embedding), weight_type),
            (block + "ffn_norm.weight", (embedding,), "F32"),
            (block + "ffn_gate.weight", (embedding, feed_forward), weight_type),
            (block + "ffn_up.weight", (embedding, feed_forward), weight_type),
            (block + "ffn_down.weight", (feed_forward, embedding), weight_type),
        ]
    return tensors


def _tensor_bytes(shape: tuple[int, ...], kind: str) -> int:
    _, block, size = _TYPES[kind]
    elements = 1
    for dimension in shape:
        elements *= dimension
    return elements // block * size


def _write(path: Path, keys: Mapping[str, Any], tensors: Sequence[tuple[str, tuple[int, ...], str]]) -> None:
    """Write a version 3 file: header, key-value pairs, tensor table, then a hole for the data."""
    placed: list[tuple[str, tuple[int, ...], str, int]] = []
    offset = 0
    for name, shape, kind in tensors:
        placed.append((name, shape, kind, offset))
        offset += -(-_tensor_bytes(shape, kind) // _ALIGNMENT) * _ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(placed), len(keys))
    head += b"".join(_string(key) + _value(value) for key, value in keys.items())
    for name, shape, kind, start in placed:
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, _TYPES[kind][0], start)
    head += b"\0" * (-len(head) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    """One typed value (GGUF specification, "gguf_metadata_value_type"): bool, u32 or i32, f32, string, array."""
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int() if value < 0:
            return struct.pack("<Ii", 5, value)
        case int() if value > 0xFFFFFFFF:
            return struct.pack("<IQ", 10, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _string(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
        case _:
            raise TypeError(f"no GGUF type for {value!r}")
