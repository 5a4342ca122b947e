"""From the options of a loader to the positions of each batch of each rank. Pure: no I/O."""
