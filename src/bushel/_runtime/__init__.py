"""Shared code of all rooms: orders, the parallel map, worker processes, progress, tasks on engines, system calls."""
