"""Zip archives, read in place."""
