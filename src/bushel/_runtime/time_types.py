"""The types of times and of durations, by name: `spec` needs them without NumPy."""

UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")
TIMES = [[f"{kind}({unit})" for unit in UNITS] for kind in ("datetime64", "timedelta64")]
"""The types of times, and the types of durations, from the coarsest unit to the finest one."""
