#!/usr/bin/env python3
"""PyTorch on a GPU: run-steps a second of maxlogit's stacks, to be held against `maxlogit bench device=cuda`.

    python3 tests/pytorch/compare_gpu.py [--maxlogit=./maxlogit] [--device=cuda|cpu] [--stacks=toy,small,large]
        [--optimizers=muon,adam] [--runs=1,64,256] [--ways=eager,graph,compiled] [--seconds=2] [--limit=60] [--check]

One run: eager; in a CUDA graph; compiled, in a CUDA graph. R runs: a step of all of them by torch.func.vmap, the same
three ways. Every way keeps each step's loss and every head's max logit on the device, but for stack large: bf16, and
PyTorch's own attention, which tells no maxima. First the same weights and batches must give maxlogit's losses and max
logits, and batched runs those of single ones (--check: only this). Needed neither to build nor to test. h5py, numpy,
torch 2.1 or later; exit status 77 where there is none with CUDA.
"""
import argparse
import signal
import sys
import time

sys.dont_write_bytecode = True
try:
    import h5py  # noqa: F401
    import torch
    from stack import Trainer, drawn, like_drawn, options, run_maxlogit
except ImportError as missing:
    print(f"no PyTorch with CUDA: skipped ({missing})")
    sys.exit(77)

CHECKED, POOL = 12, 8  # steps


def stacked(all_weights):
    return {n: torch.stack([w[n] for w in all_weights]) for n in all_weights[0]}


def worst(mine, other):
    return float(((mine - other).abs() / other.abs().clamp(min=1)).max())


def check(program, stack, optimizer, device):
    """maxlogit's numbers, then those of runs together against those of each alone."""
    f, names, _ = run_maxlogit(program, stack, optimizer, CHECKED)
    tokens = [b[0] for b in f.batches]
    alone = []
    for seed in (1, 2, 3):
        one = Trainer(f.p, drawn(f.p, names, seed), tokens, device)
        for _ in range(CHECKED):
            one.step()
        alone.append(one)
    off = max(worst(alone[0].losses[:CHECKED].cpu(), torch.tensor(f.series["loss"]).float()),
              worst(alone[0].maxima[:CHECKED].cpu(), torch.tensor(f.series["attn/max_logit"]).float()))
    many = Trainer(f.p, stacked([drawn(f.p, names, s) for s in (1, 2, 3)]), [[t] * 3 for t in tokens], device)
    for _ in range(CHECKED):
        many.step()
    apart = max(max(worst(many.losses[:CHECKED, r], a.losses[:CHECKED]), worst(many.maxima[:CHECKED, r], a.maxima[:CHECKED]))
                for r, a in enumerate(alone))
    print(f"{stack} {optimizer}: {CHECKED} steps, losses and max logits: from maxlogit's at most {off:.1e}, batched from "
          f"single {apart:.1e}", flush=True)
    return off < 1e-2 and apart < 1e-2


def captured(step):
    """`step` as a CUDA graph, after a few steps aside that wake libraries."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def steps_a_second(step, device, seconds):
    def finish():
        if device == "cuda":
            torch.cuda.synchronize()
    best = 0.0
    for _ in range(3):  # warm, then two to choose from
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds / 3:
            for _ in range(4):
                step()
            finish()
            count += 4
        best = max(best, count / (time.perf_counter() - began))
    return best


def timed(way, trainer, seconds):
    step = trainer.step
    if way == "compiled":
        torch._dynamo.reset()
        step = torch.compile(lambda: trainer.step(True))
    if way in ("graph", "compiled") and trainer.device == "cuda":
        step = captured(step)
    rate = steps_a_second(step, trainer.device, seconds)
    if not trainer.losses[: int(trainer.at)].isfinite().all():
        raise ArithmeticError("a loss is not finite")
    return rate


def out_of_time(*_):
    raise TimeoutError("out of time")


def table(a, optimizer, stack):
    p, names = options(a.maxlogit, stack, optimizer)
    large = stack == "large"
    B, T, V = (int(p[k]) for k in ("train.batch", "model.context", "model.vocab"))
    for runs in a.runs if not large else a.runs[:1]:
        pool = torch.randint(V, (POOL,) + ((runs,) if runs > 1 else ()) + (B, T + 1))
        for way in a.ways:
            signal.alarm(a.limit)
            try:
                w = [like_drawn(p, names, s + 1, a.device) for s in range(runs)]
                w = stacked(w) if runs > 1 else w[0]
                trainer = Trainer(p, w, pool, a.device, maxima=not large, bf16=large)
                rate = f"{runs * timed(way, trainer, a.seconds):12.1f}"
            except Exception as e:  # out of memory or time, or something that this PyTorch cannot compile
                rate = f"{'failed':>12} {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:100]
            signal.alarm(0)
            w = trainer = None
            if a.device == "cuda":
                torch.cuda.empty_cache()
            print(f"{stack:<7} {optimizer:<5} {way:<9} {runs:5d} {rate}", flush=True)


def attention(device, B, T, H, seconds):
    """PyTorch's own causal kernels by themselves, the best of them, as `bench device=cuda --costs` tells maxlogit's."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for D in (64, 128):
        for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            q, k, v, do = (torch.randn(B, H, T, D, device=device, dtype=dtype) for _ in range(4))
            leaves = [x.requires_grad_() for x in (q, k, v)]
            best = [0.0, 0.0]
            for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"):
                def forward():
                    with torch.no_grad():
                        sdpa(q, k, v, is_causal=True)

                def backward():
                    torch.autograd.grad(o, leaves, do, retain_graph=True)
                try:
                    with sdpa_kernel(getattr(SDPBackend, backend)):
                        o = sdpa(q, k, v, is_causal=True)
                        rates = [steps_a_second(f, device, seconds) for f in (forward, backward)]
                except (AttributeError, RuntimeError):  # not in this PyTorch, or not for these numbers
                    continue
                best = [max(pair) for pair in zip(best, rates)]
            flops = 4 * B * H * D * T * (T + 1) / 2  # the reverse counts as twice this
            print(f"attention alone: {B} x {T} tokens, {H} heads of {D:<4} {name}: forward {flops * best[0] * 1e-12:.2f}, "
                  f"backward {2 * flops * best[1] * 1e-12:.2f} TFLOP/s", flush=True)


def main():
    def names(text):
        return text.split(",")
    def numbers(text):
        return [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser()
    parser.add_argument("--maxlogit", default="./maxlogit")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--stacks", type=names, default=["toy", "small", "large"])
    parser.add_argument("--optimizers", type=names, default=["muon", "adam"])
    parser.add_argument("--ways", type=names, default=["eager", "graph", "compiled"])
    parser.add_argument("--runs", type=numbers, default=[1, 64, 256])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        print(f"no PyTorch with CUDA: skipped (PyTorch {torch.__version__} finds no GPU)")
        return 77
    signal.signal(signal.SIGALRM, out_of_time)
    where = torch.cuda.get_device_name() if a.device == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__} on {where}, fp32 (large: bf16)")
    for optimizer in a.optimizers:
        if not check(a.maxlogit, "tiny" if a.device == "cpu" else "toy", optimizer, a.device):
            print("its numbers are others: nothing is timed")
            return 1
    if a.check:
        return 0
    if a.device == "cuda" and "eager" in a.ways and 1 in a.runs:
        attention("cuda", 4, 4096, 16, a.seconds / 4)
    print(f"{'stack':<7} {'':<5} {'way':<9} {'runs':>5} {'run-steps/s':>12}")
    for stack in a.stacks:
        for optimizer in a.optimizers:
            table(a, optimizer, stack)
    return 0


sys.exit(main())
