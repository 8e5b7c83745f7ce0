"""OpenAI's Responses API: request to canonical chat, canonical events to response objects and their streams."""
