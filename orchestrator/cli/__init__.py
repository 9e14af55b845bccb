"""The command line `lengthwise`: commands by subject, options and help."""
