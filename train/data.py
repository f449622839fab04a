"""Text data sets, conversations, batches.

``--data DIR`` is a folder with the public data sets below.  Each is optional; the generated tasks need none.
    DIR/e2e/devset.csv, DIR/e2e/testset_w_refs.csv     E2E NLG challenge (CC BY-SA 4.0), columns mr,ref
    DIR/tinystories/*.txt                              TinyStories (CDLA-Sharing 1.0), plain text
    DIR/spider/tables.json                             Spider schemas (CC BY-SA 4.0)
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import itertools
import json
import math
import os
import random
import re
import sys
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import number_tasks
import tasks
from split import Split
from tasks import Example

IGNORE = -1  # label of a row without loss
# Shares of the mixture by number of examples; a story is four times as long as other examples.
MIXTURE = {
    "tool": 0.17,
    "sql": 0.19,
    "time": 0.13,
    "arith": 0.20,
    "units": 0.08,
    "e2e": 0.08,
    "story": 0.15,
}
GENERATORS: Dict[str, Callable[[random.Random], Example]] = {
    "tool": tasks.tool_call,
    "sql": tasks.sql_query,
    "time": number_tasks.time_arithmetic,
    "arith": number_tasks.arithmetic,
    "units": number_tasks.conversion,
}


# ------------------------------------------------------------------------------------------------ data sets


def load_e2e(folder: str) -> Dict[str, List[str]]:
    """Meaning representation -> reference texts."""
    table: Dict[str, List[str]] = collections.OrderedDict()
    for name in ("devset.csv", "testset_w_refs.csv"):
        path = os.path.join(folder, "e2e", name)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                table.setdefault(row["mr"].strip(), []).append(" ".join(row["ref"].split()))
    return table


def e2e_prompt(meaning: str) -> str:
    return f"Describe the restaurant: {meaning}"


_WORD = re.compile(r"[A-Za-z']+")
# Guesses nouns from neighbours: after an article or possessive, before punctuation or a function word.
_THING = re.compile(
    r"\b(?:an?|the|his|her|their|my|your) (?:[a-z]+ )?([a-z]{3,})(?=[.,!?]| (?:and|was|is|had|in|on|to|with|that|from|for|at|of)\b)"
)
_STOP = set(
    """a an the and or but so to of in on at with for from by as is was were be been are am it its he she they them
