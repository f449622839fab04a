#!/usr/bin/env python3
"""Tunes a target together with MEDUSA heads (MEDUSA-2) or streams, by self-distillation.

The result is a new target. Its drafts are exact with respect to its own plain decoding, not to the original target's,
to which it stays close.  First the heads are trained alone, as by distill_answers.py; then the layers' matrices get
low-rank adapters (LoRA), which learn together with the heads.  The teacher is the same model without its adapters:

    loss = KL(teacher || tuned) + heads-weight * sin(pi / 2 * progress) * sum over heads k of 0.8^k * KL(teacher || head k)

over the tokens of answers that the target wrote.  Streams (--drafter multistream) have equal weights instead of 0.8^k.
At the end the adapters are merged into the matrices, and DIR/target and DIR/NAME are written as Hugging Face folders.
Embedding, head and norms stay the target's, since its head may be its embedding.

Source: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads" (Cai et al., 2024), sections
2.2.2 and 2.3.2.  The paper also has adapters on the LM head, dropout, and single tokens instead of the heads'
distributions.  Speculative Streaming's shared mode (Bhendawade et al., 2024) in the first version of its paper, where the
target's own stream does not see the others: streams run through the tuned attention and keep their adapters instead of
an MLP.

Example:
    python3 tune_medusa.py --target target --answers answers.jsonl --out medusa-2.pt --minutes 40 --hf tuned
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import shutil
import sys
from typing import Dict, Iterator, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
from torch import Tensor, nn
import torch.nn.functional as F

import distill
import loop
from arguments import out_folder
from checkpoint import amend_config, load_checkpoint, load_target, weight_files, write_safetensors
from data import Batches
from distill_answers import read_answers
from drafters import KINDS, Kind, kind_of
from model import Llama
from tasks import pick

HEADS_FIRST = 0.3  # share of the time in which only the heads learn


class Adapter(nn.Module):
    """A frozen linear map plus a trainable low-rank one: W x + alpha / rank * up (down x)."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float):
        super().__init__()
        self.base, self.scale, self.on = base, alpha / rank, True
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * base.in_features**-0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        y = self.base(x)
        return y + self.scale * F.linear(F.linear(x, self.down), self.up) if self.on else y


def matrices_of(target: Llama) -> Iterator[Tuple[nn.Module, str, nn.Module]]:
    """(owner, name, module) of every matrix of the layers, or of its adapter."""
    for layer in target.model.layers:
        for owner in (layer.self_attn, layer.mlp):
            for name, module in list(owner.named_children()):
                yield owner, name, module


def adapt(target: Llama, rank: int, alpha: float) -> List[Adapter]:
    """Replaces every matrix of the layers by an adapter; before training the output is unchanged."""
    adapters = []
    for owner, name, module in matrices_of(target):
        adapters.append(Adapter(module, rank, alpha))
        setattr(owner, name, adapters[-1])
    return adapters


@torch.no_grad()
def merge(target: Llama) -> None:
    """Merges the adapters into the matrices and removes them."""
    for owner, name, adapter in matrices_of(target):
        adapter.base.weight += adapter.scale * adapter.up @ adapter.down
        setattr(owner, name, adapter.base)


@contextlib.contextmanager
def without(adapters: List[Adapter]) -> Iterator[None]:
    """The target without its adapters."""
    for adapter in adapters:
        adapter.on = False
    yield
    for adapter in adapters:
        adapter.on = True


@contextlib.contextmanager
def as_teacher(adapters: List[Adapter]) -> Iterator[None]:
    """The target without its adapters, and without gradients."""
    with without(adapters), torch.no_grad():
        yield


