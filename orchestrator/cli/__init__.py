"""The command line `lengthwise`: verbs by subject, options and help."""
