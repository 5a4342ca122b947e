"""MDS, read in place."""
