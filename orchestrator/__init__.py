"""Run a sweep: plan, schedule, record, report."""
