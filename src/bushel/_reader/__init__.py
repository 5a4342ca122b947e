"""Reading samples, columns and keys by their positions in a list of shards."""
