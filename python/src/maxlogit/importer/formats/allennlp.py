"""AllenNLP's folder of a run: metrics_epoch_N.json, an object per epoch."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Optional

from maxlogit.importer._log import Log
from maxlogit.importer._source import Source
from maxlogit.importer.formats import json_lines
from maxlogit.importer.formats._format import Format


def _folder(path: str, options: Any) -> Optional[list[Log]]:
    found = [match for match in map(re.compile(r"metrics_epoch_(\d{1,15})\.json").fullmatch, os.listdir(path)) if match]
    log = Log(path, options.step, options.keep_later)
    for match in sorted(found, key=lambda match: int(match[1])):
        json_lines.reads(Source(os.path.join(path, match[0]), path), log, options)
    return [log] if found else None


def _example(path: Path) -> None:
    path.mkdir()
    for epoch, loss in enumerate((3.5, 2.5)):
        (path / f"metrics_epoch_{epoch}.json").write_text(
            f'{{"best_epoch": {epoch}, "training_start_epoch": 0, "epoch": {epoch}, '
            f'"training_loss": {loss}, "validation_loss": {loss + 0.25}}}\n'
        )


FORMAT = Format(
    name="allennlp",
    what="a folder of AllenNLP with `metrics_epoch_0.json` and so on; steps are epochs",
    file="run",
    example=_example,
    wanted={"loss": {0: 3.5, 1: 2.5}, "val_loss": {0: 3.75, 1: 2.75}},
    folder=_folder,
)
