"""What ``/v1/completions`` has beyond a text and its continuation, none of which engines do themselves.

``echo`` puts the prompt before the text. ``best_of`` generates more choices than are shown and keeps the likeliest.
``logprobs`` is a count, and its answer three lists beside each other instead of chat's list of entries. Tokens of an
echoed prompt have no probabilities, because engines do not tell them: ``null`` says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.sse import END, data_of, split_frames
from blazar_routing.errors import InvalidRequest

DEFAULT_MAX_TOKENS = 16
"""OpenAI's for this endpoint, and for no other."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a text completion asks for besides the text.

    Attributes:
        shown: ``n``, the choices of each prompt that the client gets.
        made: ``best_of``, those that are generated.
        logprobs: How many alternatives the client wants for each token, or ``None`` for no probabilities at all.
        echo: Whether the prompt comes before the text.
        limited: Whether the client itself says how many tokens there may be.
        silent: Whether nothing shall be generated (``max_tokens`` 0), which engines do not take.
        prompts: Texts or tokens, one for each prompt.
        suffix: What follows the gap to be filled, or ``""``.
    """

    shown: int
    made: int
    logprobs: int | None
    echo: bool
    limited: bool
    silent: bool
    prompts: Sequence[str | list[int]]
    suffix: str

    @property
    def reshapes(self) -> bool:
        """Whether the engine's answer has to be changed."""
        return self.echo or self.silent or self.logprobs is not None or self.made > self.shown


def take_wishes(fields: JsonObject, prompts: Sequence[str | list[int]]) -> Wishes:
    """Take the wishes out of a request's fields, which become what engines understand.

    Raises:
        InvalidRequest: They do not go together; the error names the field.
    """
    shown = _integer(fields.get("n"), 1)
    made = _integer(fields.pop("best_of", None), shown)
    logprobs = _count(fields.pop("logprobs", None))
    echo = fields.pop("echo", None) is True
    if made < shown:
        raise InvalidRequest(
            f"best_of is {made}, less than n ({shown}): it is what n are chosen from.", param="best_of"
        )
    if made > shown and fields.get("stream") is True:
        raise InvalidRequest(
            f"best_of {made} cannot be streamed: the best is known at the end only. Leave out stream or best_of.",
            param="best_of",
        )
    if made > 1:
        fields["n"] = made
    limited = fields.get("max_tokens") is not None
    if not limited:
        fields["max_tokens"] = DEFAULT_MAX_TOKENS
    silent = fields["max_tokens"] == 0
    if silent:
        fields["max_tokens"] = 1
    if logprobs is not None or made > shown:
        # Of 0 engines make "no probabilities", and the token's own is always wanted.
        fields["logprobs"] = max(1, logprobs or 0)
    suffix = fields.pop("suffix", None)
    if isinstance(suffix, str) and suffix and (len(prompts) > 1 or made > 1 or not isinstance(prompts[0], str)):
        raise InvalidRequest("suffix goes with one prompt, given as text, and one choice.", param="suffix")
    return Wishes(
        shown=shown,
        made=made,
        logprobs=logprobs,
        echo=echo,
        limited=limited,
        silent=silent,
        prompts=prompts,
        suffix=suffix if isinstance(suffix, str) else "",
    )


