"""TFRecord, read in place."""
