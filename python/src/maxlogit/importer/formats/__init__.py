"""The registry: one row per format, in the order in which they are asked whether they know a file or a line."""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

from maxlogit._library import UsageError
from maxlogit.importer._log import EPOCHS, STEP_NAMES, Log
from maxlogit.importer._source import Source
from maxlogit.importer.formats import csv_table, megatron, printed
from maxlogit.importer.formats._format import Format

_MODULES = (
    *("tensorboard", "numpy_arrays", "mlflow", "allennlp", "clearml", "trainer_state", "json_lines", "tables", "csv_table"),
    *("printed", "marked_json", "dictionaries", "tqdm", "llm_c", "olmo", "megatron", "programs", "other_lines"),
)


def _formats(module: str) -> list[Format]:
    found = importlib.import_module(f"{__name__}.{module}")
    return list(getattr(found, "FORMATS", None) or [found.FORMAT])


FORMATS: list[Format] = [format for module in _MODULES for format in _formats(module)]
_LINES = [format.line for format in FORMATS[: FORMATS.index(megatron.FORMAT) + 1] if format.line]  # the last takes any line


def _chosen(source: Source, name: str) -> Format:
    if name != "guess":
        return next(f for f in FORMATS if f.name == name)
    table = source.name.endswith((".csv", ".tsv"))
    for format in FORMATS:
        if format.knows and format.knows(source) and not (table and source.head):
            return format
    first = next((line for line in source.head.splitlines() if line.strip()), "")
    fields = re.split(r"[\t,; ]+", first.strip("# "))
    if table or (
        len(fields) > 1
        and any(field.strip('"') in (*STEP_NAMES, *EPOCHS) for field in fields)
        and not re.search(r"\d\s|[:=]|\s\d", first)
    ):
        return csv_table.FORMAT
    if source.name.endswith((".log", ".txt", ".out")) or printed.known(source, _LINES):
        return printed.FORMAT
    return csv_table.FORMAT


def read(path: str, options: Any) -> list[Log]:
    """What a file or a folder has; several logs where it has several that are distinguished by their names."""
    try:
        return _read(path, options)
    except RecursionError:
        raise UsageError(f"{path}: its values are nested too deep") from None


def _read(path: str, options: Any) -> list[Log]:
    names = ["guess", *(format.name for format in FORMATS)]
    if options.form not in names:
        raise UsageError(f"import --form: '{options.form:.60}' is not one of {', '.join(names)}")
    if path != "-" and os.path.isdir(path):
        for format in FORMATS:
            logs = format.folder(path, options) if format.folder and options.form in ("guess", format.name) else None
            if logs:
                return logs
        raise UsageError(
            f"{path}: a folder without event files of TensorBoard, metrics/ of MLflow, trainer_state.json, metrics_epoch_0.json; name a file"
        )
    source = Source(path, None)
    log = Log(path, options.step, options.keep_later)
    format = _chosen(source, options.form)
    if format.reads:
        format.reads(source, log, options)
    elif format.line or format is printed.FORMAT:
        printed.read_lines(source, log, [format.line] if format.line else list(_LINES))
    else:
        csv_table.read_table(source, log, options, [f.table for f in FORMATS if f.table])
    return [log]
