"""`python -m trainers.check MODULE ...`: check the classes that modules register."""

import importlib
import sys
from collections.abc import Sequence

from trainers.check.check_classes import check_class
from trainers.settings import registry


def main(modules: Sequence[str]) -> int:
    """Check the classes that these modules register; return 0 if all are good, 1 if not, 2 for bad input."""
    if not modules or any(module.startswith("-") for module in modules):
        print("usage: python -m trainers.check MODULE ...", file=sys.stderr)
        return 2

    # The classes of the modules are the new ones in the registry; classes of shipped modules may be registered already.
    names_before = {kind: set(registry.get_classes(kind)) for kind in registry.KINDS}
    for module in modules:
        if module.endswith(".py"):
            print(f"{module} is a file; check the module by its name: {module.removesuffix('.py')}", file=sys.stderr)
            return 2
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            print(f"{module} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
            return 2
    checked = [
        (kind, name)
        for kind in registry.KINDS
        for name, cls in sorted(registry.get_classes(kind).items())
        if name not in names_before[kind] or cls.__module__ in modules
    ]
    if not checked:
        print(f"{', '.join(modules)}: registers no class", file=sys.stderr)
        return 2

    problems_by_class = {(kind, name): check_class(kind, name) for kind, name in checked}
    for (kind, name), problems in problems_by_class.items():
        print(f"{kind} {name}: " + ("\n  ".join(["", *problems]) if problems else "good"))
    return 1 if any(problems_by_class.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
