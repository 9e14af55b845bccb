"""What a member is made of: typed settings, names to classes, MemberConfig."""