def losses(
    target: Llama,
    adapters: List[Adapter],
    kind: Kind,
    heads: nn.Module,
    tokens: Tensor,
    labels: Tensor,
    tuning: bool,
):
    """(KL of the target, loss of the heads, equal argmax of the target and of every head) on tokens [B, T].

    Before ``tuning`` the heads read the teacher's features, streams run through its layers, and its KL is 0.
    """
    response, answered = distill.answer_rows(labels)
    index = answered.flatten().nonzero().squeeze(1)

    def rows(x: Tensor) -> Tensor:
        return x.flatten(0, 1)[index]

    with as_teacher(adapters):
        trace = target(tokens, head=False)
        wanted = target.head(rows(trace.feature)).float()
        probability, log_probability, best = (
            wanted.softmax(-1),
            wanted.log_softmax(-1),
            wanted.argmax(-1),
        )
        entropy = -(probability * log_probability).sum(-1).mean()

    def told(logits: Tensor) -> Tuple[Tensor, Tensor]:
        divergence = -(probability * logits.log_softmax(-1)).sum(-1).mean() - entropy
        return divergence, (logits.argmax(-1) == best).float().mean()

    own, equal = torch.zeros((), device=tokens.device), [torch.ones(())]
    if tuning:
        trace = target(tokens, head=False)
        own, equal[0] = told(target.head(rows(trace.feature)).float())
    ahead = torch.zeros((), device=tokens.device)
    unused = torch.zeros(len(tokens), device=tokens.device)
    with contextlib.nullcontext() if tuning else without(adapters):
        guesses = kind.training_forward(heads, target, tokens, trace, response, unused, unused)
    for guess in guesses:
        divergence, share = told(target.head(rows(guess.feature)).float())
        ahead = ahead + guess.weight * divergence
        equal.append(share)
    return own, ahead, equal


def weight_of_heads(progress: float, highest: float) -> float:
    """1 while only the heads learn, then rising from 0."""
    if progress < HEADS_FIRST:
        return 1.0
    return highest * math.sin(math.pi / 2 * min(1.0, (progress - HEADS_FIRST) / (1 - HEADS_FIRST)))


def write(
    folder: str, source: str, target: Llama, drafter: str, heads: nn.Module, clock: loop.Clock
) -> None:
    """The merged target, with all non-weight files of its original folder, and its heads in a folder ``drafter``."""
    merge(target)
    own = os.path.join(folder, "target")
    os.makedirs(own, exist_ok=True)
    weights = {os.path.basename(file) for file in weight_files(source)} | {
        "model.safetensors.index.json"
    }
    for name in sorted(set(os.listdir(source)) - weights):
        if os.path.isfile(os.path.join(source, name)):
            shutil.copyfile(os.path.join(source, name), os.path.join(own, name))
    write_safetensors(os.path.join(own, "model.safetensors"), target.state_dict())
    ahead = os.path.join(folder, drafter)
    kind_of(drafter).write(ahead, heads)
    amend_config(ahead, edgedraft_training=clock.record(1))
    print(f"wrote {own} and {ahead}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    loop.add_options(
        parser, minutes=30, muon_lr=0.01, adam_lr=5e-4, decay=0.4, adam_learns="adapters and biases"
    )
    add = parser.add_argument
    add("--target", metavar="FOLDER", required=True, help="Hugging Face folder (Llama or Qwen2)")
    add("--answers", metavar="FILE", required=True, help="JSON lines of answer_prompts.py")
    add("--shortest", type=int, default=2, help="skip answers of fewer token ids (default 2)")
    add(
        "--drafter",
        choices=[kind.default_name for kind in KINDS if kind.tunes_target],
        default="medusa",
        help="what to tune the target with (default medusa)",
    )
    add("--rank", type=int, default=32, help="rank of the adapters (default 32, as published)")
    add(
        "--alpha", type=float, default=16.0, help="alpha of the adapters (default 16, as published)"
    )
    add(
        "--heads-weight",
        type=float,
        default=0.2,
        help="final weight of the heads' loss (default 0.2)",
    )
    add(
        "--hf",
        type=out_folder,
        metavar="DIR",
        required=True,
        help="output folder for the Hugging Face folders",
    )
    options = parser.parse_args()
    loop.check_options(options)
    if options.rank < 1:
        parser.error("--rank must be 1 or more")
    if not os.path.isdir(options.target):
        parser.error(f"--target {options.target} is not a folder")
    if os.path.exists(os.path.join(options.hf, "target")) and os.path.samefile(
        os.path.join(options.hf, "target"), options.target
    ):
        parser.error("--hf would replace --target")
    return options


