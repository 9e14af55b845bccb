"""The command line, `lengthwise`: its verbs by subject, their options and their help."""
