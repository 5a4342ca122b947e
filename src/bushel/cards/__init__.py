"""Describing datasets for others: data cards in Markdown (`describing`)."""
