"""Blazar's HTTP surface: OpenAI, Anthropic and Ollama clients in front of local engines."""
