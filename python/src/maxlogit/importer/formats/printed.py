"""Printed lines: each is read by the first format that knows it; other lines are passed over."""

from __future__ import annotations

import re

from maxlogit.importer._log import Log
from maxlogit.importer._source import Source
from maxlogit.importer.formats import other_lines, tqdm
from maxlogit.importer.formats._format import Format, Line, Printed, Row

_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RANK = re.compile(r"^\s*(?:\[(?:rank|default) ?(\d+)\]:?|(?:rank|Rank|RANK)[ _=:]?(\d+)\s*[:|\]]|(\d+): )\s*")


def _clean(line: str) -> tuple[str, str]:
    """Without colors, what was drawn over, and the mark of a rank."""
    if "\x1b" in line or "\b" in line:
        line = _COLOR.sub("", line.rpartition("\b")[2])
    if line.startswith("(") and "pid=" in line:  # of Ray
        line = re.sub(r"^\([^()]{0,200}pid=[^()]{0,200}\)\s*", "", line)
    rank = _RANK.match(line)
    return (line[rank.end() :], f"rank{rank[1] or rank[2] or rank[3]}") if rank else (line, "")


def known(source: Source, formats: list[Line]) -> bool:
    """Whether one of the first lines is of a format."""
    state = Printed(Log(source.path))
    lines = [_clean(line)[0] for line in source.head.split("\n")[:5000]]
    return any(format(line, state) for line in lines if line for format in formats)


def read_lines(source: Source, log: Log, formats: list[Line]) -> None:
    state = Printed(log)
    for number, line in enumerate(source.text.split("\n"), 1):
        log.lines = number
        if not line or line.isspace():
            continue
        line, rank = _clean(line)
        if "it/s" in line or "s/it" in line or "%|" in line:
            tqdm.see(line, state)
        for i, format in enumerate(formats):
            row = format(line, state)
            if row is None:
                continue
            if 0 < i < len(formats) - 1:  # the next line is probably of the same; the last format would take those of others
                formats.insert(0, formats.pop(i))
            if rank:
                row = row._replace(prefix=f"{row.prefix}/{rank}" if row.prefix else rank)
            if row.step is None and row.epoch is None:
                tqdm.wait(dict(row.values), row.prefix, number, state)
            elif row.step is None or state.rows:
                state.rows.append(row._replace(line=number))
                state.last_epoch = state.last_epoch if row.epoch is None else row.epoch
            else:
                state.last = row.step
                _put(row, log, number)
            break
    if state.others:
        count = len(state.others)
        log.say(f"{count} progress bar{'s' * (count > 1)} not of the training left out, as '{state.others[0]:.60}'")
    if re.search(r"[\d.eE+-]\Z", source.text):
        log.say("the last line has no end: its last number may be cut")
    for row in other_lines.settle(state.rows, state) if state.rows else ():
        if row.step is None:
            log.put_without_step(dict(row.values), row.epoch, row.prefix)
        else:
            _put(row, log, row.line)
    tqdm.settle(state)


def _put(row: Row, log: Log, line: int) -> None:
    log.put(row.step or 0, row.values, row.prefix, line=line, alone=bool(row.set))
    log.step_found = log.step_found or "(printed)"


FORMAT = Format(
    name="printed",
    what="a log of any of the formats of lines below; all other lines are passed over",
    example="starting\niter 0: loss 10.5, time 99.00ms, mfu -100.00%\nstep 10: train loss 9.5, val loss 9.75\nsaved\n",
    wanted={"loss": {0: 10.5}, "val_loss": {10: 9.75}},
)
