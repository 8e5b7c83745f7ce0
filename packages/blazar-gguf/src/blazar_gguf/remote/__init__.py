"""Reading headers over HTTP; the only part of this package that opens a connection, imported only when asked for."""

from blazar_gguf.remote.client import UrlCheck
from blazar_gguf.remote.source import RemoteShards, RemoteSource, read_metadata_url, remote_shards

__all__ = ["RemoteShards", "RemoteSource", "UrlCheck", "read_metadata_url", "remote_shards"]
