"""Advisory locks on open files, on POSIX and on Windows.

A lock belongs to the open file: it ends when the file is closed or its process dies, however it dies.
"""

import sys

if sys.platform == "win32":
    import msvcrt

    # A byte far behind the content: Windows locks are mandatory, and readers must still see the text.
    _FAR = 1 << 30

    def try_lock(handle: int, *, shared: bool = False) -> bool:
        """Take the lock if it is free and return whether it was; ``shared`` has no equivalent here."""
        import os

        del shared
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Give the lock back."""
        import os

        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(handle: int, *, shared: bool = False) -> bool:
        """Take the lock on the open file ``handle`` if it is free; return whether it was.

        Args:
            handle: A file descriptor.
            shared: Whether others may hold it shared at the same time.
        """
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Give the lock back."""
        fcntl.flock(handle, fcntl.LOCK_UN)
