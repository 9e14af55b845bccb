"""The command line, `lengthwise`: its verbs by what they work on, their options and their help."""
