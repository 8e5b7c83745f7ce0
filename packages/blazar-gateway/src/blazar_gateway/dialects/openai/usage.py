"""Adding up what engines say of tokens."""

from dataclasses import dataclass

from blazar_gateway.dialects.json_objects import JsonObject


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, all choices together.

    Attributes:
        prompt_tokens: Each prompt counted once, however many choices it has.
        completion_tokens: Generated, over all choices.
        cached_tokens: The part of ``prompt_tokens`` that needed no prefill.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


class UsageTally:
    """The usage frames of one request.

    llama-server sends one frame per choice, with that choice's tokens (b10434: a non-stream answer has the first
    choice's only); other engines send one frame with the sum, or one in each chunk that grows.

    Args:
        choices: ``n`` of the request.
        prompts: Prompts in the request.

    Attributes:
        pieces: About how many frames have come that carry text, which is about one a token. An answer that breaks
            off, or whose client leaves, has no usage frame; then this is what counts.
    """

    __slots__ = ("_answers", "_choices", "_frames", "pieces")

    def __init__(self, *, choices: int, prompts: int) -> None:
        self._choices = choices
        self._answers = choices * prompts
        self._frames: list[JsonObject] = []
        self.pieces = 0

    @property
    def is_empty(self) -> bool:
        """Whether no frame has come."""
        return not self._frames

    def add(self, usage: JsonObject) -> None:
        """Take one frame's ``usage`` object."""
        self._frames.append(usage)

    def object(self) -> JsonObject:
        """Return the ``usage`` object of the whole request; the engine's own where it sent one only."""
        if len(self._frames) != self._answers or self._answers == 1:
            return self._frames[-1]
        prompt = sum(_tokens(frame, "prompt_tokens") for frame in self._frames) // self._choices
        completion = sum(_tokens(frame, "completion_tokens") for frame in self._frames)
        merged: JsonObject = {
            **self._frames[-1],
            "completion_tokens": completion,
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
        }
        if "prompt_tokens_details" in merged:
            cached = sum(_cached(frame) for frame in self._frames) // self._choices
            merged["prompt_tokens_details"] = {"cached_tokens": cached}
        return merged

    def total(self) -> Usage:
        """Return the counts of the whole request; without the engine's, as many tokens as were seen to come."""
        if not self._frames:
            return Usage(completion_tokens=self.pieces)
        usage = self.object()
        return Usage(_tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens"), _cached(usage))


def _tokens(usage: JsonObject, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0


def _cached(usage: JsonObject) -> int:
    details = usage.get("prompt_tokens_details")
    return _tokens(details, "cached_tokens") if isinstance(details, dict) else 0
