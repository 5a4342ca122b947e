"""What files, folders and columns are: junk, splits, samples, fields, classes and types. Pure: no I/O."""