his her their him we us you your i my me that this these those there here then than when what who where why how not no yes
one two day once upon time had has have did do does said very all some any up down out into over again back went go came
come saw see got get could would will can like liked wanted want little big named name who's didn't don't it's i'm let's
after before now too also about off because if just more much many other every each always never""".split()
)


def load_stories(folder: str, longest: int = 1000) -> List[Tuple[str, List[str]]]:
    """Stories of at most ``longest`` characters in whole sentences.

    Returns (text, keywords).  Restores capitals in a lower-case file from the others.
    """
    path = os.path.join(folder, "tinystories")
    if not os.path.isdir(path):
        return []
    texts = {}
    for name in sorted(os.listdir(path)):
        if name.endswith(".txt"):
            with open(os.path.join(path, name), encoding="utf-8", errors="ignore") as file:
                texts[name] = file.read()
    cased = " ".join(text for text in texts.values() if text != text.lower())
    upper, lower = collections.Counter(), collections.Counter()
    for before, word in re.findall(r"([a-z,] )([A-Za-z']+)", cased):
        (upper if word[0].isupper() else lower)[word.lower()] += 1
    capital = {word for word, count in upper.items() if count >= 2 and count > 3 * lower[word]} | {
        "i",
        "i'm",
        "i'll",
    }

    def recase(text: str) -> str:
        names = capital | set(re.findall(r"(?:named|called) ([a-z]+)[.,]", text))
        text = _WORD.sub(lambda m: m[0].capitalize() if m[0] in names else m[0], text)
        return re.sub(
            r"(^\"?|[.!?] +\"?|, \"|[.!?]\" +(?!said|asked|replied|shouted|cried|exclaimed|he |she |they ))([a-z])",
            lambda m: m[1] + m[2].upper(),
            text,
        )

    stories: Dict[str, List[str]] = collections.OrderedDict()
    counts: collections.Counter = collections.Counter()
    parts: List[str] = []
    for text in texts.values():
        uncased = text == text.lower()
        # empty lines separate paragraphs, single line feeds separate stories
        if uncased:
            chunks = re.split(r"(?<!\n)\n(?!\n)", text)
        else:
            chunks = re.split(r"<\|endoftext\|>", text)
        for chunk in chunks:
            chunk = " ".join(chunk.split()).replace("“", '"').replace("”", '"').replace("’", "'")
            parts.append(recase(chunk) if uncased else chunk)
    for chunk in parts:
        if len(chunk) < 100 or not chunk.isascii() or not chunk[0].isupper():
            continue
        short = ""
        for sentence in re.findall(r".+?[.!?][\"']?(?: |$)", chunk):
            if len(short) + len(sentence) > longest:
                break
            short += sentence
        short = short.strip()
        if len(short) < 80 or short.count('"') % 2:
            continue
        stories.setdefault(short[:80].lower(), [short])
    result = []
    for (text,) in stories.values():
        counts.update({w.lower() for w in _WORD.findall(text)})
    for (text,) in stories.values():
        words = [w.lower() for w in _WORD.findall(text)]
        names = [w for w in dict.fromkeys(words) if w in capital and len(w) > 2 and w not in _STOP]
        # Keywords of the story: frequent here and rare elsewhere.
        things = {m[1].lower() for m in _THING.finditer(text)} - _STOP - capital
        weight = {
            w: words.count(w) * math.log(len(stories) / counts[w])
            for w in things
            if counts[w] >= 5 and "'" not in w
        }
        keywords = [names[0].capitalize()] if names else []
        keywords += sorted(weight, key=lambda w: (-weight[w], w))[:2]
        if keywords:
            result.append((text, keywords))
    return result


STORY_FORMS = [
    "Tell me a story about {k}.",
    "Write a short story about {k}.",
    "Tell a story with {k}.",
]


def _story_prompt(form: str, chosen: List[str], articles: bool) -> str:
    if articles:
        chosen = [
            w if w[0].isupper() or w[-1] == "s" else ("an " if w[0] in "aeio" else "a ") + w
            for w in chosen
        ]
    return form.format(
        k=chosen[0] if len(chosen) == 1 else ", ".join(chosen[:-1]) + " and " + chosen[-1]
    )


def story_prompt(keywords: List[str], rng: random.Random) -> str:
    """Asks for a story with one to three of the keywords, with or without articles."""
    chosen = rng.sample(keywords, min(len(keywords), rng.choice([1, 1, 2, 3])))
    articles = rng.random() < 0.5
    return _story_prompt(tasks.pick(rng, STORY_FORMS), chosen, articles)


def story_prompts(keywords: List[str]) -> Iterator[str]:
    """All prompts that story_prompt can return."""
    for count in range(1, min(3, len(keywords)) + 1):
        for chosen in itertools.permutations(keywords, count):
            for articles in (False, True):
                for form in STORY_FORMS:
                    yield _story_prompt(form, list(chosen), articles)


def load_spider_schemas(folder: str) -> List[Tuple[str, List[str], List[str]]]:
    """Single tables of the Spider schemas as (table, text columns, number columns)."""
    path = os.path.join(folder, "spider", "tables.json")
    if not os.path.exists(path):
        return []
    result = []
    for database in json.load(open(path, encoding="utf-8")):
        for index, table in enumerate(database["table_names_original"]):
            texts, numbers = [], []
            for (owner, column), kind in zip(
                database["column_names_original"], database["column_types"]
            ):
                if owner == index and len(column) <= 20 and " " not in column:
                    (texts if kind == "text" else numbers).append(column.lower())
            if texts and numbers and " " not in table:
                result.append((table.lower(), texts[:3], numbers[:3]))
    return result


# ------------------------------------------------------------------------------------------------- examples


class Source:
    """Draws examples of any task, on either side of the held-out split."""

    def __init__(self, folder: Optional[str] = None, split: Optional[Split] = None):
        self.split = split or Split()
        self.e2e: Dict[bool, List[Tuple[str, List[str]]]] = {False: [], True: []}
        self.stories: Dict[bool, List[Tuple[str, List[str]]]] = {False: [], True: []}
        self.schemas: List[Tuple[str, List[str], List[str]]] = []
        self.own_answers: Dict[str, List[Example]] = {}
        if folder:
            if not os.path.isdir(folder):
                sys.exit(f"error: --data {folder} is not a folder")
            for meaning, references in load_e2e(folder).items():
                self.e2e[self.split.prompt("e2e", e2e_prompt(meaning))].append(
                    (meaning, references)
                )
            for text, keywords in load_stories(folder):
                self.stories[self.split.story_text(text)].append((text, keywords))
            self.schemas = load_spider_schemas(folder)
            for task, sides in (("e2e", self.e2e), ("story", self.stories)):
                if any(sides.values()) and not (
                    self._has_prompts(task, False) and self._has_prompts(task, True)
                ):
                    sys.exit(
                        f"error: --data {folder} has too little data for the task {task}: all or none of its prompts are held out"
                    )
        self.mixture = {
            task: share
            for task, share in MIXTURE.items()
            if (task != "e2e" or self.e2e[False]) and (task != "story" or self.stories[False])
        }

    def _has_prompts(self, task: str, held_out: bool) -> bool:
        """Whether a side has any examples: without a text a draw fails, and without a prompt it never ends."""
        if task == "e2e":
            return bool(self.e2e[held_out])
        return any(
            self.split.admits(task, prompt, held_out)
            for _, keywords in self.stories[held_out]
            for prompt in story_prompts(keywords)
        )

    def describe(self) -> str:
        return (
            f"{len(self.e2e[False])}+{len(self.e2e[True])} E2E meaning representations, "
            f"{len(self.stories[False])}+{len(self.stories[True])} stories (training+held out), {len(self.schemas)} Spider tables"
        )

    def use_own_answers(self, examples: Iterable[Example]) -> None:
        """The target's own answers to training prompts; they replace most references of their tasks."""
        for example in examples:
            if self.split.admits(example.task, example.prompt, False):
                self.own_answers.setdefault(example.task, []).append(example)

    def example(self, task: str, rng: random.Random, want_held_out: bool = False) -> Example:
        """The next example of a task with a prompt on the wanted side."""
        if not want_held_out and task in self.own_answers and rng.random() < 0.7:
            return tasks.pick(rng, self.own_answers[task])
        draw = self._generator(task, rng, want_held_out)
        while True:
            example = draw()
            if self.split.admits(task, example.prompt, want_held_out):
                return (
                    example
                    if task == "e2e"
                    else dataclasses.replace(example, prompt=tasks.vary_ending(rng, example.prompt))
                )

    def _generator(
        self, task: str, rng: random.Random, want_held_out: bool
    ) -> Callable[[], Example]:
        """Draws examples of a task; for stories and descriptions, those with a text on the wanted side."""

        def description() -> Example:
            meaning, references = tasks.pick(rng, self.e2e[want_held_out])
            return Example("e2e", e2e_prompt(meaning), tasks.pick(rng, references), references)

        def story() -> Example:
            text, keywords = tasks.pick(rng, self.stories[want_held_out])
            return Example("story", story_prompt(keywords, rng), text)

        def query_of_schema() -> Example:
            table, texts, numbers = tasks.pick(rng, self.schemas)
            return tasks.sql_query(rng, (table, list(texts), list(numbers)))

        if task == "e2e":
            return description
        if task == "story":
            return story
        if task == "sql" and self.schemas and rng.random() < 0.3:
            return query_of_schema
        return lambda: GENERATORS[task](rng)

    def mixed(self, rng: random.Random, want_held_out: bool = False) -> Example:
        task = rng.choices(list(self.mixture), list(self.mixture.values()))[0]
        return self.example(task, rng, want_held_out)

    def held_out_set(self, per_task: int, seed: int = 7) -> Dict[str, List[Example]]:
        """Returns the same held-out examples to every caller, no prompt twice."""
        result = {}
        for task in self.mixture:
            rng = random.Random(f"{seed}/{task}")
            chosen: Dict[str, Example] = collections.OrderedDict()
            for _ in range(20 * per_task):
                if len(chosen) == per_task:
                    break
                example = self.example(task, rng, True)
                chosen.setdefault(example.prompt, example)
            result[task] = list(chosen.values())
        return result


