"""``blazar run``: typed lines in, streamed answers out.

``typed`` and ``settings`` are pure; ``answer`` reads an event stream; ``screen`` writes it; ``session`` is the loop.
"""
