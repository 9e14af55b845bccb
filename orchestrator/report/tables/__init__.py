"""The tables of a report and the sentences above them."""
