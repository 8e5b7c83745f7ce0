"""llama-server's own endpoints, asked in the ways that do not disturb it.

``/health`` and ``/props`` never wake a sleeper; ``/slots`` and ``/metrics`` do (b10434), and reset its idle timer.
"""

from collections.abc import Mapping

from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.engines.adapter import SlotState
from blazar_supervisor.engines.counters import Counters, read_exposition
from blazar_supervisor.engines.http import ControlSession

_COUNTERS = (
    "prompt_tokens_total",
    "prompt_tokens_cached_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
)
"""In the order of :class:`Counters`."""

_QUICK_S = 5.0
"""Far more than a healthy server needs (milliseconds, also during prefill), for machines under load."""


class LlamaControl:
    """Fits :class:`blazar_supervisor.engines.adapter.EngineControl`."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        self._session = ControlSession(endpoint, headers)

    async def ready(self) -> bool:
        """503 while loading, on every path; then 200."""
        answer = await self._session.get("/health", timeout_s=_QUICK_S)
        return answer is not None and answer.status == 200

    async def sleeping(self) -> bool | None:
        """``/props`` tells, without waking it."""
        answer = await self._session.get("/props", timeout_s=_QUICK_S)
        if answer is None or answer.status != 200 or not isinstance(answer.body, dict):
            return None
        return answer.body.get("is_sleeping") is True

    async def wake(self, *, timeout_s: float) -> bool:
        """``/slots`` wakes a sleeper and is answered once the model is back."""
        answer = await self._session.get("/slots", timeout_s=timeout_s)
        return answer is not None and answer.status != 503

    async def peg(self, *, timeout_s: float) -> bool:
        """One token of a native completion, which leaves nothing in the prompt cache."""
        body = {"prompt": "Hello", "n_predict": 1, "cache_prompt": False}
        answer = await self._session.post("/completion", body, timeout_s=timeout_s)
        return answer is not None and answer.status == 200

    async def counters(self) -> Counters | None:
        """``/metrics``; older builds count neither cached tokens nor guesses."""
        text = await self._session.text("/metrics", timeout_s=_QUICK_S)
        if text is None:
            return None
        values = read_exposition(text)
        return Counters(*(values.get(f"llamacpp:{name}") for name in _COUNTERS))

    async def slots(self) -> tuple[SlotState, ...] | None:
        """``/slots``: a slot that was used names its last task."""
        answer = await self._session.get("/slots", timeout_s=_QUICK_S)
        if answer is None or not isinstance(answer.body, list):
            return None
        return tuple(_slot_state(slot) for slot in answer.body if isinstance(slot, dict))

    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None:
        """Deferred while the slot is busy, and done then even if nobody waits for it any more."""
        answer = await self._session.post(f"/slots/{slot}?action=save", {"filename": file}, timeout_s=timeout_s)
        if answer is None or answer.status != 200 or not isinstance(answer.body, dict):
            return None
        tokens = answer.body.get("n_saved")
        return tokens if isinstance(tokens, int) else None

    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None:
        """400 for whatever it cannot use; it aborts on a file that is cut short near its end."""
        answer = await self._session.post(f"/slots/{slot}?action=restore", {"filename": file}, timeout_s=timeout_s)
        return None if answer is None else answer.status == 200

    async def work(self) -> tuple[object, ...] | None:
        """The counters of every slot: what was read of the prompt, and what was generated."""
        answer = await self._session.get("/slots", timeout_s=_QUICK_S)
        if answer is None or not isinstance(answer.body, list):
            return None
        return tuple(_slot_counters(slot) for slot in answer.body if isinstance(slot, dict))

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()


def _slot_state(slot: Mapping[str, object]) -> SlotState:
    number, task = slot.get("id"), slot.get("id_task")
    used = isinstance(task, int) and task >= 0
    return SlotState(
        number=number if isinstance(number, int) else 0,
        busy=slot.get("is_processing") is not False,
        used=used,
        task=task if isinstance(task, int) else -1,
    )


def _slot_counters(slot: Mapping[str, object]) -> tuple[object, ...]:
    counters = [slot.get(name) for name in ("id", "id_task", "is_processing", "n_prompt_tokens_processed", "n_decoded")]
    following = slot.get("next_token")
    for token in following if isinstance(following, list) else [following]:
        if isinstance(token, dict):
            counters += [token.get("n_decoded"), token.get("n_remain")]
    return tuple(counters)
