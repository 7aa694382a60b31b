"""MLflow's folders: of a run, an experiment or mlruns. Files metrics/NAME have lines "time value step"."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from maxlogit.importer._log import Log, whole
from maxlogit.importer._source import Source
from maxlogit.importer.formats._format import Format


def _texts(run: str, part: str, top: str) -> dict[str, str]:
    out, folder = {}, os.path.join(run, part)
    for at, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            path = os.path.join(at, file)
            out[os.path.relpath(path, folder)] = Source(path, top).text
    return out


def _folder(path: str, options: Any) -> Optional[list[Log]]:
    runs = [path] if os.path.isdir(os.path.join(path, "metrics")) else []
    for folder, folders, _ in [] if runs else os.walk(path):
        folders.sort()
        if "metrics" in folders and "meta.yaml" in os.listdir(folder):
            runs.append(folder)
            folders.clear()
    if not runs:
        return None
    log = Log(path, options.step, options.keep_later)
    log.step_found = "step"
    for run in runs:
        name = os.path.basename(os.path.normpath(run)) if len(runs) > 1 else ""
        for metric, text in _texts(run, "metrics", path).items():
            for number, line in enumerate(text.splitlines(), 1):
                parts = line.split(" ")
                if len(parts) < 2:
                    raise log.error(f"{metric}:{number}: no line of a metric (time, value, step)")
                step = whole(parts[2] if len(parts) > 2 else "0")
                if step is None:
                    raise log.error(f"{metric}:{number}: step '{parts[2]:.40}' is not a whole number from 0 on")
                log.put(step, {metric: parts[1]}, run=name, line=number, alone=True)
        if len(runs) == 1:
            log.settings = {key: text.strip() for key, text in _texts(run, "params", path).items()}
    return [log]


def _example(path: Path) -> None:
    for name, text in {
        "metrics/train_loss": "1700000000000 3.5 0\n1700000009000 2.5 10\n",
        "metrics/eval/loss": "1700000009000 2.75 10\n",
        "params/optimizer": "muon",
        "meta.yaml": "run_id: 7f\n",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)


FORMAT = Format(
    name="mlflow",
    what="a folder of MLflow: of a run, whose parameters become the configuration, or of an experiment with several runs",
    file="7f",
    example=_example,
    wanted={"loss": {0: 3.5, 10: 2.5}, "val_loss": {10: 2.75}},
    folder=_folder,
)