def _integer(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _count(value: object) -> int | None:
    """Return ``logprobs`` as a count; SDKs that mean chat's field write true."""
    if value is None or value is False:
        return None
    if value is True:
        return 1
    if isinstance(value, int) and value >= 0:
        return value
    raise InvalidRequest(f"logprobs is {value}; it takes a whole number from 0.", param="logprobs")


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt as it comes before the text.

    Attributes:
        text: The prompt.
        tokens: Its pieces, where probabilities were asked for.
    """

    text: str
    tokens: Sequence[str] = ()


class Reshaping:
    """One answer's changes.

    Args:
        wishes: What was asked for.
        echoes: The prompts, one each, if they are to be repeated.
    """

    def __init__(self, wishes: Wishes, echoes: Sequence[Echo] = ()) -> None:
        self._wishes = wishes
        self._echoes = echoes
        self._offsets: dict[int, int] = {}

    def stream(self, frames: bytes) -> bytes:
        """Return whole frames as the client gets them."""
        return b"".join(self._frame(frame) for frame in split_frames(frames))

    def answer(self, answer: Mapping[str, object]) -> JsonObject:
        """Return an answer in one piece as the client gets it."""
        choices = answer.get("choices")
        kept = choices if isinstance(choices, list) else []
        if self._wishes.made > self._wishes.shown:
            kept = self._best(kept)
        return {**answer, "choices": [self._choice(choice) for choice in kept]}

    def _frame(self, frame: bytes) -> bytes:
        try:
            chunk = orjson.loads(data_of(frame))
        except orjson.JSONDecodeError:
            return frame
        if not isinstance(chunk, dict) or not chunk.get("choices"):
            return frame
        shown = [self._choice(choice) for choice in chunk["choices"]]
        return b"data: " + orjson.dumps({**chunk, "choices": shown}) + END

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        index, wishes = int(choice.get("index") or 0), self._wishes
        begins = index not in self._offsets
        echo = self._echoes[index // wishes.shown] if begins and self._echoes else Echo("")
        text = "" if wishes.silent else str(choice.get("text") or "")
        entries = [] if wishes.silent else _entries(choice.get("logprobs"))
        finish = choice.get("finish_reason")
        shown = {**choice, "text": echo.text + text, "finish_reason": "length" if finish and wishes.silent else finish}
        at = self._offsets.get(index, 0)
        if wishes.logprobs is not None:
            shown["logprobs"], at = _lists(echo.tokens, entries, at)
        else:
            shown["logprobs"] = None
        self._offsets[index] = at
        return shown

    def _best(self, choices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the likeliest choices of each prompt by the mean of their tokens' log probabilities."""
        made, shown = self._wishes.made, self._wishes.shown
        kept: list[dict[str, Any]] = []
        for prompt in range(len(self._wishes.prompts)):
            mine = [choice for choice in choices if int(choice.get("index") or 0) // made == prompt]
            mine.sort(key=_likelihood, reverse=True)
            kept += [{**choice, "index": prompt * shown + place} for place, choice in enumerate(mine[:shown])]
        return kept


def _likelihood(choice: Mapping[str, Any]) -> float:
    values = [float(entry["logprob"]) for entry in _entries(choice.get("logprobs"))]
    return sum(values) / len(values) if values else 0.0


def _entries(logprobs: object) -> list[dict[str, Any]]:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return [entry for entry in content if isinstance(entry, dict)] if isinstance(content, list) else []


def _lists(prompt: Sequence[str], entries: Sequence[Mapping[str, Any]], at: int) -> tuple[dict[str, list[Any]], int]:
    """Return chat's entries as lists beside each other, and the offset at which the next token begins."""
    tokens: list[str] = [*prompt, *(str(entry.get("token") or "") for entry in entries)]
    offsets = []
    for token in tokens:
        offsets.append(at)
        at += len(token)
    return {
        "tokens": tokens,
        "token_logprobs": [*(None for _ in prompt), *(entry.get("logprob") for entry in entries)],
        "top_logprobs": [*(None for _ in prompt), *(_alternatives(entry) for entry in entries)],
        "text_offset": offsets,
    }, at


def _alternatives(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the alternatives by token; the one that was taken is always among them."""
    found = {str(other.get("token")): other.get("logprob") for other in entry.get("top_logprobs") or ()}
    return {str(entry.get("token") or ""): entry.get("logprob"), **found}


def check_prompts(prompt: object) -> list[str | list[int]]:
    """Return the prompts of a request: texts, or lists of tokens.

    Raises:
        InvalidRequest: There is none, or one is neither; the error names it.
    """
    if isinstance(prompt, str):
        return [prompt]
    if prompt is None:
        raise InvalidRequest("prompt is missing: a completion needs a text to continue.", param="prompt")
    if not isinstance(prompt, list) or not prompt:
        raise InvalidRequest("prompt must be a string or a non-empty array.", param="prompt")
    if all(type(item) is int for item in prompt):
        return [prompt]
    for index, item in enumerate(prompt):
        tokens = type(item) is list and bool(item) and all(type(token) is int for token in item)
        if not (tokens or type(item) is str):
            raise InvalidRequest(f"prompt[{index}] must be a string or an array of tokens.", param=f"prompt[{index}]")
    return prompt


class CompletionWriter:
    """Writes text completions that an engine gave in a form of its own, as the chunks that others come in.

    Args:
        answer_id: ``cmpl-...``.
        created: Unix seconds.
        model: As the client wrote it.
    """

    def __init__(self, *, answer_id: str, created: int, model: str) -> None:
        self._head = {"id": answer_id, "object": "text_completion", "created": created, "model": model}

    def object(
        self, text: str, entries: Sequence[Mapping[str, Any]] = (), *, finish: str | None = None, usage: Any = None
    ) -> JsonObject:
        """Return a chunk, or with everything in it the whole answer."""
        logprobs = {"content": list(entries)} if entries else None
        choice = {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish}
        return {**self._head, "choices": [choice], **({"usage": usage} if usage is not None else {})}

    def frame(self, text: str, entries: Sequence[Mapping[str, Any]] = (), *, finish: str | None = None) -> bytes:
        """Return a chunk as a frame."""
        return b"data: " + orjson.dumps(self.object(text, entries, finish=finish)) + END

    def usage_frame(self, usage: JsonObject) -> bytes:
        """Return the frame that tells the usage alone."""
        return b"data: " + orjson.dumps({**self._head, "choices": [], "usage": usage}) + END
