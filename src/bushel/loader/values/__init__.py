"""What a batch is made of: samples that are stacked, rows of documents, and the arrays of torch and JAX."""
