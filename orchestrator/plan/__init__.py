"""From values to configurations, members and packs."""
