"""The index: where the bytes of every field of every sample are, and how reads are planned from it."""