def main() -> None:
    options = parse()
    target = load_target(options.target).requires_grad_(False)
    training, held = read_answers(
        options.answers, target.config.vocab_size, options.longest, options.shortest
    )
    torch.manual_seed(options.seed)
    kind, heads = kind_of(options.drafter), distill.make_drafter(options.drafter, target, 1.0)
    adapters = adapt(target, options.rank, options.alpha)
    tuned = [
        (f"adapter.{i}.{name}", p)
        for i, adapter in enumerate(adapters)
        for name, p in (("down", adapter.down), ("up", adapter.up))
    ]
    clock = loop.Clock()
    if os.path.exists(options.out):
        saved = load_checkpoint(options.out, "adapters")
        # older checkpoints lack the last two
        drafter, alpha = saved.get("drafter", "medusa"), saved.get("alpha", options.alpha)
        rank = saved["rank"]
        if drafter != options.drafter:
            sys.exit(
                f"error: {options.out} was started with --drafter {drafter}; give this or another --out"
            )
        if (rank, alpha) != (options.rank, options.alpha):
            sys.exit(
                f"error: {options.out} was started with --rank {rank} --alpha {alpha:g}; give these or another --out"
            )
        for name, parameter in tuned:
            parameter.data.copy_(saved["adapters"][name])
        heads.load_state_dict(saved["heads"])
        clock = loop.Clock.continued(saved, options)
    target.to(options.device)
    heads.to(options.device)
    print(
        f"{sum(p.numel() for _, p in tuned)} parameters of adapters, {sum(p.numel() for p in heads.parameters())} of {options.drafter}; "
        f"{len(training)}+{sum(map(len, held.values()))} answers (training+held out)",
        flush=True,
    )

    def compute(batch, rank: int) -> Dict[str, Tensor]:
        tokens, labels = (x.to(options.device) for x in batch)
        with loop.precision(options):
            own, ahead, _ = losses(
                target,
                adapters,
                kind,
                heads,
                tokens,
                labels,
                clock.progress(options) >= HEADS_FIRST,
            )
        return {
            "target": own,
            "heads": weight_of_heads(clock.progress(options), options.heads_weight) * ahead,
        }

    def check() -> str:
        def told(tokens: Tensor, labels: Tensor) -> List[float]:
            own, _, equal = losses(
                target,
                adapters,
                kind,
                heads,
                tokens.to(options.device),
                labels.to(options.device),
                True,
            )
            return [float(own), *map(float, equal)]

        with torch.no_grad():
            sums = distill.held_out_means(held.values(), options.tokens, told)
        return f"target KL {sums[0]:.4f} top-1 {100 * sums[1]:.2f}%, heads top-1 {' '.join(f'{100 * share:.1f}%' for share in sums[2:])}"

    def trained() -> dict:
        return {
            "adapters": {name: p.detach() for name, p in tuned},
            "heads": heads.state_dict(),
            "drafter": options.drafter,
            "rank": options.rank,
            "alpha": options.alpha,
        }

    def draw(rng: random.Random):
        return pick(rng, training)

    loop.fit(
        options,
        {"target": tuned, "heads": list(heads.named_parameters())},
        compute,
        lambda rank: distill.trainable_batches(
            Batches(draw, options.seed + 1000 * rank, options.tokens, options.longest)
        ),
        check,
        trained,
        clock,
    )
    if parallel.rank() == 0:
        write(options.hf, options.target, target, options.drafter, heads, clock)


if __name__ == "__main__":
    main()