# ---------------------------------------------------------------------------------- conversations, batches


@dataclasses.dataclass
class Row:
    """Token ids of one conversation and, per id, whether the assistant wrote it."""

    ids: List[int]
    response: List[bool]

    def prompt(self) -> List[int]:
        """The part before the first response: the whole conversation if there is none."""
        return self.ids[: self.response.index(True)] if True in self.response else self.ids

    def parts(self) -> Tuple[List[int], List[int]]:
        """(prompt, answer) of a one-turn conversation."""
        first = len(self.prompt())
        return self.ids[:first], self.ids[first:]


def check_ids(ids: List[int], vocabulary: int) -> None:
    """Raises ValueError if a target with that vocabulary cannot read it."""
    if not all(isinstance(token, int) and token >= 0 for token in ids):
        raise ValueError("prompt and answer must be ids")
    if (largest := max(ids, default=0)) >= vocabulary:
        raise ValueError(f"the id {largest} is outside the target's vocabulary of {vocabulary}")


def encode_conversation(tokenizer, turns: List[Example]) -> Row:
    """<s>, then per turn the user's and the assistant's message; the answer's <
    end
    > counts as response."""
    ids, response = [tokenizer.bos], [False]
    for turn in turns:
        question = tokenizer.encode(f"<|user|>\n{turn.prompt}<|end|>\n<|assistant|>\n")
        answer = tokenizer.encode(f"{turn.answer}<|end|>")
        ids += question + answer
        response += [False] * len(question) + [True] * len(answer)
        if turn is not turns[-1]:
            newline = tokenizer.encode("\n")
            ids += newline
            response += [False] * len(newline)
    return Row(ids, response)


