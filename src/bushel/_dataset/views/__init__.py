"""Datasets, and views of them: selections, joins, windows, streams."""
