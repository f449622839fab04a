"""The training loop that train_target.py and distill.py share.

It plans by the clock or by steps and works with one or several data-parallel workers (parallel.py).
It prints one log line per interval, periodically checks held-out text, and saves checkpoints for
continuing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Callable, Dict, Iterable, List, Optional, Tuple

import torch
from torch import Tensor

from arguments import count, out_file
from checkpoint import read_pickle
import parallel
from optim import Optimiser, schedule
from progress import Progress

Batch = Tuple[Tensor, Tensor]  # tokens and labels of data.collate
Named = List[Tuple[str, Tensor]]


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The options of the programs that draw their conversations from data.py."""
    add = parser.add_argument
    add(
        "--data",
        metavar="DIR",
        help="folder of the text data sets (listed in data.py); without it only generated tasks",
    )
    add("--tokenizer", metavar="FILE", required=True, help="tokenizer.model from tokenizer.py")


def add_options(
    parser: argparse.ArgumentParser,
    minutes: float,
    muon_lr: float,
    adam_lr: float,
    decay: float,
    residual_lr: Optional[float] = None,
    adam_learns: str = "norms and biases",
    embedding: bool = False,
) -> None:
    """The options of every training program.

    residual_lr     None if nothing that writes to the residual stream is trained
    adam_learns     parameters with the rate --adam-lr
    embedding       whether an embedding is trained
    """
    add = parser.add_argument
    add(
        "--out",
        type=out_file,
        metavar="FILE",
        required=True,
        help="checkpoint to write; an existing one is continued",
    )
    add("--minutes", type=float, default=minutes, help=f"training time (default {minutes:g})")
    add(
        "--steps",
        type=int,
        metavar="N",
        help="train for N steps instead of --minutes; runs with the same --seed then see the same batches on any machine",
    )
    add(
        "--workers",
        type=int,
        default=1,
        help="data-parallel processes on the CPU; more than one have one thread each (default 1)",
    )
    add(
        "--threads", type=count, default=2, help="threads of a single worker on the CPU (default 2)"
    )
    add("--device", default="cpu", help="cpu or cuda (default cpu)")
    add(
        "--tokens",
        type=int,
        default=1920,
        help="padded token ids per worker and step, preferably with many divisors (default 1920)",
    )
    add("--longest", type=int, default=600, help="maximum conversation in token ids (default 600)")
    add(
        "--bf16",
        action="store_true",
        help="matmuls in bfloat16: faster on a GPU or a CPU with AMX or AVX-512 BF16, slower on others",
    )
    add("--seed", type=int, default=1, help="seed of weights, batches and masks (default 1)")
    add(
        "--muon-lr",
        type=float,
        default=muon_lr,
        help=f"learning rate of the matrices (default {muon_lr:g})",
    )
    add(
        "--adam-lr",
        type=float,
        default=adam_lr,
        help=f"learning rate of {adam_learns} (default {adam_lr:g})",
    )
    parser.set_defaults(embedding_lr=0.006, residual_lr=1.0)
    if embedding:
        add(
            "--embedding-lr",
            type=float,
            help="learning rate of the embedding, whose values are about 1 (default 0.006)",
        )
    if residual_lr is not None:
        add(
            "--residual-lr",
            type=float,
            default=residual_lr,
            help=f"factor for the matrices that write to the residual stream, see optim.py (default {residual_lr:g})",
        )
    add("--warmup", type=int, default=60, help="warm-up steps (default 60)")
    add(
        "--decay",
        type=float,
        default=decay,
        help=f"final share of the training in which the learning rate falls to 0 (default {decay:g})",
    )
    add("--log-every", type=float, default=20, help="seconds between log lines (default 20)")
    add(
        "--evaluate-every",
        type=float,
        default=300,
        help="seconds between held-out checks (default 300)",
    )
    add("--save-every", type=float, default=180, help="seconds between checkpoints (default 180)")


