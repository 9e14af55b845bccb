"""Resolve `training.initial`: kept weights of another sweep, and relative paths, to absolute paths with hashes.

The recorded specification has the paths and hashes, so a resume does not search for them again.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.addresses import is_absolute
from orchestrator.errors import LengthwiseError, UserError
from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.record.files.weights import list_kept_weights, open_weights
from orchestrator.record.ledger.folders import (
    find_default_storage,
    has_ledger,
    is_bare_name,
    make_no_sweep_error,
    resolve_folder,
)
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_label
from search_spaces import Reading, SweepSpec, find_nearest_name
from search_spaces.grammar.domains import Choice, Grid
from search_spaces.grammar.problems import Findings, is_within
from trainers.config.initial_weights import InitialWeights
from trainers.errors import ConfigError, WeightsError

KEY = "training.initial"
SWEEP_KEYS = ("sweep", "configuration", "average", "seeds", "rename", "strict")
SEED = "{seed}"  # placeholder for the seed in a file name


def resolve_initial_weights(reading: Reading, storage: Path | None = None) -> Reading:
    """Return a sweep file with absolute paths and hashes of the files of `training.initial`, also in its space.

    The name of a sweep is searched in `storage`, by default the default storage; a path beside the sweep file, then in
    the current folder. Problems are added to the findings.
    """
    if (spec := reading.spec) is None:
        return reading

    resolver = _WeightsResolver(spec, reading.findings, storage)

    # Resolve every value that the space or a listed configuration may give to the section.
    space = {
        key: replace(domain, values=resolver.resolve_all(domain.values, key, f"space.{key}.{domain.kind}"))
        if isinstance(domain, (Choice, Grid))
        else domain
        for key, domain in spec.space.items()
    }
    listed = tuple(
        {key: resolver.resolve(value, key, f"search.listed[{index}].{key}") for key, value in values.items()}
        for index, values in enumerate(spec.search.listed or ())
    )

    # Refuse to search single keys of a section that is resolved as a whole.
    for key in (*spec.space, *(key for values in listed for key in values)):
        if is_within(key, KEY) and key.rpartition(".")[2] in ("sweep", "configuration", "seeds"):
            reading.findings.add(key, f"cannot be searched alone; search all of {KEY}")
    changed: dict[str, Any] = {"training": resolver.resolve(spec.training, "training", "training"), "space": space}
    if listed:
        changed["search"] = spec.search.model_copy(update={"listed": listed})
    return replace(reading, spec=spec.model_copy(update=changed))


class _WeightsResolver:
    """Replaces the initial weights of a sweep file by absolute paths and hashes; adds problems to the findings."""

    def __init__(self, spec: SweepSpec, findings: Findings, storage: Path | None) -> None:
        self.spec = spec
        self.findings = findings
        self.storage = storage

    def resolve_all(self, values: tuple[Any, ...], key: str, address: str) -> tuple[Any, ...]:
        """Return the values of a domain, each resolved as by `resolve`."""
        return tuple(self.resolve(value, key, f"{address}[{index}]") for index, value in enumerate(values))

    def resolve(self, value: Any, key: str, address: str) -> Any:
        """Return a value with paths and hashes of its initial weights; `address` is its full key in the file."""
        if key == "training" and isinstance(value, Mapping) and "initial" in value:
            return {**value, "initial": self.resolve(value["initial"], KEY, f"{address}.initial")}
        if key != KEY or not isinstance(value, Mapping) or self.findings.is_doubtful(address):
            return value
        try:
            return self._resolve_kept(value, address) if "sweep" in value else self._resolve_files(value)
        except LengthwiseError as error:
            self.findings.add(address, str(error))
            self.findings.mark_doubtful(address)
            return None

    def _resolve_files(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings that name files, with absolute paths and the hash."""
        if (file := settings.get("file")) is None:
            return settings
        if isinstance(file, str):
            file = self._expand_seeds(file) if SEED in file else str(self._resolve_path(file))
        elif isinstance(file, Mapping):
            file = {
                seed: str(self._resolve_path(path)) if isinstance(path, str) else path for seed, path in file.items()
            }
        source = settings["file"] if isinstance(settings["file"], str) else "a file for each seed"
        resolved = {**settings, "file": file, "source": settings.get("source", source)}
        try:
            return {**resolved, "sha256": InitialWeights.from_mapping(resolved).pin_data().sha256}
        except ConfigError:  # reported by the check of the sweep file, with its line
            return resolved

    def _resolve_kept(self, settings: Mapping[str, Any], address: str) -> dict[str, Any]:
        """Return the equivalent settings with `file` in place of `sweep`."""
        # `InitialWeights` has only files, so the keys of `sweep` are checked here.
        for key in settings:
            if key not in SWEEP_KEYS:
                self.findings.add(
                    f"{address}.{key}", "unknown key", given=settings[key], names=SWEEP_KEYS, misspelt=key
                )

        # Choose the configuration, and the seeds whose weights are read.
        state = SweepState.load(self._find_sweep(str(settings["sweep"])))
        configuration = _choose_configuration(state, settings.get("configuration", "best"))
        average, seeds = settings.get("average", "raw"), settings.get("seeds", "same")
        if seeds == "same":
            kept = list_kept_weights(state)
            chosen_seeds = [seed for seed in sorted(configuration.members) if (configuration.config_id, seed) in kept]
            # Without kept weights open any seed, because `open_weights` reports why there are none.
            chosen_seeds = chosen_seeds or sorted(configuration.members)[:1]
        elif isinstance(seeds, int) and not isinstance(seeds, bool):
            chosen_seeds = [seeds]
        else:
            raise UserError(f"seeds: {seeds!r} is not allowed; allowed: same, or one seed")

        # Every file is read once, so that a damaged file is refused before the sweep begins.
        files = {}
        for seed in chosen_seeds:
            stored = open_weights(state, configuration, seed, average)
            try:
                dict(stored)  # reads every tensor, and compares its checksum
            except WeightsError as error:
                raise UserError(str(error)) from error
            files[str(seed)] = str(stored.path.resolve())

        # From now on the settings name files and their hash; the sweep is only mentioned as their source.
        source = f"{state.name} {format_label(configuration.number)}"
        resolved: dict[str, Any] = {"file": files, "source": source}
        if seeds != "same":
            resolved = {"file": files[str(seeds)], "source": f"{source} seed {seeds}"}
        resolved |= {"average": average} if average != "raw" else {}
        resolved |= {key: settings[key] for key in ("rename", "strict") if key in settings}
        return {**resolved, "sha256": InitialWeights.from_mapping({"file": resolved["file"]}).pin_data().sha256}

    def _resolve_path(self, file: str) -> Path:
        """Return the absolute path of a file, relative to the folder of the sweep file or to the current folder."""
        folders = [self.spec.folder or Path(), Path()]
        return next((folder / file for folder in folders if (folder / file).is_file()), folders[0] / file).absolute()

    def _expand_seeds(self, file: str) -> dict[str, str]:
        """Return the files that match a name with the placeholder SEED, by seed."""
        sample = self._resolve_path(file)
        pattern = re.compile("([0-9]+)".join(map(re.escape, sample.name.split(SEED, 1))))
        names = sorted(path.name for path in sample.parent.iterdir()) if sample.parent.is_dir() else []
        files = {str(int(match[1])): str(sample.parent / name) for name in names if (match := pattern.fullmatch(name))}
        if not files:
            raise UserError(f"file: no file matches {sample}, with {SEED} as a number")
        return files

    def _find_sweep(self, sweep: str) -> Path:
        """Return the folder of a sweep; fetches it first if it is at an address."""
        candidates = [resolve_folder(sweep)]
        if not is_absolute(sweep):
            candidates = [(self.spec.folder or Path()) / sweep, Path(sweep)]
            candidates = [
                *([(self.storage or find_default_storage()) / sweep] if is_bare_name(sweep) else []),
                *candidates,
            ]
        for candidate in candidates:
            fetch_sweep(candidate)
        if (folder := next(filter(has_ledger, candidates), None)) is None:
            raise make_no_sweep_error(candidates[0])
        return folder


def _choose_configuration(state: SweepState, reference: Any) -> ConfigurationState:
    """Return the configuration with this label, number or config_id; "best" is the one ranked first."""
    if reference != "best":
        try:
            return find_configuration(state, reference)
        except UserError as error:
            hint = find_nearest_name(reference, ["best"])
            raise UserError(str(error) + (f"; did you mean {hint}?" if hint else "")) from None
    from orchestrator.results.make_summary import summarize  # imports pandas
    from orchestrator.sweep.selection import refuse_unfinished

    result = summarize(state)
    refuse_unfinished(result, "configuration: best")
    if (row := result.first) is None:
        raise UserError(f"configuration: best: no configuration of {state.folder} has a score")
    return state.configurations[row.config_id]
