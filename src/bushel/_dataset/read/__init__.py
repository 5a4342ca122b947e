"""Reading: from positions in a list of shards to samples, columns and keys."""
