#!/usr/bin/env python3
"""Reads runs again: every series and event of a run file, computed anew from what else the run has left.

    python3 tests/instrument.py [-v] RUN.h5 ...

A run is to have its batches (record.batches=1) and the state before every step (checkpoint.every=1
checkpoint.keep=all). For every step, weights and states of the optimizer come from its checkpoint, tokens from the
batch; loss, gradients, statistics, spectra, factors and events are computed by tests/golden/replay.py (PyTorch,
float64) and compared, as are the weights of the next checkpoint. Allowed is MARGIN times what one rounding of every
stage and gradient does to it, and its own rounding. -v prints what each series claims to be.

Exit status: 0 all agree, 1 something differs or was not compared, 2 a run that cannot be read so.
Needs h5py, numpy, torch.
"""
import math
import os
import re
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True  # the source stays as it was distributed
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
from replay import Run, RunFile, Unknown  # noqa: E402

# Errors of n roundings of random sign add up to sqrt(n) of them (Higham, Accuracy and Stability of Numerical Algorithms,
# sec. 2.8): MARGIN is for the some 250 in a row that a number of a step comes of.
MARGIN, ROUNDING, DRAWS = 16, 2.0 ** -24, 3


def flat(values):
    return np.atleast_1d(np.asarray(values, dtype=float)).ravel()


class Rounded(Run):
    """In double, with one rounding of float32, its sign drawn, of every stage, its gradient and what was kept: Monte Carlo
    arithmetic (Parker 1997). How far a float32 program may be off is so told by the numbers' condition, not by another
    program's luck."""

    def __init__(self, p, data, draw):
        self.signs = torch.Generator().manual_seed(draw)
        super().__init__(p, [], torch.float64, data)

    def off(self, x):
        return x * (1 + ROUNDING * (2 * torch.randint(2, x.shape, generator=self.signs, dtype=x.dtype) - 1))

    def rounded(self, x):
        x = self.off(x)
        if x.requires_grad:
            x.register_hook(self.off)
        return x

    def load(self, params, states):
        """Weights stay what they are: a spectrum's equal singular values would be drawn apart."""
        super().load(params, states)
        for w in self.w.values():
            w.register_hook(self.off)
        for moments in self.state.values():
            for v in moments.values():
                v.copy_(self.off(v))
        for name, v in self.fixed.items():
            if not name.endswith("router_bias"):
                v.copy_(self.off(v))


class Reading:
    """One run beside its replays: in double, with roundings, and in float32 if that leaves the numbers that it has."""

    def __init__(self, path):
        self.file = RunFile(path)
        data = self.file.data()
        beyond = any(e[1] == "nonfinite" for e in self.file.events)
        self.runs = [Run(self.file.p, [], dtype, data) for dtype in [torch.float64] + [torch.float32] * beyond]
        self.draws = [Rounded(self.file.p, data, i) for i in range(DRAWS)]
        self.off, self.worst, self.rows, self.compared, self.wrong = {}, {}, {}, [], []

    def compare(self, what, step, ours, double, single, draws):
        """All flat; in a run that leaves the numbers of float32, its own result is right as well."""
        if not len(ours) == len(double) == len(single):
            self.wrong.append(f"{what}, step {step}: {len(ours)} numbers instead of {len(double)}")
            return
        with np.errstate(invalid="ignore", over="ignore"):
            stored = double.astype(np.float32)
            for draw in draws:
                off = np.abs(draw - double)
                self.off[what] = max(self.off.get(what, 0.0), off[np.isfinite(off) & np.isfinite(stored)].max(initial=0))
            double = np.where(np.isinf(stored), stored, double)
            same = (ours == double) | np.isnan(ours) & np.isnan(double)
            if len(self.runs) > 1:
                same |= np.isclose(ours, single, rtol=MARGIN * ROUNDING, atol=0, equal_nan=True)
            finite = np.abs(double[np.isfinite(double)])
            off = np.where(same, 0, np.abs(ours - double))
        self.rows[what] = self.rows.get(what, 0) + 1
        self.compared.append((what, step, ours, double, np.where(np.isnan(off), math.inf, off), finite.max(initial=0)))

    def judge(self):
        """With all rows known: the largest of a few draws is chance."""
        for what, step, ours, double, off, largest in self.compared:
            allowed = MARGIN * (self.off.get(what, 0.0) + ROUNDING * largest)
            ratio = off / allowed if allowed else np.where(off, math.inf, 0)
            self.worst[what] = max(self.worst.get(what, 0.0), ratio.max(initial=0))
            if ratio.max(initial=0) > 1:
                at = int(ratio.argmax())
                self.wrong.append(f"{what}, step {step}, place {at}: {ours[at]:.9g}, PyTorch has {double[at]:.9g} "
                                  f"(allowed: {allowed:.2g})")

    def row(self, step, double, single, draws):
        f = self.file
        for name in double:
            if name not in f.series or step not in f.steps[name]:
                self.wrong.append(f"{name}, step {step}: not in the run file")
                continue
            at = list(f.steps[name]).index(step)
            self.compare(name, step, flat(f.series[name][at]), flat(double[name]), flat(single[name]),
                         [flat(d[name]) for d in draws if name in d])

    def events(self, step, double, single, draws):
        ours = [e[1:] for e in self.file.events if e[0] == step]
        if [e[:-1] for e in ours] != [e[:-1] for e in single]:
            self.wrong.append(f"events, step {step}: {ours}, PyTorch has {single}")
            return
        if [e[:-1] for e in double] != [e[:-1] for e in single]:
            double = single
        draws = [d for d in draws if [e[:-1] for e in d] == [e[:-1] for e in double]]
        for i, (e, a, b) in enumerate(zip(ours, double, single)):
            self.compare("event " + e[0], step, flat(e[-1]), flat(a[-1]), flat(b[-1]), [flat(d[i][-1]) for d in draws])

    def state(self, step):
        params, states = self.file.checkpoint(step)
        for run in self.runs + self.draws:
            run.load(params, states)

    def weights(self, step):
        """After a step: are they those of the next checkpoint?"""
        params, _ = self.file.checkpoint(step)
        for name in params:
            if name in self.runs[0].w:
                double, single, *draws = (flat(r.w[name].detach()) for r in [self.runs[0], self.runs[-1]] + self.draws)
                self.compare("(weights " + re.sub("^blocks[.][0-9]+[.]", "", name) + ")", step, flat(params[name]), double,
                             single, draws)

    def read(self):
        steps = len(self.file.batches)
        for s, batch in enumerate(self.file.batches):
            self.state(s)
            of, draws = [run.step(s, batch) for run in self.runs], [run.step(s, batch) for run in self.draws]
            (double, seen), (single, seen32) = of[0], of[-1]
            if self.runs[0].diverged != self.runs[-1].diverged:  # beyond what float32 can hold: it decides
                single = {axis: row for axis, row in single.items() if row}
                double = {axis: {n: double.get(axis, {}).get(n, v) for n, v in row.items()} for axis, row in single.items()}
                seen = seen32
            for axis in double:
                if double[axis]:
                    self.row(s, double[axis], single[axis], [rows.get(axis) or {} for rows, _ in draws])
            self.events(s, seen, seen32, [events for _, events in draws])
            if self.runs[-1].diverged:
                return
            self.weights(s + 1)
        self.state(steps)
        of, draws = [run.finish() for run in self.runs], [run.finish() for run in self.draws]
        for axis in of[0]:
            if of[0][axis]:
                self.row(steps, of[0][axis], of[-1][axis], [rows.get(axis) or {} for rows in draws])

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
