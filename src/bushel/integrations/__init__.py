"""Bridges to packages that users already have: one file for each, which imports its package when it is imported.

`huggingface` (also `bushel.to_hf`), `arrow`, `duckdb`, `torch_data` and `torchdata_nodes`. URLs of
the Hugging Face Hub (`hf://datasets/…`) need none of them: `bushel.open` reads them itself.
"""
