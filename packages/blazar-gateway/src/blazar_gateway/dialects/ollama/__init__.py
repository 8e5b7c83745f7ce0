"""Ollama's API: requests to canonical chat or completion, canonical events to its lines."""
