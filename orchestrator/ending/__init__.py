"""End a sweep: its record, its printed report and its last publishing; and update the page while it runs."""