def random_conversation(source: Source, tokenizer, rng: random.Random, longest: int) -> Row:
    """Mostly one turn; one in seven has two or three, one in forty has about ``longest`` ids."""
    kind = rng.random()
    turns = [source.mixed(rng)]
    if kind < 0.14:
        turns += [source.mixed(rng) for _ in range(rng.choice([1, 1, 2]))]
    elif kind < 0.165:
        size = 0
        while size < longest * 3:  # about four characters per id
            turns.append(source.mixed(rng))
            size += len(turns[-1].prompt) + len(turns[-1].answer)
    row = encode_conversation(tokenizer, turns)
    return Row(row.ids[:longest], row.response[:longest])


class Batches:
    """Endless batches of exactly ``tokens`` ids with padding; rows of similar length share a batch.

    A batch is as wide as the smallest divisor of ``tokens`` that fits its longest row. Matmuls then always have the
    same number of rows (bfloat16 kernels are compiled per shape). A number with many divisors pads least.  ``draw``
    gives the next row, of at most ``longest`` ids.  The stream depends only on ``seed``, so two runs with one seed
    see the same batches in the same order.
    """

    def __init__(
        self,
        draw: Callable[[random.Random], Row],
        seed: int,
        tokens: int = 1920,
        longest: int = 600,
        pool: int = 1536,
    ):
        self.draw, self.tokens, self.pool = draw, tokens, pool
        self.rng = random.Random(seed)
        self.widths = [width for width in range(1, tokens + 1) if tokens % width == 0]
        if tokens < longest:
            sys.exit(f"error: --tokens {tokens} must be at least --longest {longest}")

    def __iter__(self):
        """Yields what :func:`collate` returns."""
        rows: List[Row] = []
        while True:
            rows += [self.draw(self.rng) for _ in range(self.pool)]
            rows.sort(key=lambda row: len(row.ids))
            batches = []
            while rows:
                width = next(width for width in self.widths if width >= len(rows[-1].ids))
                count = self.tokens // width
                if len(rows) < count:
                    break  # the rest goes to the next pool
                batches.append((rows[-count:], width))
                del rows[-count:]
            self.rng.shuffle(batches)
            for batch, width in batches:
                yield collate(batch, width)


def batches_of(rows: List[Row], tokens: int):
    """All of ``rows`` as :func:`collate` returns them, grouped by length: at most ``tokens`` ids with padding, or one
    row."""
    rest = sorted(rows, key=lambda row: len(row.ids))
    while rest:
        count = max(1, tokens // len(rest[-1].ids))
        yield collate(rest[-count:])
        del rest[-count:]


def collate(rows: List[Row], width: int = 0, pad: int = 0):
    """Tensors of a batch: tokens [B, T], and labels [B, T] with the next id if it is a response, else IGNORE.

    Padding is on the right, invisible to causal attention.
    """
    import torch

    width = max(width, max(len(row.ids) for row in rows))
    tokens = torch.full((len(rows), width), pad, dtype=torch.long)
    labels = torch.full((len(rows), width), IGNORE, dtype=torch.long)
    for index, row in enumerate(rows):
        ids = torch.tensor(row.ids)
        tokens[index, : len(ids)] = ids
        wanted = torch.tensor(row.response[1:])
        labels[index, : len(ids) - 1] = torch.where(
            wanted, ids[1:], torch.full_like(ids[1:], IGNORE)
        )
    return tokens, labels
