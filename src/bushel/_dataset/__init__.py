"""Datasets: opening them, and their views: selections, joins, windows, removals, streams."""
