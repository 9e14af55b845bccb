"""Write plain data as YAML text that this package and YAML 1.1 readers read back unchanged."""

import re
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases, with escapes for unprintable characters."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # Unquoted, next line (U+0085) and the separators U+2028, U+2029 would become spaces or line breaks.
        escaped = not text.replace("\n", "").isprintable()
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if escaped else None)


_Dumper.add_representer(str, _Dumper.represent_text)

# Texts that are numbers to YAML 1.2 but not to PyYAML (1e-4, 0o17, 1.e5, 010e1) must be written in quotes.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|0o[0-7]+$|0x[0-9a-fA-F]+$"),
    list("-+.0123456789"),
)


def dump_yaml(data: dict[str, Any]) -> str:
    """Return plain data as YAML text, keys in order; `load_sweep` of a dumped `spec.resolved()` gives an equal spec."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
