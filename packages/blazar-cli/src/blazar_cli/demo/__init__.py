"""``blazar demo``: a real engine and a real model answer through a real daemon, and leave nothing behind.

``engine_check`` finds out whether the fetched engine runs here; ``daemon_process`` owns the daemon; ``question`` asks
it through the official OpenAI client; ``story`` tells the whole of it.
"""
