"""Datasets: finding, opening and reading them."""
