#!/usr/bin/env python3
"""Trains drafters for a frozen target by distillation.

Several drafters train side by side on the same batches, so the target runs once for all of them. They get the same
data in the same order and the same number of updates, which makes them comparable.  All share the target's frozen
embedding, LM head and final norm.  MLP widths are chosen so that each drafter's trainable part has at most --share of
the target's parameters.

loss = kl * KL(target || drafter) + feature * SmoothL1 of the features, over the answer's tokens.  A drafter that runs
layers of the target splits the feature term equally between the residual stream before them and the final feature.
HASS sums its passes, each with top-k * (cross entropy over the target's likeliest tokens); MEDUSA sums its heads,
without a feature term.  A drafter with a memory sees it with a period e in --period; the paper draws 5..15 for long
answers, ours are short.

Example:
    python3 distill.py --data text --tokenizer out/tokenizer.model --target out/target.pt \\
        --drafters moa-tli0 moa-tli1 independent --out out/drafters.pt --minutes 30 --workers 2
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import os
import random
import sys
from typing import Callable, Dict, Iterable, Iterator, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
from torch import Tensor, nn
import torch.nn.functional as F

import loop
from checkpoint import load_checkpoint, load_target
from data import Batches, IGNORE, Row, Source, batches_of, encode_conversation, random_conversation
from drafters import DEFAULT_NAMES, described, kind_of
from model import Llama
from tasks import Example
from tokenizer import Tokenizer
from traces import Traces


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="drafters:\n" + described(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    loop.add_data_options(parser)
    add_options(parser)
    add = parser.add_argument
    add("--target", metavar="FILE", required=True, help="checkpoint of train_target.py")
    add(
        "--own-answers",
        metavar="FILE",
        help="JSON lines of generate.py: answers of the target, to replace most references",
    )
    options = parser.parse_args()
    check_options(options)
    return options


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every distilling program, except the source of the target and its conversations."""
    loop.add_options(parser, minutes=30, muon_lr=0.01, adam_lr=2e-3, decay=0.4, residual_lr=0.4)
    add = parser.add_argument
    add(
        "--drafters",
        nargs="+",
        default=DEFAULT_NAMES,
        metavar="NAME",
        help=f"see below (default {' '.join(DEFAULT_NAMES)})",
    )
    add(
        "--share",
        type=float,
        default=0.15,
        help="trainable parameters relative to the target's (default 0.15)",
    )
    add(
        "--kl",
        type=float,
        metavar="W",
        help="weight of the KL term (default 1, unless listed below; paper: 0.1)",
    )
    add(
        "--feature",
        type=float,
        metavar="W",
        help="weight of the feature term (default 0.1, unless listed below; paper: 1)",
    )
    add(
        "--top-k-loss",
        type=float,
        default=1.0,
        metavar="W",
        help="weight of HASS's top-token term (default 1)",
    )
    add(
        "--top-k-from",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the training after which HASS uses that term (default 0; published: 0.8)",
    )
    add(
        "--period",
        type=int,
        nargs=2,
        default=(2, 8),
        metavar=("LOW", "HIGH"),
        help="range of the period e (default 2 8)",
    )
    add(
        "--keep",
        type=float,
        default=0.0,
        metavar="GB",
        help="memory per worker for cached target outputs, so that the target runs once per conversation that fits "
        "instead of once per use (default 0)",
    )
    add(
        "--staircase",
        type=float,
        default=0.0,
        metavar="P",
        help="initial probability that a row's SA sees only its drafted block; falls to 0 halfway through the training (default 0)",
    )


def check_options(options: argparse.Namespace) -> None:
    """The values of add_options' options."""
    loop.check_options(options)
    low, high = options.period
    if not 1 <= low <= high:
        sys.exit("error: --period must be LOW HIGH with 1 <= LOW <= HIGH")
    if not 0 < options.share < math.inf:
        sys.exit("error: --share must be above 0")
    if not 0 <= options.keep < math.inf:
        sys.exit("error: --keep must be at least 0")


def make_drafter(name: str, target: Llama, share: float) -> nn.Module:
    """A drafter by name, with MLPs as wide as the parameter limit allows."""
    try:
        drafter = kind_of(name).make(name, target, int(share * target.count_parameters()))
    except ValueError as error:
        sys.exit(f"error: {error}")
    if drafter is None:
        sys.exit(f"error: --share: {name} does not fit into {share:.0%} of the target's parameters")
    return drafter


def trainable(name: str, drafter: nn.Module) -> List[Tuple[str, Tensor]]:
    return kind_of(name).trainable(drafter)


def drafter_record(name: str, drafter: nn.Module) -> dict:
    """The configuration that load_drafters needs to rebuild it."""
    return {
        "config": dataclasses.asdict(drafter.config),
        "weights": {key: p.detach() for key, p in trainable(name, drafter)},
    }


