"""Turn values into configurations, members and packs."""
