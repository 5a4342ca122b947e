"""LitData: https://github.com/Lightning-AI/litData."""
