"""Anthropic's wire API: Messages, token counts and the model list."""
