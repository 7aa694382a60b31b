#!/usr/bin/env python3
"""maxlogit against PyTorch eager: the same model, weights and batches, one thread each, in turn.

    python3 tests/pytorch/compare_speed.py ./maxlogit [adam|muon] [rounds]

For developers; needed neither to build nor to test. The PyTorch model is that of tests/golden/make_golden.py,
in float32. h5py, numpy, torch. OPENBLAS_NUM_THREADS=1 is set here: more threads make Debian's torch slower.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from make_golden import Run, declared, text  # noqa: E402

STEPS = 40
CONFIG = ("data=markov model.layers=2 model.width=64 model.heads=4 model.context=64 train.batch=8 train.lr=0.003 "
          f"train.steps={STEPS} train.val_every=0 record.spectra_every=0 record.probe_every=0 record.batches=1 "
          "device.threads=1 checkpoint.every=0 checkpoint.keep=all").split()


def run_maxlogit(program, preset):
    """Options, tensor names, tokens, losses and seconds of every step."""
    with tempfile.TemporaryDirectory() as d:
        run = d + "/run.h5"
        subprocess.run([program, "run", "-q", "preset=" + preset, "record.path=" + run] + CONFIG, check=True)
        with h5py.File(run) as f:
            p = {k: text(v) for k, v in f["parameters"].attrs.items()}
            tokens = torch.tensor(f["batches/tokens"][:].astype(np.int64))
            timing = f["timing"]
            seconds = np.asarray(timing[next(k for k in timing if "second" in k)])
            loss = f["series/loss"][:]
        with h5py.File(d + "/run.ckpt/step-00000000.h5") as f:
            names = []
            f["params"].visititems(lambda n, x: names.append(n) if isinstance(x, h5py.Dataset) else None)
    return p, sorted(names, key=declared), tokens, loss, seconds


def main():
    program, preset, rounds = sys.argv[1], (sys.argv[2:] or ["muon"])[0], int((sys.argv[3:] or ["5"])[0])
    torch.set_num_threads(1)
    ours, theirs, ratios = [], [], []
    for _ in range(rounds):
        p, names, tokens, loss, seconds = run_maxlogit(program, preset)
        run = Run(p, names, torch.float32)
        took = []
        for step in range(STEPS):
            began = time.perf_counter()
            mine = run.step(step, tokens[step])[0]
            took.append(time.perf_counter() - began)
            assert abs(mine - loss[step]) < 1e-3 * mine, f"step {step}: loss {mine}, maxlogit {loss[step]}"
        ours.append(min(seconds[5:]))
        theirs.append(min(took[5:]))
        ratios.append(theirs[-1] / ours[-1])
    print(f"{preset}, toy stack, one thread: maxlogit {1 / min(ours):.0f} steps/s, PyTorch {torch.__version__} "
          f"{1 / min(theirs):.0f} steps/s; ratio {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds); first loss {loss[0]:.6f}")


main()
