"""Shared machinery: orders, the one parallel map, processes, progress, tasks on engines, calls of the system."""
