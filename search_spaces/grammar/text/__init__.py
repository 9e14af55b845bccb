"""YAML text: the strict reader, writing, --set overrides."""