def load_drafters(path: str, target: Llama) -> Dict[str, nn.Module]:
    """Drafters of a checkpoint that this program wrote for the target in --target."""
    result: Dict[str, nn.Module] = {}
    for name, record in load_checkpoint(path, "drafters")["drafters"].items():
        try:
            drafter = kind_of(name).restore(target, record["config"])
            missing = drafter.load_state_dict(record["weights"], strict=False).missing_keys
        except (ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[-1].strip()  # PyTorch lists all tensors
            sys.exit(f"error: {path}: its {name} does not match --target: {reason}")
        if any(key in dict(trainable(name, drafter)) for key in missing):
            sys.exit(f"error: {path} has no complete {name}")
        result[name] = drafter.eval()
    return result


def answer_rows(labels: Tensor) -> Tuple[Tensor, Tensor]:
    """(response, rows), both bool [B, T]: the answer's tokens, and those of them that predict a further one.

    Labels are those of data.collate.  The first answer token comes from the target's prefill, never from a drafter.
    """
    predicts = labels != IGNORE
    response = torch.zeros_like(predicts)
    response[:, 1:] = predicts[:, :-1]
    return response, response & predicts


def trainable_batches(batches: Iterable[loop.Batch]) -> Iterator[loop.Batch]:
    """Rows with something to predict."""
    return (batch for batch in batches if bool(answer_rows(batch[1])[1].any()))


@dataclasses.dataclass
class Weights:
    """Weights of the terms of a drafter's loss."""

    kl: float
    feature: float
    top_k: float


def loss_weights(options: argparse.Namespace) -> Dict[str, Weights]:
    """Loss weights per drafter, from the options of add_options."""
    result = {}
    for name in options.drafters:
        kl, feature = kind_of(name).loss_weights
        result[name] = Weights(
            kl if options.kl is None else options.kl,
            feature if options.feature is None or not feature else options.feature,
            options.top_k_loss,
        )
    return result


def losses(
    drafters: Dict[str, nn.Module],
    traces: Traces,
    tokens: Tensor,
    labels: Tensor,
    period: Tensor,
    staircase: Tensor,
    weights: Dict[str, Weights],
    multiple: int = 1,
    checked: bool = True,
):
    """Per drafter (loss, KL, share of equal argmax) on tokens [B, T]; KL and share are those of its first guess.

    ``traces`` holds the target.  The tensors given are on the CPU. The first rows repeat if needed to make the number
    of rows a ``multiple``.  Without ``checked`` it returns only the loss and does not wait for a GPU.
    """
    target = traces.target
    with torch.no_grad():
        trace = traces(tokens, labels)
    response, answered = answer_rows(labels)
    index = answered.flatten().nonzero().squeeze(1)
    index = index[torch.arange(-(-len(index) // multiple) * multiple) % len(index)]
    tokens, response, index, period, staircase = loop.to_device(
        (tokens, response, index, period, staircase), target.head_weight.device
    )

    @functools.lru_cache(maxsize=None)  # several terms read the same features
    def rows(x: Tensor) -> Tensor:
        return x.flatten(0, 1).index_select(0, index)

    @functools.lru_cache(maxsize=None)
    def likeliest(number: int):
        return probability.topk(number, -1)

    with torch.no_grad():
        wanted = target.head(rows(trace.feature)).float()
        probability = wanted.softmax(-1)
        if checked:
            entropy = -(probability * wanted.log_softmax(-1)).sum(-1).mean()
            best = wanted.argmax(-1)
    result = {}
    for name, drafter in drafters.items():
        total, told = torch.zeros((), device=tokens.device), ()
        for guess in kind_of(name).training_forward(
            drafter, target, tokens, trace, response, period, staircase
        ):
            logits = (guess.head or target.head)(rows(guess.feature)).float()
            normaliser = logits.logsumexp(-1)
            cross = (normaliser - (probability * logits).sum(-1)).mean()
            loss = weights[name].kl * cross
            if guess.compared:
                distances = [
                    F.smooth_l1_loss(rows(made).float(), rows(there).float())
                    for made, there in guess.compared
                ]
                loss = loss + weights[name].feature * sum(distances) / len(distances)
            if guess.top_k:
                # The target's probabilities of these tokens are not renormalised; the drafter's are of the full
                # softmax.
                values, indices = likeliest(guess.top_k)
                surprise = normaliser[:, None] - logits.gather(-1, indices)
                loss = loss + weights[name].top_k * (values * surprise).sum(-1).mean()
            total = total + guess.weight * loss
            if checked and not told:
                told = float(cross.detach() - entropy), float(
                    (logits.argmax(-1) == best).float().mean()
                )
        result[name] = (total, *told)
    return result


def held_out_means(
    held: Iterable[List[Row]], tokens: int, told: Callable[[Tensor, Tensor], List[float]]
) -> List[float]:
    """Means of ``told`` on held-out batches: over the answers' tokens of a group, then over the non-empty groups.

    Batches of a group have at most ``tokens`` padded ids, so that checks need no more memory than training.
    """
    groups: List[List[float]] = []
    for rows in held:
        counts: List[int] = []
        values: List[List[float]] = []
        for batch in batches_of(rows, tokens):
            count = int(answer_rows(batch[1])[1].sum())
            if count > 0:
                counts.append(count)
                values.append(told(*batch))
        if counts:
            groups.append(
                [
                    sum(count * value for count, value in zip(counts, of_batches)) / sum(counts)
                    for of_batches in zip(*values)
                ]
            )
    return [sum(of_groups) / len(groups) for of_groups in zip(*groups)]


def read_own_answers(path: str) -> List[Example]:
    with open(path, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [Example(entry["task"], entry["prompt"], entry["answer"]) for entry in entries]


def distill(
    options: argparse.Namespace,
    target: Llama,
    draw: Callable[[random.Random], Row],
    held: List[List[Row]],
    content: str,
) -> None:
    """Trains the drafters of ``options`` (add_options) for the target on conversations from ``draw``.

    held       groups of held-out conversations, each with the same weight in the checks
    content    a line on the training data
    """
    target.requires_grad_(False).to(options.device)
    drafters: Dict[str, nn.Module] = {}
    for name in options.drafters:
        torch.manual_seed(options.seed)
        drafters[name] = make_drafter(name, target, options.share)
    clock = loop.Clock()
    if os.path.exists(options.out):
        saved = load_checkpoint(options.out, "drafters")
        if set(saved["drafters"]) != set(drafters):
            sys.exit(
                f"error: {options.out} holds {', '.join(saved['drafters'])}; give the same drafters or another --out"
            )
        drafters = load_drafters(options.out, target)
        clock = loop.Clock.continued(saved, options)
    weights = loss_weights(options)
    entries = [
        entry for name, drafter in drafters.items() for entry in kind_of(name).reads(drafter)
    ]
    traces = Traces(target, entries, int(options.keep * 1e9))
    for name, drafter in drafters.items():
        drafter.to(options.device).train()
        for _, parameter in trainable(name, drafter):
            parameter.requires_grad_(True)
        size = sum(p.numel() for _, p in trainable(name, drafter))
        print(
            f"{name}: {size} trainable parameters, {100 * size / target.count_parameters():.1f} % of the target's; "
            f"loss {weights[name].kl:g} * KL{f' + {weights[name].feature:g} * feature' if weights[name].feature else ''}; {drafter.config}"
        )
    print(content, flush=True)
    low, high = options.period

    def compute(batch, rank):
        tokens, labels = batch
        chance = options.staircase * max(0.0, 1 - 2 * clock.progress(options))
        torch.manual_seed(
            options.seed + 17 * rank + 1009 * clock.step
        )  # a continued run draws the same, EAGLE's noise included
        period = torch.randint(low, high + 1, (len(tokens),))
        staircase = torch.rand(len(tokens)) < chance
        top_k = options.top_k_loss if clock.progress(options) >= options.top_k_from else 0.0
        now = {name: dataclasses.replace(weight, top_k=top_k) for name, weight in weights.items()}
        with loop.precision(options):
            found = losses(
                drafters,
                traces,
                tokens,
                labels,
                period,
                staircase,
                now,
                multiple=128,
                checked=False,
            )
        return {name: values[0] for name, values in found.items()}

    def check() -> str:
        """Mean over the held-out groups of KL and equal argmax; each guess sees all of the target's earlier
        activations."""

        def told(tokens: Tensor, labels: Tensor) -> List[float]:
            rows = tokens.shape[0]
            found = losses(
                drafters,
                traces,
                tokens,
                labels,
                torch.ones(rows, dtype=torch.long),
                torch.zeros(rows, dtype=torch.bool),
                weights,
            )
            return [value for name in drafters for value in found[name][1:]]

        for drafter in drafters.values():
            drafter.eval()
        with torch.no_grad():
            means = held_out_means(held, options.tokens, told)
        for drafter in drafters.values():
            drafter.train()
        return "  ".join(
            f"{name} KL {kl:.3f} top-1 {100 * equal:.1f}%"
            for name, kl, equal in zip(drafters, means[::2], means[1::2])
        )

    def trained() -> dict:
        return {
            "drafters": {name: drafter_record(name, drafter) for name, drafter in drafters.items()}
        }

    loop.fit(
        options,
        {name: trainable(name, drafter) for name, drafter in drafters.items()},
        compute,
        lambda rank: trainable_batches(
            Batches(draw, options.seed + 1000 * rank, options.tokens, options.longest)
        ),
        check,
        trained,
        clock,
    )


def main() -> None:
    options = parse()
    tokenizer, source, target = (
        Tokenizer(options.tokenizer),
        Source(options.data),
        load_target(options.target),
    )
    held = [
        [encode_conversation(tokenizer, [item]) for item in items]
        for items in source.held_out_set(20).values()
    ]
    if options.own_answers:
        source.use_own_answers(read_own_answers(options.own_answers))
    distill(
        options,
        target,
        lambda rng: random_conversation(source, tokenizer, rng, options.longest),
        held,
        source.describe(),
    )


if __name__ == "__main__":
    main()
