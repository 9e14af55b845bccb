"""MemberConfig, the configuration of a member, with its sections and their checks."""
