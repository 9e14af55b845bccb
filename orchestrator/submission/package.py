"""The archive that a job gets: the folder of a study without its results, data, environments and secrets."""

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

from orchestrator.code.repository import looks_secret
from orchestrator.errors import UserError
from orchestrator.preview.upload import measure, uploaded_files
from orchestrator.record.ledger.folders import default_storage, has_ledger
from trainers.tasks.language.corpus import DATA_VARIABLE

LEFT_OUT = {".git", ".hg", ".svn", "__pycache__", "node_modules", "mlruns"}
_YEAR = (1980, 1, 1, 0, 0, 0)  # equal files must give equal archives: Ray then uploads them once


def write_archive(folder: Path, target: Path, needed: Iterable[Path] = ()) -> list[str]:
    """Write the files of `folder` into a zip file; return the files left out because they look like secrets.

    Left out are also what .gitignore and .rayignore name, version control, virtual environments, sweeps and data.
    Raises UserError if the files have more than 100 MiB, one cannot be read or has a name that is not UTF-8,
    or one of the `needed` ones is left out.
    """
    secrets: list[Path] = []
    data = os.environ.get(DATA_VARIABLE)
    folders = {default_storage().resolve(), *([Path(data).resolve()] if data else [])}

    def unneeded(path: Path) -> bool:
        if path.name in LEFT_OUT or path.resolve() in folders:
            return True
        if path.is_dir() and ((path / "pyvenv.cfg").exists() or has_ledger(path)):
            return True
        if looks_secret(path.name):
            secrets.append(path)
            return True
        return False

    size = measure(folder, unneeded)
    if size.too_large:
        raise UserError(size.describe(f"lengthwise submit --working-dir {folder}"))
    files = sorted(uploaded_files(size.folder, unneeded))
    for path in sorted({*needed}.difference(files)):
        why = (
            "left out are what .gitignore and .rayignore name, virtual environments, sweeps, data, and folders that "
            "are links"
        )
        if any(path.is_relative_to(secret) for secret in secrets):
            why = "its name looks like that of a secret; rename it"
        raise UserError(f"{path}: the sweep needs this file, and it would not be uploaded: {why}")
    with zipfile.ZipFile(target, "w") as archive:
        for file in files:
            try:
                content = file.read_bytes()
            except OSError as error:
                raise UserError(f"{file}: cannot be read, so it cannot be uploaded: {error.strerror}") from error
            entry = zipfile.ZipInfo(file.relative_to(size.folder).as_posix(), _YEAR)
            try:
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            except UnicodeEncodeError as error:
                raise UserError(f"{str(file)!r} cannot be uploaded: its name is not UTF-8; rename it") from error
    return sorted({str(path.relative_to(size.folder)) for path in secrets})
