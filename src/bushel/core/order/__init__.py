"""Orders: which sample stands at each position of an epoch."""
