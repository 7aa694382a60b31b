"""Programs whose lines are of the form of `lines`, each with an example that is tested: name, contents, example, wanted."""

from maxlogit.importer.formats import other_lines
from maxlogit.importer.formats._format import Format

_ROWS: list[tuple[str, str, str, dict[str, dict[int, float]]]] = [
    (
        "nemo",
        "lines of NeMo; steps are its global_step",
        "Training epoch 0, iteration 9/9 | lr: 5.6e-06 | global_step: 9 | reduced_train_loss: 2.75 | "
        "train_step_timing in s: 0.189\n0: Training epoch 1, iteration 0/9 | lr: 5.8e-06 | global_step: 10 | "
        "reduced_train_loss: 2.5 | train_step_timing in s: 0.19 | val_loss: 2.875\n",
        {"loss": {9: 2.75, 10: 2.5}, "lr": {9: 5.6e-6, 10: 5.8e-6}, "val_loss": {10: 2.875}},
    ),
    (
        "modded-nanogpt",
        "lines of modded-nanogpt, `step:10/5100 train_loss:..`",
        "step:0/5100 val_loss:10.8258 train_time:0ms step_avg:nanms\nstep:1/5100 train_loss:10.8250 train_time:99ms\n",
        {"loss": {1: 10.825}, "val_loss": {0: 10.8258}},
    ),
    (
        "verl",
        "lines of verl and other trainers of its family, `step:1 - actor/entropy:0.5 - ..`",
        "(pid=99) step:1 - actor/entropy:0.5 - actor/grad_norm:np.float64(1.25) - val-core/gsm8k/acc/mean@1:0.75\n",
        {"actor/entropy": {1: 0.5}, "grad_norm": {1: 1.25}, "val-core/gsm8k/acc/mean_1": {1: 0.75}},
    ),
    (
        "maxtext",
        "lines of MaxText, `completed step: 10, .., loss: ..`",
        "completed step: 10, seconds: 1.500, TFLOP/s/device: 105.500, Tokens/s/device: 3679.500, total_weights: 99, "
        "loss: 9.500\neval metrics after step: 10, loss=9.750, total_weights=75264.0\n",
        {"loss": {10: 9.5}, "val_loss": {10: 9.75}, "seconds": {10: 1.5}},
    ),
    (
        "torchtitan",
        "lines of torchtitan, with or without colors. Where the lines of several ranks differ, the rank is part of the name",
        "[rank0]:2026-09-01 10:00:00,123 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.25000  \x1b[38;2;180;60;0m"
        "grad_norm:  1.5000  \x1b[36mmemory:  4.50GiB(5.50%)  "
        "\x1b[34mtps: 12,345  \x1b[35mmfu: 30.50%\x1b[39m\n"
        "[rank1]:2026-09-01 10:00:00,124 - root - INFO - step:  1  loss:  8.25000  grad_norm:  1.5000  "
        "memory:  4.75GiB(5.75%)  "
        "tps: 12,345  mfu: 30.50%\n"
        "[rank0]:2026-09-01 10:00:09,123 - root - INFO - validate step:  1  loss:  8.1250  "
        "memory:  4.50GiB(5.50%)  tps: 9,999\n",
        {
            "loss": {1: 8.25},
            "grad_norm": {1: 1.5},
            "val_loss": {1: 8.125},
            "tps": {1: 12345},
            "rank1/memory": {1: 4.75 * 2**30},
        },
    ),
    (
        "nanochat",
        "lines of nanochat, `step 00010/05000 (0.20%)` and values between bars",
        "Step 00000 | Validation bpb: 3.125\n"
        "step 00010/05000 (0.20%) | loss: 9.500000 | lrm: 1.00 | dt: 99.50ms | tok/sec: 12,345 | mfu: 50.50\n",
        {"loss": {10: 9.5}, "Validation_bpb": {0: 3.125}, "tok/sec": {10: 12345}},
    ),
    (
        "nanogpt",
        "lines of nanoGPT, `iter 10: loss .., time ..` and `step 250: train loss .., val loss ..`",
        "step 0: train loss 10.75, val loss 10.875\niter 0: loss 10.5000, time 99.00ms, mfu -100.00%\n",
        {"loss": {0: 10.5}, "train_loss": {0: 10.75}, "val_loss": {0: 10.875}},
    ),
]

FORMATS = [Format(*row, line=other_lines.line) for row in _ROWS]
