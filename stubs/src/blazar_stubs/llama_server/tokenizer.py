"""A tokenizer without a vocabulary: a token's number holds its text, so any process undoes what another did.

Text is cut into words with their leading blank, numbers, line ends and other signs, and those into pieces of at
most five bytes, never inside a character. English comes to about four characters a token. Marks such as
``<|im_start|>`` are single tokens with small numbers.
"""

import re

BOS = 1
EOS = 2

_SPECIAL = {
    "<unk>": 0, "<s>": BOS, "</s>": EOS, "<|im_start|>": 3, "<|im_end|>": 4, "<think>": 5, "</think>": 6,
    "<tool_call>": 7, "</tool_call>": 8,
}  # fmt: skip
_SPECIAL_TEXT = {number: text for text, number in _SPECIAL.items()}
_PIECE_BYTES = 5
_FIRST_PIECE = 256
_MARKS = re.compile("(" + "|".join(re.escape(text) for text in _SPECIAL) + ")")
_WORDS = re.compile(r" ?[^\W\d_]+| ?\d{1,3}|\n+| +|[^\w\s]|.", re.DOTALL)


def tokenize(text: str, *, special: bool = True) -> list[int]:
    """Cut a text into token numbers; without `special`, marks are ordinary text."""
    tokens: list[int] = []
    for part in _MARKS.split(text) if special else [text]:
        number = _SPECIAL.get(part) if special else None
        if number is not None:
            tokens.append(number)
        else:
            tokens += [_number(piece) for word in _WORDS.findall(part) for piece in _pieces(word)]
    return tokens


def piece_of(token: int) -> str:
    """The text of one token."""
    if token in _SPECIAL_TEXT:
        return _SPECIAL_TEXT[token]
    if token < _FIRST_PIECE:
        return f"<{token}>"
    raw = token.to_bytes((token.bit_length() + 7) // 8, "big")
    return raw[1:].decode("utf-8", "replace")


def detokenize(tokens: list[int]) -> str:
    """The text of a sequence."""
    return "".join(map(piece_of, tokens))


def pieces_of(text: str) -> list[str]:
    """The pieces a model would generate this text in; marks are not special here."""
    return [piece for word in _WORDS.findall(text) for piece in _pieces(word)]


def _number(piece: str) -> int:
    # A leading one keeps zero bytes and tells lengths apart; the smallest such number is 256.
    return int.from_bytes(b"\x01" + piece.encode("utf-8", "replace"), "big")


def _pieces(word: str) -> list[str]:
    if len(word) <= _PIECE_BYTES and word.isascii():
        return [word]
    pieces: list[str] = []
    piece = ""
    size = 0
    for character in word:
        width = len(character.encode("utf-8", "replace"))
        if size + width > _PIECE_BYTES:
            pieces.append(piece)
            piece, size = "", 0
        piece += character
        size += width
    return [*pieces, piece]
