"""ArrayRecord, read in place."""
