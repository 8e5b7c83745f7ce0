"""Exact memory arithmetic for llama.cpp models, and a verdict before anything is loaded."""
