"""Hugging Face's trainer_state.json, which every checkpoint has."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from maxlogit.importer._log import Log
from maxlogit.importer._source import Source
from maxlogit.importer.formats import json_lines
from maxlogit.importer.formats._format import Format

NAME = "trainer_state.json"


def _folder(path: str, options: Any) -> Optional[list[Log]]:
    """That of most steps, which has all before it: the last checkpoint's, or the folder's own, written at the end."""
    folders = sorted(
        (name for name in os.listdir(path) if re.fullmatch(r"checkpoint-\d+", name)), key=lambda name: int(name[11:])
    )
    own, found = os.path.join(path, NAME), [os.path.join(path, folder, NAME) for folder in folders]
    found = [file for file in (own, *list(filter(os.path.isfile, found))[-1:]) if os.path.isfile(file)]
    if not found:
        return None
    logs = []
    for file in found:
        logs.append(Log(file, options.step, options.keep_later))
        json_lines.reads(Source(file, path), logs[-1], options)
    return [max(logs, key=lambda log: max((step for c in log.columns.values() for step in c.rows[0]), default=-1))]


FORMAT = Format(
    name="trainer_state",
    what="`trainer_state.json` of Hugging Face's Trainer, or the folder of one or all checkpoints; also its "
    "`log_history` alone",
    file="trainer_state.json",
    example='{"epoch": 1.0, "global_step": 20, "log_history": [\n {"epoch": 0.5, "loss": 2.5, "step": 10},\n'
    ' {"epoch": 1.0, "eval_loss": 2.25, "step": 20}], "max_steps": 20}\n',
    wanted={"loss": {10: 2.5}, "val_loss": {20: 2.25}},
    knows=lambda source: '"log_history"' in source.text[: 1 << 20] and json_lines.knows(source),
    reads=json_lines.reads,
    folder=_folder,
)
