"""Describing datasets for others: data cards in Markdown, and metadata in Croissant (`describing`)."""
