#!/usr/bin/env python3
"""Finds the tree of a MEDUSA drafter and writes it into the config.json of its folder.

The tree lists the combinations of the heads' guesses that are drafted.  On answers that the target wrote, acc_k(i) is
the share of positions at which the i-th best guess of head k is right.  A node's value is the product of these along
its path, as if heads erred independently. The most valuable nodes are added until there are --nodes ("Medusa",
section 2.3: sparse tree).

Heads do not err independently, and passes do not begin at random positions.  So the tau printed and written
(medusa_predicted_tau) comes from walking the tree over the same answers; the product formula's is printed beside it.
Both cover all answers of any task, including sampled ones and ones that the heads were trained on.  To compare with
edgedraft-bench acceptance on held-out prompts use --walk. It walks the tree over greedy answers that
distill_answers.py holds out, by task, and prints the mean of the tasks.

Examples, on the answers that the heads were trained with:
    python3 calibrate.py --target MiniMind2-Small --answers answers.jsonl --drafter hf/medusa
    python3 calibrate.py --target MiniMind2-Small --answers answers.jsonl --drafter hf/medusa --walk 40
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import sys
from typing import Dict, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
from torch import Tensor

from arguments import count
from checkpoint import amend_config, load_target, read_safetensors
from data import Row
from distill_answers import answers_by_task, read_answers, split_of_length
from drafters.medusa import Medusa, MedusaConfig
from evaluate import is_greedy
from model import Llama
from progress import Progress

GUESSES = 10  # guesses per head that may become nodes
NODES_MAX = 255  # nodes of a draft tree without the root: the limit of a Draft (docs/protocol.md)
Node = Tuple[int, ...]  # ranks of the guesses on its path


def ranks(drafter: Medusa, target: Llama, row: Row) -> List[Node]:
    """Per root of an answer, the rank of the right token among each head's guesses; GUESSES if ranked lower or after
    the end."""
    ids, first = torch.tensor(row.ids), len(row.parts()[0])
    feature = target(ids[None], head=False).feature[
        0, first - 1 : -2
    ]  # belongs to the token before each root
    behind = torch.cat((ids[first + 1 :], ids.new_full((len(drafter) - 1,), -1)))
    wanted = behind.unfold(0, len(drafter), 1)  # [root, head]
    logits = drafter.logits(target, feature)
    right = logits.gather(-1, wanted.clamp(min=0)[..., None])
    better = (logits > right) | (
        (logits == right) & (torch.arange(logits.shape[-1]) < wanted[..., None])
    )
    return [
        tuple(found)
        for found in better.sum(-1).clamp(max=GUESSES).masked_fill(wanted < 0, GUESSES).tolist()
    ]


def accuracies(answers: List[List[Node]]) -> Tensor:
    """acc [K, GUESSES]"""
    found = torch.tensor([node for answer in answers for node in answer])
    return torch.stack([(found == rank).float().mean(0) for rank in range(GUESSES)], -1)


def best_tree(acc: Tensor, nodes: int) -> List[Node]:
    """The ``nodes`` most valuable nodes, best first, parents before children.  The first n are the best tree of n
    nodes."""
    tree: List[Node] = []
    waiting: List[Tuple[float, Node]] = [(-1.0, ())]
    while waiting and len(tree) <= nodes:
        value, node = heapq.heappop(waiting)
        tree.append(node)
        if len(node) < len(acc):
            for rank, accuracy in enumerate(acc[len(node)].tolist()):
                heapq.heappush(waiting, (value * accuracy, node + (rank,)))
    return tree[1:]  # without the root


def product_tau(acc: Tensor, tree: List[Node]) -> float:
    """Tokens per pass if heads erred independently and passes began at random positions: 1 + the nodes' values."""
    return 1 + sum(
        float(torch.stack([acc[depth, rank] for depth, rank in enumerate(node)]).prod())
        for node in tree
    )


def walked_tau(tree: List[Node], answers: List[List[Node]]) -> float:
    """Tokens per pass when the tree writes the answers greedily."""
    known, tokens, passes = set(tree), 0, 0
    for answer in answers:
        root = 0
        while root < len(answer):
            accepted = 0
            while accepted < len(answer[root]) and answer[root][: accepted + 1] in known:
                accepted += 1
            root += accepted + 1
            passes += 1
        tokens += len(answer)
    return tokens / passes


