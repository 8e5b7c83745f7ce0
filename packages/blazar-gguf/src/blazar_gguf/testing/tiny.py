"""Tiny models that a stock llama-server loads and that answer predictably, for tests of whatever sits on top.

The models have real attention and feed-forward blocks, so caches are allocated and filled as usual, but their
answer is built in: whatever the prompt, they recite a fixed list of words and stop. How: token embeddings are
random ±1 codes, nearly orthogonal; the blocks add only a little noise; and the output matrix holds, in the row of each
word, the code of the word before it. The first word follows everything that is not a word: all those codes begin
with a common mark, which its row looks for. The margin of the right word is so large that temperature does not matter.

Nothing but the standard library is used. A file of two layers takes 600 KB and about 50 ms.
"""

import os
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from blazar_gguf.encoding import Typed
from blazar_gguf.types import PoolingType, ValueType
from blazar_gguf.writer import GgufWriter

DEFAULT_ANSWER: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
"""What a tiny model says."""

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, the template written when none is given."""

ARCHITECTURES: Final = ("llama", "gemma3")
"""What :func:`write_tiny_model` can build: a plain decoder, and one with sliding-window layers."""

_UNKNOWN, _START, _END = 0, 1, 2
_FIRST_BYTE: Final = 3
_TYPE_NORMAL, _TYPE_UNKNOWN, _TYPE_CONTROL, _TYPE_BYTE = 1, 2, 3, 6
_SPACE: Final = "\u2581"
_MARK_SHARE: Final = 4
"""One in four dimensions belongs to the mark."""
_MARGIN: Final = 0.5
"""Weight of a code in the output matrix: the right word's logit is 0.5 x embedding length, others a fifth of it."""


@dataclass(frozen=True, slots=True)
class TinyShape:
    """Sizes of a tiny model; all in elements.

    Head size is ``embedding / heads`` and a multiple of 32 by default, so quantised caches work.
    """

    layers: int = 2
    embedding: int = 128
    heads: int = 4
    heads_kv: int = 2
    feed_forward: int = 128
    context_length: int = 4096
    sliding_window: int = 512


@dataclass(frozen=True, slots=True)
class TinyVocabulary:
    """A SentencePiece-like vocabulary.

    It has unknown, start and end tokens, ChatML marks, all bytes, printable ASCII, and the answer's words.

    Attributes:
        tokens, scores, types: parallel lists as they go into the file.
        words: ids of the answer's words, in order; the first without the space before it.
        again: id of the first word with a space before it, for when the answer begins anew.
        end_of_turn: id of ``<|im_end|>``, the token that ends an answer.
    """

    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[int, ...]
    words: tuple[int, ...]
    again: int
    end_of_turn: int


def tiny_vocabulary(answer: Sequence[str] = DEFAULT_ANSWER) -> TinyVocabulary:
    """Build the vocabulary for an answer.

    Each word also gets its prefixes, so that the tokenizer, which merges pairs, arrives at the whole word, and an
    answer fed back in a prompt becomes the tokens it was.
    """
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "<|im_start|>", "<|im_end|>"]
    types = [_TYPE_UNKNOWN, _TYPE_CONTROL, _TYPE_CONTROL, *[_TYPE_BYTE] * 256, _TYPE_CONTROL, _TYPE_CONTROL]
    pieces = [_SPACE, *(chr(c) for c in range(0x21, 0x7F))]
    for word in (answer[0], *(_SPACE + word for word in answer)):
        pieces += [word[:n] for n in range(1, len(word) + 1)]
    known = list(dict.fromkeys(pieces))
    scores = [0.0] * len(tokens) + [-float(n) for n in range(1, len(known) + 1)]
    tokens += known
    types += [_TYPE_NORMAL] * len(known)
    place = {token: n for n, token in enumerate(tokens)}
    words = (place[answer[0]], *(place[_SPACE + word] for word in answer[1:]))
    again = place[_SPACE + answer[0]]
    return TinyVocabulary(tuple(tokens), tuple(scores), tuple(types), words, again, place["<|im_end|>"])


