"""From the positions of a batch to stored bytes, and to numbers that go straight into the arrays of the batch."""
