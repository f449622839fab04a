"""Data-parallel training: on the CPUs of one machine without a launcher, on several GPUs or machines under torchrun.

Without a launcher every worker process has its own batches; parameters and gradients are in shared memory.  A step is
    all workers:  forward, backward, copy the gradient to its own shared buffer
    barrier
    each worker:  add up the gradients of the parameters it owns, update those parameters in place
    barrier
so the optimiser's work is split too.  With one worker it is plain training.  Under torchrun every process has its own
parameters, gradients are averaged over the network, and each process does all updates, with equal results.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from multiprocessing import connection
from typing import Callable, List, Optional, Tuple

import torch
from torch import Tensor
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing


class Group:
    """State shared by the workers."""

    def __init__(self, world: int, parameters: List[Tensor], groups: int = 1):
        self.world = world
        self.groups = groups
        self.parameters = parameters
        self.barrier = multiprocessing.Barrier(world) if world > 1 else None
        self.buffers: List[List[Tensor]] = []
        if world > 1:
            for parameter in parameters:
                parameter.data.share_memory_()
            self.buffers = [
                [torch.zeros_like(p.data).share_memory_() for p in parameters] for _ in range(world)
            ]
        self.numbers = torch.zeros(
            world, 4 + groups, dtype=torch.float64
        ).share_memory_()  # statistics of the loop
        self.squares = torch.zeros(
            world, groups, dtype=torch.float64
        ).share_memory_()  # gradient norms

    def owned(self, rank: int) -> List[int]:
        """Indices of the parameters that worker ``rank`` updates; the work is spread by size."""
        load, result = [0] * self.world, [[] for _ in range(self.world)]
        for index in sorted(range(len(self.parameters)), key=lambda i: -self.parameters[i].numel()):
            least = load.index(min(load))
            cost = self.parameters[index].numel()
            load[least] += (
                cost if cost < 500000 else cost // 8
            )  # the embedding is large but has a cheap update
            result[least].append(index)
        return result[rank]

    def wait(self) -> None:
        if self.barrier is not None:
            self.barrier.wait()

    def average_gradients(
        self, rank: int, owned: List[int], group_of: List[int], losses: List[Tensor]
    ) -> List[float]:
        """Leaves the mean gradient in ``.grad`` of the owned parameters; returns the gradient norm of every group.

        The loss of every group goes to the end of ``numbers``.
        """
        if self.world > 1:
            for buffer, parameter in zip(self.buffers[rank], self.parameters):
                if parameter.grad is None:
                    buffer.zero_()
                else:
                    buffer.copy_(parameter.grad)
            self.wait()
        for index in owned:
            if self.world > 1:
                mean = self.buffers[0][index].clone()
                for other in range(1, self.world):
                    mean.add_(self.buffers[other][index])
                self.parameters[index].grad = mean.div_(self.world)
        gradients = [self.parameters[index].grad for index in owned]
        self.numbers[rank, 4:], self.squares[rank] = losses_and_squares(
            losses, gradients, [group_of[index] for index in owned]
        )
        self.wait()
        return self.squares.sum(0).sqrt().tolist()


class LaunchedGroup:
    """The processes of torchrun as a group, with the interface of Group."""

    def __init__(self, parameters: List[Tensor], groups: int = 1):
        self.groups, self.parameters = groups, parameters
        self.numbers = torch.zeros(
            distributed.get_world_size(),
            4 + groups,
            dtype=torch.float64,
            device=parameters[0].device,
        )
        for parameter in parameters:
            distributed.broadcast(parameter.data, 0)

    def owned(self, rank: int) -> List[int]:
        return list(range(len(self.parameters)))

    def wait(self) -> None:
        distributed.barrier()

    def average_gradients(
        self, rank: int, owned: List[int], group_of: List[int], losses: List[Tensor]
    ) -> List[float]:
        """Like Group's; also sends every process the others' numbers."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)
        gradients = [parameter.grad for parameter in self.parameters]
        torch._foreach_div_(gradients, len(self.numbers))
        self.numbers[rank, 4:], squares = losses_and_squares(losses, gradients, group_of)
        distributed.all_gather(list(self.numbers), self.numbers[rank].clone())
        return squares.sqrt().tolist()


def losses_and_squares(
    losses: List[Tensor], gradients: List[Optional[Tensor]], group_of: List[int]
) -> Tuple[Tensor, Tensor]:
    """On the CPU, the loss and the squared gradient norm of every group; waits for a GPU only once."""
    present = [
        (gradient, group) for gradient, group in zip(gradients, group_of) if gradient is not None
    ]
    norms = torch._foreach_norm([gradient for gradient, _ in present]) if present else []
    numbers = torch.stack([loss.detach() for loss in losses] + list(norms)).to("cpu", torch.float64)
    squares = torch.zeros(len(losses), dtype=torch.float64)
    squares.index_add_(
        0,
        torch.tensor([group for _, group in present], dtype=torch.long),
        numbers[len(losses) :].square(),
    )
    return numbers[: len(losses)], squares


def launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    return int(os.environ["RANK"]) if launched() else 0


def join(device: str) -> Tuple[str, int]:
    """Under torchrun: joins the other processes; returns this one's device, such as "cuda:1", and their number.

    Only the first process prints from here on.
    """
    cuda = device.startswith("cuda")
    distributed.init_process_group("nccl" if cuda else "gloo")
    if rank() > 0:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    return device, distributed.get_world_size()


def run(worker: Callable[[int], None], world: int) -> None:
    """Calls ``worker(rank)`` in ``world`` processes and waits; without torchrun rank 0 is this process."""
    if world == 1 or launched():
        worker(rank())
        return
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=run_below, args=(worker, rank), daemon=True)
        for rank in range(1, world)
    ]
    for child in children:
        child.start()
    watch = threading.Thread(target=join_all, args=(children,), daemon=True)
    watch.start()
    worker(0)
    watch.join()


def run_below(worker: Callable[[int], None], rank: int) -> None:
    """``worker(rank)`` in a process that ends with its parent, which cannot end its children if it is killed."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    worker(rank)


def end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def join_all(children: List[multiprocessing.Process]) -> None:
    """Ends the program if a worker failed or was killed; the others would wait for it forever."""
    running = {child.sentinel: child for child in children}
    while running:
        for sentinel in connection.wait(list(running)):
            child = running.pop(sentinel)
            child.join()
            if child.exitcode != 0:
                print(
                    f"error: a worker exited with status {child.exitcode}; run again to continue the checkpoint",
                    file=sys.stderr,
                    flush=True,
                )
                for other in children:
                    other.kill()
                os._exit(1)


def environment() -> None:
    """Settings that make PyTorch fast on few cores; call before the first import of torch.

    Two thread pools (OpenMP and OpenBLAS) must not wait for each other in busy loops; with several workers each
    has one thread of both.  Freed memory is kept instead of being returned to the system after every operation.
    The libraries read these variables at program start, so the program restarts itself.  Variables that are already set
    take precedence.
    """
    wanted = {
        "OMP_WAIT_POLICY": "passive",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "10000000000",
        "MALLOC_TOP_PAD_": "268435456",
    }
    arguments = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    arguments.add_argument("--workers", nargs="?")  # the program's own parser reports non-numbers
    workers = arguments.parse_known_args()[0].workers or ""
    if workers.isdigit() and int(workers) > 1:
        wanted.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    if sys.platform == "linux" and "MALLOC_MMAP_MAX_" not in os.environ:
        os.environ.update({name: value for name, value in wanted.items() if name not in os.environ})
        os.execv(sys.executable, [sys.executable] + sys.argv)