def tiny_model(
    architecture: str = "llama",
    *,
    answer: Sequence[str] = DEFAULT_ANSWER,
    endless: bool = False,
    chat_template: str | None = CHAT_TEMPLATE,
    shape: TinyShape = TinyShape(),
    pooling_type: PoolingType | None = None,
    name: str = "",
    seed: int = 0,
) -> GgufWriter:
    """Build a tiny model and return its writer, so that a test may bend it before writing.

    See :func:`write_tiny_model`.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"no tiny {architecture!r} model; there are {', '.join(ARCHITECTURES)}")
    if not answer or len(set(answer)) != len(answer) or not all(answer):
        raise ValueError("the answer must be a list of different, non-empty words")
    vocabulary = tiny_vocabulary(answer)
    writer = GgufWriter(architecture)
    writer.add("general.type", "model").add("general.name", name or f"tiny {architecture}").add("general.file_type", 1)
    _add_shape(writer, architecture, shape)
    if pooling_type is not None:
        writer.add(f"{architecture}.pooling_type", int(pooling_type))
    _add_tokenizer(writer, vocabulary, chat_template)
    _add_weights(writer, architecture, shape, vocabulary, random.Random(seed), endless=endless)
    return writer


def write_tiny_model(
    path: str | os.PathLike[str],
    architecture: str = "llama",
    *,
    context_length: int = 4096,
    layers: int = 2,
    sliding_window: int = 512,
    answer: Sequence[str] = DEFAULT_ANSWER,
    endless: bool = False,
    chat_template: str | None = CHAT_TEMPLATE,
    pooling_type: PoolingType | None = None,
    name: str = "",
    seed: int = 0,
) -> Path:
    """Write a tiny model that llama-server loads, and that recites its answer to any prompt.

    Args:
        path: file to write.
        architecture: ``llama``, or ``gemma3`` for a model with sliding-window layers (5 of 6).
        context_length: trained context, in tokens.
        layers: number of blocks.
        sliding_window: window in tokens; gemma3 only.
        answer: different words; the model says them in this order, then ends its turn.
        endless: begin again after the last word instead, until the caller's limit.
        chat_template: Jinja text; None for a file without one.
        pooling_type: written when given, which makes the model an embedder.
        name: ``general.name``.
        seed: changes every weight, and nothing about the answer.

    Returns:
        The path.

    Raises:
        ValueError: unknown architecture, or an answer with repeated words.
    """
    shape = TinyShape(layers=layers, context_length=context_length, sliding_window=sliding_window)
    model = tiny_model(
        architecture,
        answer=answer,
        endless=endless,
        chat_template=chat_template,
        shape=shape,
        pooling_type=pooling_type,
        name=name,
        seed=seed,
    )
    return model.write(path)


def _add_shape(writer: GgufWriter, architecture: str, shape: TinyShape) -> None:
    head = shape.embedding // shape.heads
    keys: dict[str, int | float] = {
        "context_length": shape.context_length,
        "embedding_length": shape.embedding,
        "block_count": shape.layers,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.heads_kv,
        "rope.dimension_count": head,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    if architecture == "gemma3":
        keys |= {
            "attention.key_length": head,
            "attention.value_length": head,
            "attention.sliding_window": shape.sliding_window,
        }
    for suffix, value in keys.items():
        writer.add(f"{architecture}.{suffix}", value)


def _add_tokenizer(writer: GgufWriter, vocabulary: TinyVocabulary, chat_template: str | None) -> None:
    writer.add("tokenizer.ggml.model", "llama")
    writer.add("tokenizer.ggml.tokens", vocabulary.tokens)
    writer.add("tokenizer.ggml.scores", vocabulary.scores)
    writer.add("tokenizer.ggml.token_type", Typed(vocabulary.types, ValueType.ARRAY, ValueType.I32))
    writer.add("tokenizer.ggml.bos_token_id", _START)
    writer.add("tokenizer.ggml.eos_token_id", vocabulary.end_of_turn)
    writer.add("tokenizer.ggml.unknown_token_id", _UNKNOWN)
    writer.add("tokenizer.ggml.add_bos_token", True)
    writer.add("tokenizer.ggml.add_space_prefix", False)
    if chat_template is not None:
        writer.add("tokenizer.chat_template", chat_template)


class _Weights:
    """Produces tensors' bytes from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        # 256 half-precision numbers around zero, picked by random bytes: quick, and small enough to be noise
        self._small = [struct.pack("<e", (n - 127.5) / 127.5 * 0.01) for n in range(256)]

    def noise(self, count: int) -> bytes:
        """``count`` small half-precision numbers."""
        return b"".join(map(self._small.__getitem__, self._rng.randbytes(count)))

    def codes(self, vocabulary: TinyVocabulary, width: int) -> list[list[float]]:
        """A vector of ±1 for each token; the first quarter is the mark: -1 for the answer's words, else +1."""
        mark = width // _MARK_SHARE
        found = []
        for token in range(len(vocabulary.tokens)):
            bits = self._rng.getrandbits(width)
            code = [1.0 if bits >> n & 1 else -1.0 for n in range(width)]
            spoken = token in vocabulary.words or token == vocabulary.again
            code[:mark] = [-1.0 if spoken else 1.0] * mark
            found.append(code)
        found[vocabulary.again] = found[vocabulary.words[0]]
        return found


