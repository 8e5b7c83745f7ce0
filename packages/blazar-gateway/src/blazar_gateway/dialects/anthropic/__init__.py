"""Anthropic's wire API: so far the shape of its model list; Messages come later."""
