"""Archive the ledger of a sweep and the curves that its claims read in a small file for a repository, and read it.

`results/NAME.tar.xz` beside a claims file has `events.jsonl` unchanged, and `curves.parquet` with the metrics and
weight averages of the claims at the last and at the chosen evaluation of each member. `claims.json` has the deciding
values of the registered claims; files of lengthwise 1.0 lack it.
"""

import io
import json
import lzma
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.errors import DamagedCurves, LengthwiseError, convert_write_errors
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.evaluation_choice import Mask, select_steps
from search_spaces.grammar.claims import Claim, ClaimsFile
from trainers.errors import get_first_line

CURVES_NAME, REGISTERED_NAME = "curves.parquet", "claims.json"


def locate_archive(file: ClaimsFile, sweep: str) -> Path:
    """Return the path of the archived results of a sweep, in `results` beside the claims file."""
    return file.path.parent / "results" / f"{sweep}.tar.xz"


def write_archive(sweep: SweepCurves, claims: Iterable[Claim], path: Path) -> int:
    """Archive the ledger of a finished sweep and the curves that these claims read; return the size in bytes.

    The same sweep gives the same bytes. Raises UserError if the file cannot be written.
    """
    sink = io.BytesIO()
    sweep.curves[_mask_read_rows(sweep, list(claims))].to_parquet(sink, compression=None, index=False)
    claims_of_sweep = {name: values for name, values in sweep.registered.items() if name in sweep.state.claims}
    contents = {
        LEDGER_FILE: (sweep.folder / LEDGER_FILE).read_bytes(),
        CURVES_NAME: sink.getvalue(),
        REGISTERED_NAME: json.dumps(claims_of_sweep, sort_keys=True).encode(),
    }

    # Leave out times and owners, which would change the bytes.
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:xz", preset=9) as archive:
            for name, content in contents.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return path.stat().st_size


def read_archive(path: Path) -> SweepCurves:
    """Return an archived sweep. Raises DamagedCurves if the file is damaged or not an archive of a sweep."""
    # Unpack into a temporary folder, because the ledger is read from a file.
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(path, "r:xz") as archive:
                for name in (LEDGER_FILE, CURVES_NAME):
                    content = archive.extractfile(name)
                    Path(folder, name).write_bytes(content.read() if content else b"")
                claims_file = archive.extractfile(REGISTERED_NAME) if REGISTERED_NAME in archive.getnames() else None
                registered_claims = json.load(claims_file) if claims_file else {}
            curves = pd.read_parquet(Path(folder) / CURVES_NAME)
            state = SweepState.load(Path(folder))
        except (OSError, lzma.LZMAError, tarfile.TarError, EOFError, ValueError, KeyError, LengthwiseError) as error:
            raise DamagedCurves(f"{path}: damaged, or not an archive of a sweep: {get_first_line(error)}") from error

    # The folder of the state appears in messages, and the temporary folder is gone.
    state.folder = path
    return SweepCurves(path, state, curves, registered_claims)


def _mask_read_rows(sweep: SweepCurves, claims: list[Claim]) -> Mask:
    """Return a mask of the curve rows that the claims read: their metrics and averages, at the last and best steps."""
    # The objective's metric and average choose the best evaluation, also in an archive.
    objective, curves = sweep.objective, sweep.curves
    metrics, averages = {objective.metric}, {objective.average}
    for claim in claims:
        for part in (claim, claim.learned, *claim.arms.values()):
            if part is not None:
                metrics |= set(part.metric or ())
                averages |= {part.average} if isinstance(part.average, str) else set(part.average or ())

    # Every member keeps its last evaluation, and the best one if a claim or the objective reads it.
    is_chosen = select_steps(curves, sweep.last_steps)
    if objective.evaluation == "best" or any(claim.evaluation == "best" for claim in claims):
        is_chosen |= select_steps(curves, sweep.best_steps)
    return is_chosen & curves["metric"].isin(metrics).to_numpy() & curves["average"].isin(averages).to_numpy()