def greedy_answers(target: Llama, rows: List[Row], count: int, limit: int) -> List[Row]:
    """The first ``count`` one-turn conversations whose answer is greedy in its first ``limit`` ids, cut after these."""
    cut = (
        Row(prompt + answer[:limit], [False] * len(prompt) + [True] * len(answer[:limit]))
        for prompt, answer in map(Row.parts, rows)
    )
    return list(
        itertools.islice((row for row in cut if row.prompt() and is_greedy(target, row)), count)
    )


def load_medusa(folder: str, target: Llama) -> Medusa:
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"error: --drafter {folder}: {error}")
    if config.get("model_type") != "medusa":
        sys.exit(f"error: --drafter {folder} is not a MEDUSA drafter")
    drafter = Medusa(
        target.config, MedusaConfig(config["medusa_num_heads"], config["version"] == 1)
    )
    drafter.load_state_dict(
        {
            name: tensor.float()
            for name, tensor in read_safetensors(os.path.join(folder, "model.safetensors")).items()
        }
    )
    return drafter.eval()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--target",
        metavar="FOLDER",
        required=True,
        help="Hugging Face folder (Llama or Qwen2), or checkpoint of train_target.py",
    )
    add(
        "--answers",
        metavar="FILE",
        required=True,
        help="JSON lines of answer_prompts.py; those held out by distill_answers.py are used for --walk only",
    )
    add(
        "--drafter",
        metavar="DIR",
        required=True,
        help="folder of export.py; the tree is written to its config.json",
    )
    add(
        "--nodes",
        type=int,
        default=62,
        help=f"nodes of the tree without its root (default 62, at most {NODES_MAX})",
    )
    add("--count", type=count, default=400, help="answers (default 400)")
    add("--longest", type=int, default=600, help="maximum conversation in token ids (default 600)")
    add(
        "--walk",
        type=count,
        metavar="N",
        help="also walk the tree over up to N greedy held-out answers per task and print tau per task and their mean",
    )
    add(
        "--limit",
        type=count,
        default=160,
        help="ids per answer for --walk (default 160, as in edgedraft-bench acceptance)",
    )
    add("--threads", type=count, default=2)
    options = parser.parse_args()
    if not 1 <= options.nodes <= NODES_MAX:
        parser.error(f"--nodes must be 1 to {NODES_MAX}")
    if options.limit < 2:
        parser.error("--limit must be 2 or more, since the first id of an answer is not drafted")
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    target = load_target(options.target)
    drafter = load_medusa(options.drafter, target)
    training = read_answers(options.answers, target.config.vocab_size, options.longest)[0]
    training = [
        row for row in training if row.parts()[0]
    ]  # without a prompt the first root has no preceding feature
    if not training:
        sys.exit(f"error: --answers {options.answers} has no usable answers")
    greedy: Dict[str, List[Row]] = {}
    if options.walk:
        held = split_of_length(
            answers_by_task(options.answers, target.config.vocab_size), options.longest
        )[1]
        greedy = {
            task: greedy_answers(target, rows, options.walk, options.limit)
            for task, rows in held.items()
        }
        if not any(greedy.values()):
            sys.exit(f"error: --walk: {options.answers} has no greedy held-out answers")
    training = training[:: max(1, len(training) // options.count)][: options.count]
    bar, answers = Progress(len(training)), []
    for row in training:
        answers.append(ranks(drafter, target, row))
        bar.update(len(answers))
    acc = accuracies(answers)
    tree = best_tree(acc, options.nodes)
    for head, shares in enumerate(acc.tolist(), 1):
        bar.line(
            f"head {head}: " + "  ".join(f"{100 * share:.1f}" for share in shares) + " % by rank"
        )
    for size in sorted({16, len(tree)}):
        bar.line(
            f"{size} nodes: tau {walked_tau(tree[:size], answers):.3f}, {product_tau(acc, tree[:size]):.3f} predicted by the product formula"
        )
    taus = {
        task: walked_tau(tree, [ranks(drafter, target, row) for row in rows])
        for task, rows in greedy.items()
        if rows
    }
    for task, rows in greedy.items():
        bar.line(
            f"{task}: tau {taus[task]:.3f} over {len(rows)} greedy answers"
            if rows
            else f"{task}: no greedy held-out answers"
        )
    if taus:
        bar.line(f"mean of the tasks: tau {sum(taus.values()) / len(taus):.3f}")
    amend_config(
        options.drafter,
        medusa_choices=tree,
        medusa_predicted_tau=round(walked_tau(tree, answers), 3),
    )
    print(f"{options.drafter}/config.json: tree of {len(tree)} nodes")


if __name__ == "__main__":
    main()
