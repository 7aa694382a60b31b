"""Lines of JSON behind a mark: of DLLogger (NVIDIA's DeepLearningExamples) and of MLPerf's logging."""

from __future__ import annotations

from typing import Any, Optional

from maxlogit.importer._log import numeric, whole
from maxlogit.importer.formats._format import Format, Printed, Row
from maxlogit.importer.formats.json_lines import Decoder

_MARKS = ("DLLL {", ":::MLLOG {")
_STEPS = ("step_num", "samples_count", "epoch_num")  # of MLPerf


def _behind(mark: str, line: str) -> Any:
    begin = line.find(mark)
    try:
        found = Decoder()(line[begin + len(mark) - 1 :]) if begin >= 0 else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _dllogger(line: str, state: Printed) -> Optional[Row]:
    """Steps are numbers or lists: the epoch, the iteration, that of a validation."""
    found = _behind(_MARKS[0], line)
    step, values = found.get("step"), found.get("data")
    places = [whole(x) for x in step] if isinstance(step, list) else [None, whole(step)]
    if not isinstance(values, dict) or not 0 < len(places) < 4 or places[-1] is None:
        return None
    if places[0] is None:
        return Row(places[1], values)
    return Row(None, values, "val" if len(places) > 2 else "", places[0], places[1] if len(places) > 1 else None)


def _mlperf(line: str, state: Printed) -> Optional[Row]:
    """Steps are among the metadata; the first kind of them that the log has counts."""
    found = _behind(_MARKS[1], line)
    about, name, value = found.get("metadata"), found.get("key"), found.get("value")
    if not isinstance(about, dict) or not isinstance(name, str) or numeric(value) is None and not isinstance(value, dict):
        return None
    log = state.log
    at = [key for key in ([log.step] if log.step else _STEPS) if whole(about.get(key)) is not None]
    if not at or found.get("event_type", "POINT_IN_TIME") != "POINT_IN_TIME":
        return None
    log.step_found = log.step_found or at[0]
    if log.step_found not in at:
        log.skipped += 1
        return None
    more = {key: x for key, x in about.items() if key not in ("file", "lineno", *_STEPS)}
    return Row(whole(about[log.step_found]), {name: value, **more})


FORMATS = [
    Format(
        name="dllogger",
        what="JSON of DLLogger, of NVIDIA's DeepLearningExamples and NeMo; steps are numbers, `[epoch, iteration]` or `[epoch]`",
        file="dllogger.json",
        example='DLLL {"timestamp": "1700000000.1", "elapsedtime": "0.1", "type": "LOG", "step": "PARAMETER", "data": {"lr": 1}}\n'
        'DLLL {"timestamp": "1700000009.1", "elapsedtime": "9.1", "type": "LOG", "step": [0, 1], "data": {"loss": 3.5}}\n'
        'DLLL {"timestamp": "1700000010.1", "elapsedtime": "10.1", "type": "LOG", "step": [0, 2], "data": {"loss": 3.25}}\n'
        'DLLL {"timestamp": "1700000011.1", "elapsedtime": "11.1", "type": "LOG", "step": [0], "data": {"val_loss": 3.125}}\n'
        'DLLL {"timestamp": "1700000019.1", "elapsedtime": "19.1", "type": "LOG", "step": [1, 3], "data": {"loss": 3.0}}\n',
        wanted={"loss": {1: 3.5, 2: 3.25, 3: 3.0}, "val_loss": {2: 3.125}},
        line=_dllogger,
    ),
    Format(
        name="mlperf",
        what="lines of MLPerf's logging; steps are `step_num`, `samples_count` or `epoch_num` (--step), the first that is there",
        example='0: :::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "train_loss", '
        '"value": 3.5, "metadata": {"file": "train.py", "lineno": 99, "samples_count": 512, "lr": 0.0002}}\n'
        '0: :::MLLOG {"namespace": "", "time_ms": 1700000009000, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", '
        '"value": 0.75, "metadata": {"file": "train.py", "lineno": 117, "samples_count": 1024, "epoch_num": 1}}\n',
        wanted={"loss": {512: 3.5}, "lr": {512: 2e-4}, "eval_accuracy": {1024: 0.75}},
        line=_mlperf,
    ),
]
