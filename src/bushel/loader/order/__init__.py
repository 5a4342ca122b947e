"""From the position in an epoch to the sample: pure functions of seed, epoch and position (docs/order.md)."""
