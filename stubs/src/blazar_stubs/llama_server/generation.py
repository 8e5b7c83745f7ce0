"""One generation on one slot: prefill, tokens, the end. It only produces results; `streams` and `routes` write them."""

import time
from collections.abc import Iterator

from blazar_stubs.llama_server.console import TRACE
from blazar_stubs.llama_server.engine import Engine, Overflows, Slot
from blazar_stubs.llama_server.knobs import Json, Knobs, Script
from blazar_stubs.llama_server.results import Begin, Choice, Failure, Final, Partial, Piece, Progress, Results, Scripted
from blazar_stubs.llama_server.tokenizer import EOS

_TOKENS_A_ROUND = 16
"""How many tokens are made before others get a turn, when tokens take no time."""

_CONTEXT_EXCEEDED: Json = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}


class Generation(Overflows):
    """Makes the results of one choice."""

    def __init__(
        self, engine: Engine, slot: Slot, choice: Choice, results: Results, *, script: Script, knobs: Knobs
    ) -> None:
        self._engine = engine
        self._slot = slot
        self._choice = choice
        self._results = results
        self._script = script
        self._token_delay_s = script.get("token_delay_s", knobs.get("token_delay_s", 0.0))
        self._prefill_s_per_token = knobs.get("prefill_s_per_token", 0.0)
        self._held = ""
        self._is_first = True

    async def run(self, pieces: Iterator[Piece]) -> None:
        """Produce everything, then give the slot back."""
        slot, choice, engine = self._slot, self._choice, self._engine
        slot.params, slot.task = choice.params, choice.task
        slot.chat_format, slot.generation_prompt = choice.chat_format, choice.generation_prompt
        slot.processed = slot.cached = slot.decoded = 0
        slot.generating = True
        slot.remaining = choice.params.predict
        choice.slot = slot.number
        engine.active.append(self)
        engine.console.slot("launch_slot_", slot.number, choice.task, "processing task, is_child = 0")
        failure = await self._produce(pieces)
        engine.active.remove(self)
        if failure is not None:
            self._results.put(failure)
        elif not self._results.cancelled:
            self._results.put(Final(choice))
        else:
            engine.console.server("stop", f"cancel task, id_task = {choice.task}", letter="W")
        self._report()
        engine.release(slot)

    async def _produce(self, pieces: Iterator[Piece]) -> Failure | None:
        choice, slot = self._choice, self._slot
        total = len(choice.prompt)
        if total >= slot.context:
            message = (
                f"request ({total} tokens) exceeds the available context size ({slot.context} tokens), "
                "try increasing it"
            )
            error = {"code": 400, "message": message, "type": "exceed_context_size_error"}
            return Failure({**error, "n_prompt_tokens": total, "n_ctx": slot.context}, 400)
        if total == 0:
            choice.stop_type = "limit"
            return None
        if not self._engine.has_room(total - len(slot.tokens)):
            self._engine.overflow()
        failure = await self._prefill()
        if failure is not None or self._results.cancelled:
            return failure
        return await self._scripted() if "chunks" in self._script else await self._tokens(pieces)

    async def _prefill(self) -> Failure | None:
        choice, slot, engine = self._choice, self._slot, self._engine
        total = len(choice.prompt)
        choice.cached = engine.cached_prefix(slot, choice.prompt) if choice.params.cache_prompt else 0
        slot.cached = choice.cached
        slot.tokens = choice.prompt[: choice.cached]
        started_s = time.monotonic()
        if choice.params.progress:
            self._progress(choice.cached, started_s)
        elif not choice.is_child:
            # Further choices of one prompt take over the first one's state, and its beginning.
            self._results.put(Begin(choice))
        await engine.reactor.pause()
        duration_s = self._script.get("prefill_delay_s", self._prefill_s_per_token * (total - choice.cached))
        while time.monotonic() - started_s < duration_s:
            # The whole prompt is evaluated even when the client has left (observed).
            await engine.reactor.sleep(min(0.05, duration_s))
            if self._script.get("progress", True):
                share = min(1.0, (time.monotonic() - started_s) / duration_s)
                slot.processed = max(slot.processed, int(share * (total - choice.cached)))
        slot.tokens = list(choice.prompt)
        slot.processed = total - choice.cached
        if choice.params.progress:
            self._progress(total, started_s)
        choice.prompt_ms = max(0.001, (time.monotonic() - started_s) * 1000)
        engine.counters.prompt(slot.processed, choice.prompt_ms / 1000)
        engine.counters.cached_tokens += choice.cached
        engine.counters.decodes += 1
        engine.counters.busy_decodes += engine.busy
        return Failure(_CONTEXT_EXCEEDED, 500) if self.overflowed else None

    def _progress(self, processed: int, started_s: float) -> None:
        facts = {
            "total": len(self._choice.prompt),
            "cache": self._choice.cached,
            "processed": processed,
            "time_ms": int((time.monotonic() - started_s) * 1000),
        }
        timings = self._choice.timings() if self._choice.params.timings_per_token else None
        self._results.put(Progress(self._choice, facts, timings))

    async def _tokens(self, pieces: Iterator[Piece]) -> Failure | None:
        choice, slot, params = self._choice, self._slot, self._choice.params
        started_s = time.monotonic()
        limit = max(1, params.predict) if params.predict >= 0 else None
        for piece in pieces:
            if choice.decoded:
                await self._between_tokens()
            if self._results.cancelled:
                break
            if choice.decoded and not self._engine.has_room(1):
                self._engine.overflow()
            if self.overflowed:
                return Failure(_CONTEXT_EXCEEDED, 500)
            if choice.decoded:
                slot.tokens.append(choice.tokens[-1])
            self._count(piece, started_s)
            word = self._emit(piece)
            if word is not None:
                choice.stop_type, choice.stopping_word = "word", word
                break
            if limit is not None and choice.decoded >= limit:
                choice.stop_type = "limit"
                break
            if len(choice.prompt) + choice.decoded >= slot.context:
                choice.stop_type, choice.truncated = "limit", True
                break
        else:
            choice.stop_type = "eos"
            self._count(Piece("content", "", (EOS,)), started_s)
        if self._held:
            self._put(Piece("content", self._held))
        self._settle(started_s)
        return None

    async def _between_tokens(self) -> None:
        """Take a token's time; when that is none, still let others have their turn."""
        if self._token_delay_s > 0:
            await self._engine.reactor.sleep(self._token_delay_s)
        elif self._results.is_shared or self._choice.decoded % _TOKENS_A_ROUND == 0:
            await self._engine.reactor.pause()

    def _count(self, piece: Piece, started_s: float) -> None:
        choice, slot, counters = self._choice, self._slot, self._engine.counters
        choice.decoded += 1
        choice.tokens.append(piece.tokens[0] if piece.tokens else 0)
        choice.predicted_ms = (time.monotonic() - started_s) * 1000
        slot.decoded = choice.decoded
        slot.remaining = choice.params.predict - choice.decoded if choice.params.predict >= 0 else -1
        if choice.decoded > 1:
            counters.decodes += 1
            counters.busy_decodes += self._engine.busy

    def _emit(self, piece: Piece) -> str | None:
        """Pass a piece on, holding back what may become a stop word; say which stop word is complete."""
        stop = self._choice.params.stop
        if piece.kind != "content" or not stop:
            self._put(piece)
            return None
        text = self._held + piece.text
        found = min(((text.index(word), word) for word in stop if word in text), default=None)
        if found is not None:
            self._held = ""
            if found[0]:
                self._put(piece._replace(text=text[: found[0]]))
            return found[1]
        keep = max((size for word in stop for size in range(1, len(word)) if text.endswith(word[:size])), default=0)
        self._held = text[len(text) - keep :] if keep else ""
        text = text[: len(text) - keep]
        if text:
            self._put(piece._replace(text=text))
        return None

    def _put(self, piece: Piece) -> None:
        choice = self._choice
        choice.add(piece)
        probability = _probability(piece, choice.params.probabilities) if choice.params.probabilities else None
        if probability is not None:
            choice.probabilities.append(probability)
        timings = choice.timings() if choice.params.timings_per_token else None
        self._results.put(Partial(choice, piece, self._is_first, choice.decoded, probability, timings))
        self._is_first = False

    async def _scripted(self) -> Failure | None:
        """Pass on a scripted list of chunks; the token count is that of the deltas with something in them."""
        choice = self._choice
        started_s = time.monotonic()
        for chunk in self._script["chunks"]:
            if "delay_s" in chunk:
                await self._engine.reactor.sleep(chunk["delay_s"])
                continue
            if choice.decoded:
                await self._between_tokens()
            if self._results.cancelled:
                break
            if "finish_reason" in chunk and not chunk.keys() & {"json", "raw"}:
                choice.finish, choice.finish_is_scripted = chunk["finish_reason"], True
                continue
            if chunk.keys() & {"content", "reasoning_content", "reasoning", "tool_calls"}:
                choice.content += chunk.get("content") or ""
                choice.reasoning += chunk.get("reasoning_content") or chunk.get("reasoning") or ""
                choice.calls += chunk.get("tool_calls") or []
                self._count(Piece("content", ""), started_s)
            self._results.put(Scripted(choice, chunk, self._is_first))
            self._is_first = False
        choice.stop_type = "eos"
        self._settle(started_s)
        return None

    def _settle(self, started_s: float) -> None:
        """Count what was made, and take over what the script says about the end."""
        choice, counters = self._choice, self._engine.counters
        choice.predicted_ms = (time.monotonic() - started_s) * 1000
        counters.predicted(choice.decoded, choice.predicted_ms / 1000)
        counters.longest = max(counters.longest, len(choice.prompt) + choice.decoded)
        if "finish_reason" in self._script:
            choice.finish, choice.finish_is_scripted = self._script["finish_reason"], True
        choice.usage = self._script.get("usage")

    def _report(self) -> None:
        choice, slot, console = self._choice, self._slot, self._engine.console
        evaluated = len(choice.prompt) - choice.cached
        rows = [
            ("prompt eval time", choice.prompt_ms, evaluated),
            ("       eval time", choice.predicted_ms, choice.decoded),
        ]
        for name, spent_ms, count in rows:
            per_token = spent_ms / count if count else 0.0
            per_second = 1000 * count / spent_ms if spent_ms else 0.0
            console.slot(
                "print_timing", slot.number, choice.task,
                f"{name} = {spent_ms:10.2f} ms / {count:5d} tokens "
                f"({per_token:8.2f} ms per token, {per_second:8.2f} tokens per second)",
            )  # fmt: skip
        total_ms = choice.prompt_ms + choice.predicted_ms
        console.slot(
            "print_timing", slot.number, choice.task,
            f"      total time = {total_ms:10.2f} ms / {evaluated + choice.decoded:5d} tokens",
        )  # fmt: skip
        console.slot("print_timing", slot.number, choice.task, "   graphs reused =          0", verbosity=TRACE)
        console.slot(
            "release", slot.number, choice.task,
            f"stop processing: n_tokens = {len(slot.tokens)}, truncated = {int(choice.truncated)}",
        )  # fmt: skip


def _probability(piece: Piece, count: int) -> Json:
    """Made-up probabilities in the right shape: the token itself at nine tenths, the others after it."""
    token = piece.tokens[0] if piece.tokens else 0
    raw = list(piece.text.encode())
    top = [{"id": token, "token": piece.text, "bytes": raw, "logprob": -0.10536051541566849}]
    top.extend(
        {"id": rank, "token": f"<{rank}>", "bytes": list(f"<{rank}>".encode()), "logprob": -3.0 - rank}
        for rank in range(1, min(count, 5))
    )
    return {**top[0], "top_logprobs": top}
