"""llama.cpp's ``llama-server``: facts in ``docs/reference`` and, with each, the build it was seen with (b10434)."""
