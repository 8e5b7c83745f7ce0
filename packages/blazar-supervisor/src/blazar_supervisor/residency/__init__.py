"""Which children there are, who may use them, and when they go.

``states`` draws the machine, ``residence`` is one child's life, ``dispatcher`` owns the queue and acts on its
decisions, ``host`` is what the rest of the daemon sees.
"""
