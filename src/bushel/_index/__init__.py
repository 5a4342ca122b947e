"""The index: where the bytes of every field of every sample lie, and how reads are planned from it."""
