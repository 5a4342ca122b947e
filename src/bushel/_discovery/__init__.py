"""Finding datasets: the dataset at a path, whether it is complete, and the table of each of its shards."""
