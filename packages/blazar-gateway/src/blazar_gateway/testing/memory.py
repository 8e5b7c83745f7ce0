"""A memory of responses that forgets when the process ends, and what every memory keeps to."""

from collections.abc import Callable, Mapping, Sequence

import orjson

from blazar_gateway.ports import ResponseMemory
from blazar_store.types import KeptResponse


class MemoryInProcess:
    """Keeps responses in a dictionary.

    Args:
        cap_bytes: The most that all of them may take, as JSON.
        retention_s: Seconds for which one is kept.
        now: Gives unix seconds.
    """

    def __init__(
        self, *, cap_bytes: int = 1 << 20, retention_s: float = 3600.0, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._cap_bytes = cap_bytes
        self._retention_s = retention_s
        self._now = now
        self._kept: dict[tuple[str, str], tuple[float, int, KeptResponse]] = {}

    async def put(self, key: str, kept: KeptResponse) -> None:
        size = len(orjson.dumps([kept.response, list(kept.items)]))
        self._kept.pop((key, kept.id), None)
        if size <= self._cap_bytes:
            self._kept[key, kept.id] = self._now(), size, kept
        while sum(size for _, size, _ in self._kept.values()) > self._cap_bytes:
            del self._kept[next(iter(self._kept))]

    async def get(self, key: str, response_id: str) -> KeptResponse | None:
        self._expire()
        found = self._kept.get((key, response_id))
        return found[2] if found is not None else None

    async def delete(self, key: str, response_id: str) -> bool:
        self._expire()
        return self._kept.pop((key, response_id), None) is not None

    async def list(self, key: str) -> Sequence[str]:
        self._expire()
        return [response_id for owner, response_id in reversed(self._kept) if owner == key]

    async def find_item(self, key: str, item_id: str) -> Mapping[str, object] | None:
        self._expire()
        for (owner, _), (_, _, kept) in self._kept.items():
            if owner == key:
                for item in items_of(kept):
                    if item.get("id") == item_id:
                        return item
        return None

    def _expire(self) -> None:
        oldest = self._now() - self._retention_s
        self._kept = {place: entry for place, entry in self._kept.items() if entry[0] > oldest}


def items_of(kept: KeptResponse) -> list[Mapping[str, object]]:
    """Return the input and output items of a response."""
    output = kept.response.get("output")
    return [*kept.items, *(output if isinstance(output, list) else ())]


def kept_response(response_id: str, text: str = "hi", *, previous: str | None = None) -> KeptResponse:
    """Return a response with one item in and one out."""
    item = {"type": "message", "id": f"msg_{response_id}", "role": "user", "content": text}
    answer = {"type": "message", "id": f"out_{response_id}", "role": "assistant", "content": text}
    return KeptResponse(response_id, 1, {"id": response_id, "output": [answer]}, [item], previous)


async def check_memory(memory: ResponseMemory) -> None:
    """Check what every memory that is empty at first keeps to, whatever its limits."""
    await memory.put("k", kept_response("resp_1"))
    await memory.put("k", kept_response("resp_2", previous="resp_1"))
    assert await memory.get("k", "resp_1") == kept_response("resp_1")
    assert await memory.get("k", "resp_2") == kept_response("resp_2", previous="resp_1")
    assert list(await memory.list("k")) == ["resp_2", "resp_1"]
    assert await memory.find_item("k", "msg_resp_1") == kept_response("resp_1").items[0]
    assert await memory.find_item("k", "out_resp_2") is not None
    # Another key sees none of it.
    assert await memory.get("other", "resp_1") is None
    assert await memory.find_item("other", "msg_resp_1") is None
    assert not await memory.delete("other", "resp_1")
    assert list(await memory.list("other")) == []
    # The same id again takes the place of the first.
    await memory.put("k", kept_response("resp_1", "changed"))
    assert await memory.get("k", "resp_1") == kept_response("resp_1", "changed")
    assert list(await memory.list("k")) == ["resp_1", "resp_2"]
    assert await memory.delete("k", "resp_1")
    assert not await memory.delete("k", "resp_1")
    assert await memory.get("k", "resp_1") is None
    assert await memory.find_item("k", "msg_resp_1") is None
