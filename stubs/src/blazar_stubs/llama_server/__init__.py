"""A scriptable stand-in for llama.cpp's llama-server.

Read from the outside in: `main` decides what was asked for, `flags` parses the command line against the real
help text, `serving` starts a server, `routes` says which path does what, `tasks` runs one generation on a slot
of the `engine`, `shapes_*` put results into each wire format, and `scripts` and `behaviour` hold what a test
wants to go wrong. Facts come from llama.cpp b10434 (commit 7e4c0a9), whose answers the conformance suite
compares with ours.

No dataclasses and no asyncio in here: hundreds of tests start this program, and importing those two takes
longer than everything else it does before it listens.
"""
