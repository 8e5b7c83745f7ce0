"""``python -m blazar_gguf`` is the ``blazar-gguf`` command."""

import sys

from blazar_gguf.command import main

if __name__ == "__main__":
    sys.exit(main())
