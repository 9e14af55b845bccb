"""Tasks, a file or a folder each, with the base class `Task` and helpers for losses, scores and rows."""