def has_reference_blas() -> bool:
    """Whether PyTorch computes 32-bit products with Debian's reference BLAS, which is many times slower than OpenBLAS."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            return any("/blas/libblas.so" in line for line in file)
    except OSError:
        return False


def check_options(options: argparse.Namespace) -> None:
    if options.workers < 1:
        sys.exit("error: --workers must be 1 or more")
    if options.workers > 1 and (options.device != "cpu" or parallel.launched()):
        sys.exit(
            "error: --workers needs the CPU, without torchrun; on a GPU increase --tokens, on several GPUs use torchrun"
        )
    if not options.minutes > 0:  # also rejects nan
        sys.exit("error: --minutes must be above 0")
    if options.steps is not None and options.steps <= 0:
        sys.exit("error: --steps must be above 0")
    if not 0 < options.decay <= 1:
        sys.exit("error: --decay must be above 0 and at most 1")
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("error: --device: PyTorch finds no CUDA device")
    if options.device == "cpu" and has_reference_blas():
        print(
            "note: 32-bit matmuls, as in held-out checks, are slow on this machine; apt-get install libopenblas0-pthread",
            file=sys.stderr,
        )
    if parallel.launched():
        options.device, options.workers = parallel.join(options.device)


def precision(options: argparse.Namespace) -> torch.autocast:
    """The context of a forward pass: matmuls in the chosen precision, weights and sums in 32 bits."""
    return torch.autocast(
        torch.device(options.device).type, dtype=torch.bfloat16, enabled=options.bf16
    )


def to_device(tensors: Iterable[Tensor], device: torch.device) -> List[Tensor]:
    """CPU tensors on ``device``, without waiting for pending GPU work."""
    if device.type != "cuda":
        return [tensor.to(device) for tensor in tensors]
    return [tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors]


class Clock:
    """Progress of a run; filled from a checkpoint to continue it."""

    def __init__(self, step: int = 0, elapsed: float = 0.0, tokens: int = 0):
        self.step, self.elapsed, self.tokens = step, elapsed, tokens

    @classmethod
    def of(cls, saved: dict) -> "Clock":
        """Restores it from a checkpoint."""
        return cls(saved["step"], saved["elapsed"], saved["tokens"])

    @classmethod
    def continued(cls, saved: dict, options: argparse.Namespace) -> "Clock":
        """The clock of the checkpoint --out.  Refuses another --seed, with which the run would silently continue with
        other batches."""
        if saved.get("seed", options.seed) != options.seed:
            sys.exit(
                f"error: {options.out} was started with --seed {saved['seed']}; give that seed or another --out"
            )
        return cls.of(saved)

    def record(self, drafters: int) -> dict:
        """The value that edgedraft convert reads as ``edgedraft_training`` in a drafter's config.json, for this many
        trained side by side."""
        return {
            "steps": self.step,
            "tokens": self.tokens,
            "minutes": round(self.elapsed / 60, 1),
            "drafters": drafters,
        }

    def progress(self, options: argparse.Namespace) -> float:
        """The share of the training that is done; 1 or more at its end."""
        return self.step / options.steps if options.steps else self.elapsed / (60 * options.minutes)


def load_averages(optimiser: Optimiser, path: str, options: argparse.Namespace, step: int) -> None:
    """Restores the optimiser's averages from ``path``, which must match the checkpoint of that step."""
    again = f"remove {path} to restart its averages"
    try:
        saved = read_pickle(path, options.device)
        found, parts = (
            (saved["step"], saved["parts"]) if isinstance(saved, dict) else (step, saved)
        )  # older files lack the step
        optimiser.load_state_dict(parts)
    except Exception as error:  # unpickling a damaged file can raise anything
        sys.exit(
            f"error: {path} has another number of --workers or is damaged ({error!r}); {again}"
        )
    if found != step:
        sys.exit(
            f"error: {path} is from step {found}, but {options.out} from step {step}: a run ended between writing the two; {again}"
        )


