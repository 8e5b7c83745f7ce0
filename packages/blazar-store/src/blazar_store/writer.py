"""The one thread that the daemon's reads and writes of the store happen in.

SQLite blocks; the event loop must not. ``await asyncio.wrap_future(thread.submit(lambda store: …))`` runs a
function there, in order of submission.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from blazar_store.layout import Layout
from blazar_store.store import Store

T = TypeVar("T")


class StoreThread:
    """A store in a thread of its own. All methods may be called from any thread.

    Starting blocks until the store is open. :meth:`submit` never blocks. What was submitted before :meth:`close`
    is done before it returns; at interpreter exit too, if nobody called it.
    """

    def __init__(self, layout: Layout) -> None:
        """Start the thread and open the store in it.

        Raises:
            StoreError: The store cannot be opened; no thread is left behind.
        """
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="blazar-store")
        try:
            self._store = self._executor.submit(Store, layout).result()
        except BaseException:
            self._executor.shutdown()
            raise

    def submit(self, work: Callable[[Store], T]) -> "Future[T]":
        """Run ``work`` with the store, after everything submitted earlier, and return its future.

        A future that is cancelled before its turn is skipped; one whose turn has come is finished.

        Raises:
            RuntimeError: The thread is closed.
        """
        return self._executor.submit(work, self._store)

    def close(self) -> None:
        """Finish what was submitted, close the store and end the thread. Blocks; the second call does nothing."""
        try:
            self._executor.submit(self._store.close)
        except RuntimeError:
            return
        self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
