"""Progress bars: their steps, and the values behind them ("5/50 [00:10<01:30, 2.0s/it, loss=1.5]")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np

from maxlogit.importer._log import whole
from maxlogit.importer.formats._format import Format, Lines, Printed, Row, Waiting

_BAR = re.compile(
    r"(?<!\d)(?P<at>\d{1,15})(?:/(?P<of>\d{1,15})|/\?|it)? "
    r"\[[\d:]{1,20}(?:<[\d:?]{1,20})?, {1,8}[\d.?]{1,20} ?\w{1,20}/\w{1,20}(?P<rest>[^\]]{0,4000})\]"
)
_PAIRS = Lines("", "", r"(?P<name>[A-Za-z_][\w/. -]{0,95})=NUMBER")
_OF_OTHERS = re.compile(
    r"(?i)(?<![a-z])(?:val|valid|validat\w*|eval|evaluat\w*|test|testing|sanity|sampling|predict\w*|generating|computing|loading)"
    r"(?![a-z])"
)


def _bars(line: str) -> Iterator[tuple[re.Match[str], str]]:
    """Bars of a line, and what stands before each: 'Epoch 1: 10%|#   | 5/50 [..]'."""
    end = 0
    for match in _BAR.finditer(line):
        before, end = line[end : match.start()], match.end()
        parts = before.rsplit("|", 2)
        before = re.sub(r"\d+%\s?$", "", parts[0][-200:]) if len(parts) == 3 else parts[-1]
        yield match, before.rpartition("|")[2][-200:]


def see(line: str, state: Printed) -> None:
    """Remember how far the bars are that may be the training's: without a description, or with this one."""
    for match, about in _bars(line):
        if re.search(r"[A-Za-z]", re.sub(r"[Tt]rain(ing)?|Epoch [\d/]+", "", about)) or not match["of"]:
            continue
        at, of = int(match["at"]), int(match["of"])
        state.bars[of] = at
        state.total = state.total or (of if state.waiting else 0)
        for row in reversed(state.waiting):
            if row.after is not None or of != state.total:
                break
            row.after = at


def wait(values: dict[str, Any], prefix: str, number: int, state: Printed) -> None:
    """A row without a step: its step is where the training's bar is."""
    state.total = state.total or (next(reversed(state.bars)) if state.bars and "loss" in values else 0)
    state.waiting.append(Waiting(state.bars.get(state.total), values, prefix, number))


def settle(state: Printed) -> None:
    """Bars are drawn again below a row, and the one above it may be older, or there is none below: which of the two are
    the steps is said by the epochs, which grow with them."""
    fits = {}
    for side in ("before", "after"):
        points = [(getattr(row, side), row.values.get("epoch")) for row in state.waiting]
        steps, epochs = np.array(
            [(n, e) for n, e in points if n is not None and isinstance(e, (int, float))] or [(0, 1)], float
        ).T
        fits[side] = ((steps - epochs * (steps @ epochs) / max(epochs @ epochs, 1e-300)) ** 2).mean(), -len(steps)
    best, other = ("after", "before") if fits["after"] < fits["before"] else ("before", "after")
    for row in state.waiting:
        step = getattr(row, other) if getattr(row, best) is None else getattr(row, best)
        if step is not None:
            state.log.step_found = "(progress bar)"
            state.log.put(step, row.values, row.prefix, line=row.line)
        else:
            epoch = next((row.values.pop(name) for name in ("epoch", "Epoch") if name in row.values), None)
            state.log.put_without_step(row.values, epoch, row.prefix)


def _line(line: str, state: Printed) -> Optional[Row]:
    """A bar with values; its steps go on from epoch to epoch."""
    bars = _bars(line) if "[" in line and ("it/s" in line or "s/it" in line or "%|" in line) else iter(())
    match, about = next(bars, (None, ""))
    values = _PAIRS.pairs(match["rest"]) if match else {}
    values.pop("v_num", None)
    if not match or not values:
        return None
    for name in ("global_step", "step"):
        if whole(values.get(name)) is not None:
            return Row(whole(values.pop(name)), values)
    if _OF_OTHERS.search(about):
        state.others.append(about.strip(" :|"))
        return Row(state.last or 0, {})
    if not int(match["at"]) and state.last is not None:  # it has the values of the bar before
        return Row(state.last, {})
    step, epoch = int(match["at"]), re.search(r"[Ee]poch\s*\[?(\d{1,15})", about)
    if epoch and match["of"]:
        if state.first_epoch is None:
            state.first_epoch = min(int(epoch[1]), 1)
            if int(epoch[1]) > 1:
                state.log.say(f"the first epoch of its progress bars is {int(epoch[1])}: steps are counted from epoch 1 on")
        step += (int(epoch[1]) - state.first_epoch) * int(match["of"])
    return Row(step, values)


FORMAT = Format(
    name="tqdm",
    what="progress bars with values behind them, as of OpenRLHF and Lightning; steps go on from epoch to epoch",
    example="Train epoch [1/2]:  50%|#####     | 1/2 [00:10<00:10, 10.0s/it, gpt_loss=1.5, lr=tensor(5.0e-07)]\r"
    "Train epoch [1/2]: 100%|##########| 2/2 [00:20<00:00, 10.0s/it, gpt_loss=1.25, lr=tensor(4.0e-07)]\r"
    "Train epoch [2/2]:  50%|#####     | 1/2 [00:10<00:10, 10.0s/it, gpt_loss=1.125, lr=tensor(3.0e-07)]\n",
    wanted={"gpt_loss": {1: 1.5, 2: 1.25, 3: 1.125}, "lr": {1: 5e-7, 2: 4e-7, 3: 3e-7}},
    line=_line,
)
