#!/usr/bin/env python3
"""Held-out scores of the target and acceptance of its drafters, as Markdown tables.

Exact match compares the graded part of a greedily generated answer (behind "Answer:" where there is working).
E2E gets BLEU-4 against all references, lower-cased; stories the share of repeated four-word sequences.
tau is the mean number of tokens per target pass when a chain of --chain tokens is drafted greedily: accepted
ones plus the target's own.  The first token, from the prompt's pass, does not count.

Of the target of a Hugging Face folder, with --answers, drafters' acceptance alone is measured: on the answers that
distill_answers.py holds out.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import re
from typing import Dict, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
from torch import nn

from checkpoint import load_target
from data import Source
from distill import load_drafters
from distill_answers import read_answers
from generate import answer_all, written
from drafters import kind_of
from model import Llama
from tasks import Example, final_answer
from tokenizer import Tokenizer


def words(text: str) -> List[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def ngrams(items: List[str], n: int) -> collections.Counter:
    return collections.Counter(tuple(items[i:i + n]) for i in range(len(items) - n + 1))


def bleu(candidates: List[str], references: List[List[str]]) -> float:
    """Corpus BLEU-4 in percent (Papineni et al., 2002), closest reference length."""
    hits, totals, length, reference_length = [0] * 4, [0] * 4, 0, 0
    for candidate, group in zip(candidates, references):
        c, rs = words(candidate), [words(r) for r in group]
        length += len(c)
        reference_length += min((abs(len(r) - len(c)), len(r)) for r in rs)[1]
        for n in range(1, 5):
            counts, most = ngrams(c, n), collections.Counter()
            for r in rs:
                most |= ngrams(r, n)
            hits[n - 1] += sum((counts & most).values())
            totals[n - 1] += sum(counts.values())
    if min(hits) == 0:
        return 0.0
    brevity = min(0.0, 1 - reference_length / max(1, length))
    return 100 * math.exp(brevity + sum(math.log(h / t) for h, t in zip(hits, totals)) / 4)


def repetition(text: str) -> float:
    """Share of four-word sequences that occurred before in the same text."""
    counts = ngrams(words(text), 4)
    total = sum(counts.values())
    return 1 - len(counts) / total if total else 0.0


def score(task: str, items: List[Example], answers: Dict[str, str]) -> str:
    if task == "e2e":
        value = bleu([answers[i.prompt] for i in items], [i.references or [i.answer] for i in items])
        return f"BLEU-4 {value:.1f}"
    if task == "story":
        loops = [repetition(answers[i.prompt]) for i in items]
        return f"repeated 4-grams {100 * sum(loops) / len(loops):.1f} %, worst {100 * max(loops):.0f} %"
    right = sum(final_answer(answers[i.prompt]) == final_answer(i.answer) for i in items)
    return f"exact {100 * right / len(items):.1f} %"


def acceptance(name: str, drafter, target: Llama, prompt: List[int], answer: List[int], depth: int):
    """(tokens, target passes) for a greedy ``answer`` of the target that ends with <|end|>."""
    kind, sequence = kind_of(name), prompt + answer
    trace = target(torch.tensor([sequence]), head=False)
    position, tokens, passes = len(prompt), 0, 0  # sequence[position] is the root
    while position < len(sequence) - 1:
        guesses = kind.draft_chain(drafter, target, trace, sequence, position, depth)
        accepted = 0
        while accepted < len(guesses) and position + 1 + accepted < len(sequence) - 1 and guesses[accepted] == sequence[position + 1 + accepted]:
            accepted += 1
        if position + 1 + accepted == len(sequence) - 1 and accepted < len(guesses) and guesses[accepted] == sequence[-1]:
            accepted += 1  # the end itself was guessed; nothing follows it
            gained = accepted
        else:
            gained = accepted + 1
        position += gained
        tokens += gained
        passes += 1
    return tokens, passes


def print_acceptance(drafters: Dict[str, nn.Module], target: Llama, answers: Dict[str, List[Tuple[List[int], List[int]]]], depth: int) -> None:
    """Table of tau by drafter and task; answers are pairs of a prompt's and an answer's ids."""
    print(f"\ntau, chain of {depth}, greedy\n\n| drafter | {' | '.join(answers)} | mean | pooled |\n|{'---|' * (len(answers) + 3)}")
    for name, drafter in drafters.items():
        sums = [[sum(both) for both in zip(*(acceptance(name, drafter, target, prompt, answer, depth) for prompt, answer in pairs))]
                for pairs in answers.values()]
        taus = [tokens / max(1, passes) for tokens, passes in sums]
        pooled = sum(tokens for tokens, _ in sums) / max(1, sum(passes for _, passes in sums))
        print(f"| {name} | {' | '.join(f'{tau:.2f}' for tau in taus)} | {sum(taus) / len(taus):.2f} | {pooled:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", metavar="FILE", required=True, help="checkpoint of train_target.py, or a Hugging Face folder")
    add("--answers", metavar="FILE", help="JSON lines of answer_prompts.py; neither --tokenizer nor --data is needed then")
    add("--tokenizer", metavar="FILE", help="tokenizer.model of a target that train_target.py made")
    add("--data", metavar="DIR", help="text data sets (data.py names them)")
    add("--drafters", metavar="FILE", help="checkpoint of distill.py: measure acceptance too")
    add("--count", type=int, default=100, help="held-out prompts a task (default 100)")
    add("--acceptance-count", type=int, default=10, help="of them for the acceptance (default 10)")
    add("--chain", type=int, default=4, help="drafted tokens a pass (default 4)")
    add("--longest", type=int, default=600, help="longest conversation of --answers in token ids (default 600)")
    add("--limit", type=int, default=200, help="longest answer in token ids (default 200)")
    add("--samples", metavar="FILE", help="write prompts and answers here as JSON lines")
    add("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    target = load_target(options.target)
    drafters = load_drafters(options.drafters, target) if options.drafters else {}
    if options.answers:
        held = read_answers(options.answers, options.longest)[1]
        print_acceptance(drafters, target, {task: [row.parts() for row in rows[:options.acceptance_count]] for task, rows in held.items()},
                         options.chain)
        return
    if not options.tokenizer:
        parser.error("--tokenizer is missing")
    tokenizer, source = Tokenizer(options.tokenizer), Source(options.data)
    examples = source.held_out_set(options.count)
    print("| task | prompts | score |\n|---|---|---|")
    samples = open(options.samples, "w", encoding="utf-8") if options.samples else None
    for task, items in examples.items():
        answers = answer_all(target, tokenizer, [item.prompt for item in items], options.limit)
        print(f"| {task} | {len(items)} | {score(task, items, answers)} |", flush=True)
        for item in items if samples else []:
            samples.write(json.dumps({"task": task, "prompt": item.prompt, "answer": answers[item.prompt], "reference": item.answer},
                                     ensure_ascii=False) + "\n")
    if not drafters:
        return
    pairs: Dict[str, List[Tuple[List[int], List[int]]]] = {task: [] for task in examples}
    for task, items in examples.items():
        for item in items[:options.acceptance_count]:
            prompt = tokenizer.prompt(item.prompt)
            answer = written(target, [tokenizer.end], [prompt], options.limit)[0]
            if len(answer) > 1:
                pairs[task].append((prompt, answer + [tokenizer.end] * (len(answer) < options.limit)))
    print_acceptance(drafters, target, pairs, options.chain)


if __name__ == "__main__":
    main()
