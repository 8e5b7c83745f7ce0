"""Read GGUF model files: metadata, tensors, shards and chat templates, lazily and safely."""
