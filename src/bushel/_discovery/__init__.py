"""Discovery: the dataset at a path, its completeness, and the table of each of its shards."""
