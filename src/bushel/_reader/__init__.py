"""Reading: shards of a dataset in order, and from positions in it to samples, columns and keys."""
