"""Translators between wire APIs and the canonical request (OpenAI chat) and its event stream.

Each dialect is one folder of pure functions and classes: bytes and values in, bytes and values out, no sockets, no
clocks. What connects them to clients and engines is one level up.
"""
