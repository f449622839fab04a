"""Training and held-out data: tasks, data sets, prompts."""

import gzip
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import copy_prompts
import draw_prompts
import number_tasks
import open_texts
import tasks
from data import Source, story_prompts
from split import SHIPPED, Split, normal_form


class TasksTest(unittest.TestCase):
    def test_arithmetic_answers_are_correct(self):
        rng = random.Random(1)
        for _ in range(500):
            example = number_tasks.arithmetic(rng)
            a, b = (int(number) for number in re.findall(r"\d+", example.prompt))
            result = int(tasks.final_answer(example.answer))
            self.assertIn(result, (a + b, abs(a - b)), example)
            digits = [step[-1] for step in example.answer.split(". Answer")[0].split(", ")]
            self.assertEqual(
                int("".join(reversed(digits))) % 1000, result % 10 ** len(digits), example
            )  # the working agrees

    def test_spoken_times(self):
        rng = random.Random(2)
        for _ in range(200):
            spoken, written = tasks.clock(rng)
            hour = int(written[:2])
            if "pm" in spoken:
                self.assertGreaterEqual(hour, 12)
            elif "am" in spoken:
                self.assertLess(hour, 12)


class SplitTest(unittest.TestCase):
    """Training never draws a held-out prompt, nor one that differs only in case, "please" or its final mark."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(os.path.join(self.folder.name, "tinystories"))
        # Few names and things, so that stories on both sides are similar.
        rng = random.Random(4)
        with open(
            os.path.join(self.folder.name, "tinystories", "made-up.txt"), "w", encoding="utf-8"
        ) as file:
            for number in range(400):
                name, thing = tasks.pick(rng, ["Lily", "Tom", "Sam"]), tasks.pick(
                    rng, ["dragon", "boat", "cake", "drum"]
                )
                file.write(
                    f"Number {number} is about {name}. One fine day {name} found a {thing} and was happy. "
                    f"The {thing} was big, and {name} played with the {thing} all day.<|endoftext|>\n"
                )

    def test_normal_form(self):
        for prompt in (
            "Set a timer for 5 minutes, please.",
            "set a timer for 5 minutes",
            "Please set a timer  for 5 minutes?",
        ):
            self.assertEqual(normal_form(prompt), "set a timer for 5 minutes")
        self.assertNotEqual(normal_form("please buy milk"), normal_form("please buy eggs"))

    def test_holds_out_all_forms_of_model_card_prompts(self):
        split = Split()
        with open(SHIPPED, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        self.assertEqual(len(entries), 140)
        for entry in entries:
            prompt = entry["prompt"]
            for form in (
                prompt,
                prompt.lower(),
                prompt.upper(),
                prompt.rstrip(".?") + ", please",
                prompt.rstrip(".?"),
            ):
                self.assertTrue(split.admits(entry["task"], form, True), form)
                self.assertFalse(split.admits(entry["task"], form, False), form)

    def test_splits_share_no_prompt(self):
        source = Source(self.folder.name)
        self.assertIn("story", source.mixture)
        rng, other = random.Random(5), random.Random(6)
        for task in source.mixture:
            training = {normal_form(source.example(task, rng).prompt) for _ in range(4000)}
            held = {normal_form(source.example(task, other, True).prompt) for _ in range(200)}
            self.assertFalse(training & held, task)

    def test_splits_share_no_story(self):
        source, rng = Source(self.folder.name), random.Random(7)
        training = {source.example("story", rng).answer for _ in range(2000)}
        held = {source.example("story", rng, True).answer for _ in range(200)}
        self.assertFalse(training & held)

    def test_rejects_stories_without_held_out_prompts(self):
        """Otherwise a held-out draw would never end."""
        path = os.path.join(self.folder.name, "tinystories", "made-up.txt")
        with open(path, encoding="utf-8") as file:
            stories = file.read().split("<|endoftext|>")
        for kept in (stories[:2], ["Numbers have no name and no thing here."]):
            with open(path, "w", encoding="utf-8") as file:
                file.write("<|endoftext|>".join(kept))
            if kept == stories[:2]:
                with self.assertRaises(SystemExit) as caught:
                    Source(self.folder.name)
                self.assertIn("story", str(caught.exception))
            else:  # as without the folder
                self.assertNotIn("story", Source(self.folder.name).held_out_set(1))
        # Holding out a text is not enough: its keywords could also ask for a training text.
        split = Split()
        text = next(
            text
            for text in (f"Number {i} is long" + " and longer" * 9 for i in itertools.count())
            if split.story_text(text)
        )
        word = next(
            word
            for word in ("dragon", "boat", "cake", "drum")
            if not any(split.prompt("story", p) for p in story_prompts([word]))
        )
        with unittest.mock.patch(
            "data.load_stories", lambda folder: [(text, [word]), ("Another text", ["Lily"])]
        ):
            with self.assertRaises(SystemExit):
                Source(self.folder.name)

    def test_skips_own_answers_to_held_out_prompts(self):
        source, rng = Source(), random.Random(8)
        with open(SHIPPED, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        source.use_own_answers(tasks.Example("tool", entry["prompt"], "own") for entry in entries)
        self.assertNotIn("own", {source.example("tool", rng).answer for _ in range(50)})


class DrawPromptsTest(unittest.TestCase):
    def test_draws_no_duplicate_or_held_out_prompt(self):
        source = Source()
        shares = {"tool": 1.0, "units": 3.0}
        drawn = list(draw_prompts.distinct(source, random.Random(5), shares, 4000))
        self.assertEqual(len({example.prompt for example in drawn}), len(drawn))
        self.assertFalse(
            [example.prompt for example in drawn if Split().prompt(example.task, example.prompt)]
        )
        self.assertGreater(
            sum(example.task == "units" for example in drawn),
            2 * sum(example.task == "tool" for example in drawn),
        )


class CopyPromptsTest(unittest.TestCase):
    """Made-up data sets that the two sides could share."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for part in ("dev", "test"):
            self.write(
                f"dialogsum/dialogsum.{part}.jsonl",
                [{"dialogue": f"#Person1#: {i}?"} for i in range(30)] + [{"dialogue": "x" * 900}],
            )
        self.write(
            "humaneval/HumanEval.jsonl.gz",
            [
                {
                    "task_id": f"HumanEval/{i}",
                    "prompt": f"def f{i}(x):\n",
                    "canonical_solution": "    return x\n",
                    "entry_point": f"f{i}",
                }
                for i in range(60)
            ],
        )
        questions = [{"turns": [f"Question {i}", "Go on."]} for i in range(40)]
        self.write("mt_bench/question.jsonl", questions[:20])
        self.write("spec_bench/question.jsonl", questions)
        for part in ("seed_tasks", "user_oriented_instructions"):
            self.write(
                f"self_instruct/{part}.jsonl",
                [{"instruction": f"Question {i}", "instances": [{"input": ""}]} for i in range(30)],
            )
        self.write("gsm8k/train.jsonl", [{"question": "How many?"}])
        shared = "Compose an engaging travel blog post about a recent trip to Hawaii, please."
        self.write(
            "spec_bench/question.jsonl", questions + [{"turns": ["Hello.", "Now " + shared]}]
        )
        self.write(
            "wikisql/test.jsonl",
            [{"question": f"Which club was number {i}?"} for i in range(9)]
            + [{"question": shared.upper()}],
        )

    def write(self, name, entries):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (gzip.open if name.endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    def test_rejects_unwritable_output_at_start(self):
        for wrong in ("missing/prompts.jsonl", "mt_bench"):
            done = subprocess.run(
                [
                    sys.executable,
                    copy_prompts.__file__,
                    "--data",
                    self.folder,
                    "--out",
                    os.path.join(self.folder, wrong),
                ],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(
                done.stderr, "error: argument --out: (folder .* does not exist|.* is a folder)"
            )

    def test_open_prompts_share_no_ten_words_with_benchmarks(self):
        found = copy_prompts.apart_from_benchmarks(self.folder)
        self.assertEqual(found["question"], [f"Which club was number {i}?" for i in range(9)])
        self.assertEqual(found["summary"], [])  # the made-up dialogues are the test set's
        self.assertEqual(
            set(found["instruct"]),
            {f"Question {i}" for i in range(30)} - {f"Question {i}" for i in range(40)},
        )
        self.assertEqual(found["maths"], ["How many?"])

    def test_splits_share_no_item(self):
        measured, training = copy_prompts.measured(self.folder), copy_prompts.to_train_on(
            self.folder
        )
        self.assertEqual(set(measured), {"summary", "code", "chat"})
        self.assertEqual((len(measured["summary"]), len(measured["chat"])), (30, 20))
        self.assertFalse(
            {p for prompts in measured.values() for p in prompts}
            & {p for prompts in training.values() for p in prompts}
        )
        functions = [{p.split("\n\n", 1)[1] for p in side["code"]} for side in (measured, training)]
        self.assertTrue(functions[0] and functions[1])
        self.assertFalse(functions[0] & functions[1])

    def test_open_texts_keep_answers_and_omit_measured_items(self):
        """Existing answers are kept; measured items are not trained on."""
        self.write(
            "dialogsum/dialogsum.dev.jsonl",
            [{"dialogue": f"#Person1#: Dialogue {i}?", "summary": f"About {i}."} for i in range(9)],
        )
        for part in ("seed_tasks", "user_oriented_instructions"):
            self.write(
                f"self_instruct/{part}.jsonl",
                [
                    {
                        "instruction": f"Task {part}",
                        "instances": [{"input": "of this", "output": "Done."}],
                    }
                ],
            )
        self.write(
            "gsm8k/train.jsonl",
            [
                {
                    "question": f"How many are {i} and 2?",
                    "answer": f"{i}+2=<<{i}+2={i + 2}>>{i + 2}.\n#### {i + 2}",
                }
                for i in range(400)
            ],
        )
        self.write(
            "wikisql/test.jsonl", [{"question": f"Which club was number {i}?"} for i in range(400)]
        )
        for name, text in (
            (
                "tinystories",
                "One fine day Lily found a dragon and was happy. The dragon was big, and Lily played with the dragon all day.",
            ),
            (
                "gutenberg",
                " ".join(
                    f"Sentence {i} has the words that it has, and no other ones."
                    for i in range(400)
                ),
            ),
        ):
            os.mkdir(os.path.join(self.folder, name))
            with open(
                os.path.join(self.folder, name, "made-up.txt"), "w", encoding="utf-8"
            ) as file:
                file.write(text)
        training, held = open_texts.split(self.folder)
        measured = open_texts.measured(self.folder, 5)
        for task in ("maths", "question"):
            self.assertEqual((len(training[task]) + len(held[task]), len(measured[task])), (400, 5))
        self.assertEqual(
            {len(measured[task]) for task in ("chat", "book")}, {5, min(5, len(held["book"]))}
        )
        for task, items in measured.items():
            self.assertFalse(
                {prompt for prompt, _ in items} & {prompt for prompt, _ in training.get(task, [])},
                task,
            )
        self.assertIn(
            ("How many are 3 and 2?", "3+2=5.\n#### 5"), training["maths"] + held["maths"]
        )
        self.assertIn(
            ("Summarize this dialogue: #Person1#: Dialogue 3?", "About 3."), training["summary"]
        )
        self.assertIn(("Task seed_tasks\n\nof this", "Done."), training["instruct"])
        self.assertIn(("Which club was number 3?", None), training["question"] + held["question"])
        book = dict(training["book"] + held["book"])
        first = next(prompt for prompt in book if "Sentence 0 has" in prompt)
        self.assertTrue(
            first.endswith("no other ones.") and len(first.split()) > open_texts.PASSAGE
        )
        self.assertIn(f"Continue this text:\n\n{book[first]}", book)


if __name__ == "__main__":
    unittest.main()
