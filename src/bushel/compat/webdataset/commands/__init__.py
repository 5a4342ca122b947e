"""The command lines of tarp and of wids."""