def _halves(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}e", *values)


def _constant(value: float, count: int) -> bytes:
    return struct.pack("<f", value) * count


def _add_weights(
    writer: GgufWriter,
    architecture: str,
    shape: TinyShape,
    vocabulary: TinyVocabulary,
    rng: random.Random,
    *,
    endless: bool,
) -> None:
    weights = _Weights(rng)
    width, size = shape.embedding, len(vocabulary.tokens)
    codes = weights.codes(vocabulary, width)
    writer.add_tensor("token_embd.weight", (width, size), "F16", b"".join(map(_halves, codes)))
    writer.add_tensor("output_norm.weight", (width,), "F32", _constant(1.0, width))
    output = _output_rows(codes, vocabulary, endless=endless)
    writer.add_tensor("output.weight", (width, size), "F16", b"".join(output))
    for layer in range(shape.layers):
        _add_block(writer, f"blk.{layer}.", architecture, shape, weights)


def _output_rows(codes: Sequence[Sequence[float]], vocabulary: TinyVocabulary, *, endless: bool) -> list[bytes]:
    """Rows of the output matrix: what each token of the answer follows; zeros for tokens that are never said."""
    width = len(codes[0])
    mark = width // _MARK_SHARE
    rows = [bytes(2 * width)] * len(codes)
    words = vocabulary.words
    rows[words[0]] = _halves([_MARGIN * _MARK_SHARE] * mark + [0.0] * (width - mark))
    for word, after in pairwise(words):
        rows[after] = _halves([_MARGIN * c for c in codes[word]])
    rows[vocabulary.again if endless else vocabulary.end_of_turn] = _halves([_MARGIN * c for c in codes[words[-1]]])
    return rows


def _add_block(writer: GgufWriter, prefix: str, architecture: str, shape: TinyShape, weights: _Weights) -> None:
    width, ff = shape.embedding, shape.feed_forward
    head = width // shape.heads
    q, kv = shape.heads * head, shape.heads_kv * head

    def norm(name: str, size: int, weight: float = 1.0) -> None:
        writer.add_tensor(f"{prefix}{name}.weight", (size,), "F32", _constant(weight, size))

    def matrix(name: str, columns: int, rows: int) -> None:
        writer.add_tensor(f"{prefix}{name}.weight", (columns, rows), "F16", weights.noise(columns * rows))

    norm("attn_norm", width)
    matrix("attn_q", width, q)
    matrix("attn_k", width, kv)
    matrix("attn_v", width, kv)
    matrix("attn_output", q, width)
    norm("ffn_norm", width)
    matrix("ffn_gate", width, ff)
    matrix("ffn_up", width, ff)
    matrix("ffn_down", ff, width)
    if architecture == "gemma3":
        norm("attn_q_norm", head)
        norm("attn_k_norm", head)
        # these scale what a block adds; 1 would let the noise grow as large as the embeddings
        norm("post_attention_norm", width, 0.05)
        norm("post_ffw_norm", width, 0.05)
