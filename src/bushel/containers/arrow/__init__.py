"""Arrow IPC: https://arrow.apache.org/docs/format/Columnar.html."""