def fit(
    options: argparse.Namespace,
    groups: Dict[str, Named],
    compute: Callable[[Batch, int], Dict[str, Tensor]],
    batches: Callable[[int], Iterable[Batch]],
    check: Callable[[], str],
    trained: Callable[[], dict],
    clock: Clock,
) -> None:
    """Trains until --minutes have passed, or for --steps; writes the checkpoint --out periodically and at the end.

    groups          models trained side by side; each has its own gradient norm, clipped at 1
    compute         (batch, rank) -> loss of every group
    batches         rank -> endless batches, the same ones each time
    check           a line on held-out text;  trained gives the checkpoint's content besides the clock (both run in worker 0)
    """
    parameters = [p for named in groups.values() for _, p in named]
    names = [name for named in groups.values() for name, _ in named]
    group_of = [index for index, named in enumerate(groups.values()) for _ in named]
    shared = (
        parallel.LaunchedGroup(parameters, len(groups))
        if parallel.launched()
        else parallel.Group(options.workers, parameters, len(groups))
    )
    resumed = clock.step > 0
    if resumed and clock.progress(options) >= 1:
        print(f"{options.out} already has its {clock.step} steps", flush=True)
        return

    def worker(rank: int) -> None:
        torch.set_num_threads(
            1 if options.workers > 1 and not parallel.launched() else options.threads
        )
        owned = shared.owned(rank)
        optimiser = Optimiser(
            [(names[i], parameters[i]) for i in owned],
            options.muon_lr,
            options.adam_lr,
            options.embedding_lr,
            options.residual_lr,
            options.bf16,
        )
        keeper = 0 if parallel.launched() else rank  # owner of this process's optimiser state
        state_path = f"{options.out}.optimiser{keeper}"
        if resumed and os.path.exists(state_path):
            load_averages(optimiser, state_path, options, clock.step)
        bar = Progress(1, rank == 0)
        stream = iter(batches(rank))
        for _ in range(clock.step):  # a continued run skips the batches it has seen
            next(stream)
        last_log = last_check = last_save = time.time()
        start = last_log - clock.elapsed  # checks do not count as training time
        losses, tokens, steps = [0.0] * len(groups), 0, 0
        while True:
            batch = next(stream)
            for parameter in parameters:
                parameter.grad = None
            result = compute(batch, rank)
            sum(result.values()).backward()
            now = time.time()
            mine = shared.numbers[rank]
            mine[0] = batch[0].numel()
            if rank == 0:  # one clock for all workers
                reached = Clock(clock.step + 1, now - start).progress(options)
                mine[1], mine[2], mine[3] = (
                    reached,
                    float(now - last_save > options.save_every),
                    now - start,
                )
            norms = shared.average_gradients(rank, owned, group_of, list(result.values()))
            numbers = shared.numbers.cpu()
            _, progress, save_now, elapsed = numbers[0, :4].tolist()
            seen = int(numbers[:, 0].sum())
            clock.tokens += seen
            tokens, steps = tokens + seen, steps + 1
            losses = [total + loss for total, loss in zip(losses, numbers[:, 4:].mean(0).tolist())]
            for group, norm in enumerate(norms):
                gradients = [
                    parameters[i].grad
                    for i in owned
                    if group_of[i] == group and parameters[i].grad is not None
                ]
                if norm > 1.0 and gradients:
                    torch._foreach_mul_(gradients, 1.0 / norm)
            optimiser.step(schedule(clock.step, progress, options.warmup, options.decay))
            shared.wait()
            clock.step += 1
            clock.elapsed = elapsed
            if rank == 0:
                bar.update(progress)
                if now - last_log > options.log_every:
                    shown = "  ".join(
                        f"{name} {loss / steps:.4f}" for name, loss in zip(groups, losses)
                    )
                    bar.line(
                        f"{clock.elapsed / 60:6.1f} min  step {clock.step:5d}  loss {shown}  {clock.tokens / 1e6:.2f} Mtok  "
                        f"{tokens / (now - last_log):.0f} tok/s"
                    )
                    losses, tokens, steps, last_log = [0.0] * len(groups), 0, 0, now
                if now - last_check > options.evaluate_every or progress >= 1:
                    before = time.time()
                    bar.line("held out  " + check())
                    last_check = time.time()
                    start += last_check - before
                    last_log += last_check - before
            if save_now or progress >= 1:
                # All files are complete before the first replaces its predecessor, so a full disk leaves a matching
                # set.
                files = []
                if rank == keeper:
                    files.append(state_path)
                    torch.save(
                        {"step": clock.step, "parts": optimiser.state_dict()}, state_path + ".new"
                    )
                if rank == 0:
                    files.append(options.out)
                    torch.save(
                        {
                            **trained(),
                            "step": clock.step,
                            "elapsed": clock.elapsed,
                            "tokens": clock.tokens,
                            "seed": options.seed,
                        },
                        options.out + ".new",
                    )
                shared.wait()
                for file in files:
                    os.replace(file + ".new", file)
                last_save = time.time()
            if progress >= 1:
                return

    parallel.run(worker, options.workers)
    print(f"wrote {options.out}")
