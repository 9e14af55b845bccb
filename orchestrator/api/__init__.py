"""What the command line can do, in Python: functions that return data."""
