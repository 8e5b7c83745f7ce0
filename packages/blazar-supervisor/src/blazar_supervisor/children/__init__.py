"""One engine process each: its argument vector's surroundings, endpoint, signals, log, secret and pidfile.

Nothing here knows a policy, an engine's peculiarities or another child.
"""
