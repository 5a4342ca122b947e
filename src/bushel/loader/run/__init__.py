"""Running a pipeline: in this thread, in threads or in worker processes, with batches prefetched in order."""
