"""OpenAI's wire API, which is also the canonical form: llama-server speaks it."""
