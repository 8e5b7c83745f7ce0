"""Spawn, watch, lend and evict engine processes for Blazar."""
