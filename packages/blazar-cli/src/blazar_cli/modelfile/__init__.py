"""Modelfiles: Ollama's way to say what a model is made from and how it is asked."""
