"""How a sweep ends: its record, its printed report and its last publishing; the page while it runs."""
