"""Parquet: https://parquet.apache.org/docs/file-format/."""
