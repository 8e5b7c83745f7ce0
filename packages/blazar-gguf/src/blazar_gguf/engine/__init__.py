"""What the reference engine (llama-server b10434) demands of a file, as rules and tables.

The order of the modules is the engine's own: container, keys, vocabulary, tensors, context, chat template.
:mod:`blazar_gguf.prediction` asks them in that order; the first objection decides.
"""
