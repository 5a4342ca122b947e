"""Bridges to packages that users already have: one file for each, which imports its package when it is imported.

`huggingface` (also `bushel.to_hf`), `torch_data` and `torchdata_nodes`. Tables of Arrow
(`Dataset.to_arrow`) and URLs of the Hugging Face Hub (`hf://datasets/…`) need none of them.
"""
