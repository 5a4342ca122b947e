"""Opening: the files of a dataset at a path, and the table of each shard."""
