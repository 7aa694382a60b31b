#!/usr/bin/env python3
"""maxlogit against PyTorch eager on the CPU: the same model, weights and batches, one thread each, in turn.

    python3 tests/pytorch/compare_speed.py ./maxlogit [adam|muon] [rounds]

For developers; needed neither to build nor to test. h5py, numpy, torch (2.1 or later). OPENBLAS_NUM_THREADS=1 is set
here: more threads make Debian's torch slower. On a GPU: compare_gpu.py.
"""
import os
import statistics
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True

import torch  # noqa: E402
from stack import Trainer, drawn, run_maxlogit  # noqa: E402

STEPS = 40


def main():
    program, optimizer, rounds = sys.argv[1], (sys.argv[2:] or ["muon"])[0], int((sys.argv[3:] or ["5"])[0])
    torch.set_num_threads(1)
    ours, theirs, ratios = [], [], []
    for _ in range(rounds):
        f, names, seconds = run_maxlogit(program, "toy", optimizer, STEPS)
        loss = f.series["loss"]
        run = Trainer(f.p, drawn(f.p, names, 1), [b[0] for b in f.batches], "cpu")
        took = []
        for step in range(STEPS):
            began = time.perf_counter()
            run.step()
            took.append(time.perf_counter() - began)
            mine = float(run.losses[step])
            assert abs(mine - loss[step]) < 1e-3 * mine, f"step {step}: loss {mine}, maxlogit {loss[step]}"
        ours.append(min(seconds[5:]))
        theirs.append(min(took[5:]))
        ratios.append(theirs[-1] / ours[-1])
    print(f"{optimizer}, toy stack, one thread: maxlogit {1 / min(ours):.0f} steps/s, PyTorch {torch.__version__} "
          f"{1 / min(theirs):.0f} steps/s; ratio {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds); first loss {loss[0]:.6f}")


main()
