"""The handlers, one module for each kind of work; ``blazar_gateway.app`` holds the table of paths."""
