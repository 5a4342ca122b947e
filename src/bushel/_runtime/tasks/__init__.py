"""Numbered tasks on an engine: submitted, tried again, and started a second time if they are slow."""
