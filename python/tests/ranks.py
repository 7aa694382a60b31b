"""Ranks of one test: processes at once, forked from one that has imported PyTorch, whose import takes seconds each."""

import multiprocessing
import tempfile
import time

import torch

WAIT = 600  # seconds


def as_rank(work, meet, rank, ranks, *args):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=ranks)
    work(rank, ranks, *args)
    torch.distributed.destroy_process_group()


def run_as_ranks(test, ranks, work, *args, wait=WAIT):
    """work(rank, ranks, ...), of a module's own, in that many processes that have met; what one raises it prints itself.
    wait: seconds until those that still run have failed."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([work.__module__, "torch.distributed.fsdp", "torch.distributed.tensor.parallel"])
    with tempfile.TemporaryDirectory() as folder:
        of = [(work, folder + "/meet", rank, ranks, *args) for rank in range(ranks)]
        children = [server.Process(target=as_rank, args=its) for its in of]
        for child in children:
            child.start()
            test.addCleanup(child.kill)
        end = time.monotonic() + wait
        for child in children:
            child.join(max(0, end - time.monotonic()))
        test.assertEqual([child.exitcode for child in children], [0] * ranks)
