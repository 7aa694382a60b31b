#!/usr/bin/env python3
"""Reads runs again: every series and event of a run file, computed anew from what else the run has left.

    python3 tests/instrument.py [-v] RUN.h5 ...

A run is to have its batches (record.batches=1) and the state before every step (checkpoint.every=1
checkpoint.keep=all). For every step, weights and states of the optimiser come from its checkpoint, tokens from the
batch; loss, gradients, statistics, spectra, factors and events are computed by tests/golden/replay.py (PyTorch,
float64) and compared, as are the weights of the next checkpoint. A deviation of MARGIN times that of PyTorch's own
float32 from its float64, and float32's rounding, is allowed. -v prints what each series claims to be.

Exit status: 0 all agree, 1 something differs or was not compared, 2 a run that cannot be read so.
Needs h5py, numpy, torch.
"""
import math
import os
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True  # the source stays as it was distributed
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
from replay import Run, RunFile, Unknown  # noqa: E402

# one PyTorch (1.13) has roundings three times as small as another (2.15) where Muon's iteration lets them grow
MARGIN, EPS = 16, 2.0 ** -23


def flat(values):
    return np.atleast_1d(np.asarray(values, dtype=float)).ravel()


class Reading:
    """One run beside its replay, in both precisions."""

    def __init__(self, path):
        self.file = RunFile(path)
        data = self.file.data()
        self.runs = [Run(self.file.p, [], dtype, data) for dtype in (torch.float64, torch.float32)]
        self.off, self.worst, self.rows, self.compared, self.wrong = {}, {}, {}, [], []

    def compare(self, what, step, ours, double, single):
        """All flat; where float32 leaves the numbers that it has, its own result is right as well."""
        if not len(ours) == len(double) == len(single):
            self.wrong.append(f"{what}, step {step}: {len(ours)} numbers instead of {len(double)}")
            return
        with np.errstate(invalid="ignore", over="ignore"):
            stored = double.astype(np.float32)
            double = np.where(np.isinf(stored), stored, double)
            same = (ours == double) | np.isnan(ours) & np.isnan(double)
            same |= ~np.isfinite(single) & ((ours == single) | np.isnan(ours) & np.isnan(single))
            finite = np.abs(double[np.isfinite(double)])
            apart = np.where(same | ~np.isfinite(double), 0, np.abs(single - double))
            off = np.where(same, 0, np.abs(ours - double))
        self.off[what] = max(self.off.get(what, 0.0), apart.max(initial=0))
        self.rows[what] = self.rows.get(what, 0) + 1
        self.compared.append((what, step, ours, double, np.where(np.isnan(off), math.inf, off), finite.max(initial=0)))

    def judge(self):
        """With all rows known: how far float32 is off in a few of them is chance."""
        for what, step, ours, double, off, largest in self.compared:
            allowed = MARGIN * (self.off[what] + EPS * largest)
            ratio = off / allowed if allowed else np.where(off, math.inf, 0)
            self.worst[what] = max(self.worst.get(what, 0.0), ratio.max(initial=0))
            if ratio.max(initial=0) > 1:
                at = int(ratio.argmax())
                self.wrong.append(f"{what}, step {step}, place {at}: {ours[at]:.9g}, PyTorch has {double[at]:.9g} "
                                  f"(allowed: {allowed:.2g})")

    def row(self, step, double, single):
        f = self.file
        for name in double:
            if name not in f.series or step not in f.steps[name]:
                self.wrong.append(f"{name}, step {step}: not in the run file")
                continue
            at = list(f.steps[name]).index(step)
            self.compare(name, step, flat(f.series[name][at]), flat(double[name]), flat(single[name]))

    def events(self, step, double, single):
        ours = [e[1:] for e in self.file.events if e[0] == step]
        if [e[:-1] for e in ours] != [e[:-1] for e in single]:
            self.wrong.append(f"events, step {step}: {ours}, PyTorch has {single}")
            return
        if [e[:-1] for e in double] != [e[:-1] for e in single]:
            double = single
        for e, a, b in zip(ours, double, single):
            self.compare("event " + e[0], step, flat(e[-1]), flat(a[-1]), flat(b[-1]))

    def state(self, step):
        params, states = self.file.checkpoint(step)
        for run in self.runs:
            run.load(params, states)

    def weights(self, step):
        """After a step: are they those of the next checkpoint?"""
        params, _ = self.file.checkpoint(step)
        a, b = self.runs
        for name in params:
            if name in a.w:
                self.compare("(weights)", step, flat(params[name]), flat(a.w[name].detach()), flat(b.w[name].detach()))

    def read(self):
        steps = len(self.file.batches)
        for s, batch in enumerate(self.file.batches):
            self.state(s)
            (double, seen), (single, seen32) = (run.step(s, batch) for run in self.runs)
            if self.runs[0].diverged != self.runs[1].diverged:  # beyond what float32 can hold: it decides
                single = {axis: row for axis, row in single.items() if row}
                double = {axis: {n: double.get(axis, {}).get(n, v) for n, v in row.items()} for axis, row in single.items()}
                seen = seen32
            for axis in double:
                if double[axis]:
                    self.row(s, double[axis], single[axis])
            self.events(s, seen, seen32)
            if self.runs[1].diverged:
                return
            self.weights(s + 1)
        self.state(steps)
        double, single = (run.finish() for run in self.runs)
        for axis in double:
            if double[axis]:
                self.row(steps, double[axis], single[axis])

    def report(self, path, verbose):
        f = self.file
        no_data = self.runs[0].data is None
        for name in sorted(f.series):
            told = sum(not np.isnan(flat(row)).all() for row in f.series[name])
            unread = told > self.rows.get(name, 0)
            if unread and no_data and (name.startswith("probe/") or name == "val_loss"):
                print(f"{path}: {name}: not compared: data = {f.p['data']} {f.p['data.path']} is not known here")
            elif unread:
                self.wrong.append(f"{name}: {told} rows, {self.rows.get(name, 0)} compared")
            if verbose:
                print(f"{name}: {self.rows.get(name, 0)} rows, largest deviation {self.worst.get(name, 0):.2g} of what is "
                      f"allowed\n    {f.definition[name]}")
        for line in self.wrong[:10]:
            print(f"{path}: {line}")
        print(f"{path}: {len(f.batches)} steps, {len(f.series)} series, {sum(self.rows.values())} rows compared, "
              f"largest deviation {max(self.worst.values(), default=0):.2g} of what is allowed, {len(self.wrong)} wrong")
        return bool(self.wrong)


def main():
    verbose, paths, status = "-v" in sys.argv[1:], [a for a in sys.argv[1:] if a != "-v"], 0
    torch.set_num_threads(1)
    for path in paths:
        try:
            r = Reading(path)
            r.read()
            r.judge()
        except (Unknown, OSError) as e:
            print(f"{path}: {e}")
            status = 2
            continue
        status = max(status, int(r.report(path, verbose)))
    return status if paths else 2


if __name__ == "__main__":
    sys.exit(main())
