"""What files and folders are: junk, splits, samples, fields and classes. Pure functions of names."""
