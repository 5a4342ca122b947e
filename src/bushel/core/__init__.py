"""Machinery that Bushel keeps private: orders, the index, datasets, writers, threads and processes."""
