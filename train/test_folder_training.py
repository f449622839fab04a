"""Training of drafters and targets from Hugging Face folders."""

import json
import os
import subprocess
import sys
import unittest

import torch

import distill
import distill_answers
import export
import train_open_target
from checkpoint import load_target
from data import collate
from traces import Traces
from folder_case import FolderCase


class FolderTrainingTest(FolderCase):
    def test_trains_and_exports_drafter_of_hugging_face_target(self):
        """A drafter for it trains on answers given as ids, and its folder has the target's head."""
        path = os.path.join(self.folder, "answers.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for number in range(80):
                file.write(
                    json.dumps(
                        {
                            "task": "chat",
                            "prompt": [number] + self.tokens[0, :4].tolist(),
                            "answer": self.tokens[1].tolist(),
                        }
                    )
                    + "\n"
                )
        training, held = distill_answers.read_answers(path, 100, 600)
        self.assertEqual((len(training), len(held["chat"])), (78, 2))
        self.assertEqual(distill_answers.read_answers(path, 100, 16)[0], training)
        target = load_target(self.folder).requires_grad_(False)
        drafter = distill.make_drafter("independent", target, 0.3)
        tokens, labels = collate(training[:2])
        found = distill.losses(
            {"independent": drafter},
            Traces(target, ()),
            tokens,
            labels,
            torch.tensor([4, 4]),
            torch.tensor([False, False]),
            {"independent": distill.Weights(1, 0.1, 0)},
        )
        found["independent"][0].backward()
        self.assertIsNotNone(drafter.model.layers[0].mlp.up_proj.weight.grad)
        folder = os.path.join(self.folder, "drafter")
        distill.kind_of("independent").write(folder, drafter)
        self.assertTrue(torch.equal(load_target(folder).lm_head.weight, self.target.lm_head.weight))

    def test_holds_out_all_answers_to_a_prompt(self):
        path = os.path.join(self.folder, "answers.jsonl")
        prompts = [[number, 7] for number in range(45)] + [[number, 8] for number in range(3)]
        entries = [
            {"task": "chat" if prompt[1] == 7 else "code", "prompt": prompt, "answer": [times, 2]}
            for prompt in prompts
            for times in range(3)
        ]
        sides = []
        for order in (1, -1):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries[::order])
            training, held = distill_answers.read_answers(path, 60, 600)
            self.assertEqual(
                (len(training), len(held["chat"]), len(held["code"])), (3 * (43 + 2), 3 * 2, 3 * 1)
            )
            unseen = {tuple(row.ids[:2]) for rows in held.values() for row in rows}
            self.assertFalse(unseen & {tuple(row.ids[:2]) for row in training})
            sides.append(unseen)
        self.assertEqual(*sides)

    def test_held_out_answers_are_the_same_at_any_length_limit(self):
        path = os.path.join(self.folder, "answers.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for number in range(50):
                for length in (3, 9) if number % 3 else (3,):
                    file.write(
                        json.dumps({"task": "chat", "prompt": [number], "answer": [2] * length})
                        + "\n"
                    )

        def prompts(rows):
            return {row.ids[0] for row in rows}

        training, held = distill_answers.read_answers(path, 60, 600)
        for limits in ((600, 5), (8, 2)):
            fewer, held_then = distill_answers.read_answers(path, 60, *limits)
            self.assertLessEqual(prompts(held_then["chat"]), prompts(held["chat"]))
            self.assertFalse(prompts(held["chat"]) & prompts(fewer))
            self.assertLess(len(fewer), len(training))

    def test_held_out_conversations_are_the_same_at_any_length_limit(self):
        """Conversations of several files, most of them over the shorter limit."""
        paths = [os.path.join(self.folder, name) for name in ("given.jsonl", "drawn.jsonl")]
        for path, every in zip(paths, (3, 1)):
            with open(path, "w", encoding="utf-8") as file:
                for number in range(0, 400, every):
                    answer = [] if every == 3 else [2] * (9 if number % 3 else 3)
                    file.write(
                        json.dumps(
                            {
                                "task": "chat",
                                "prompt": [number // 20, number % 20],
                                "answer": answer,
                            }
                        )
                        + "\n"
                    )

        def prompts(rows):
            return {tuple(row.ids[:2]) for row in rows}

        training, held = train_open_target.read_conversations(paths, 60, 600)
        self.assertEqual((len(prompts(training)), len(prompts(held["chat"]))), (390, 10))
        fewer, held_then = train_open_target.read_conversations(paths, 60, 8)
        self.assertLess(len(fewer), len(training))
        self.assertLessEqual(prompts(held_then["chat"]), prompts(held["chat"]))
        self.assertFalse(prompts(held["chat"]) & prompts(fewer))

    def test_names_line_of_bad_answer(self):
        path = os.path.join(self.folder, "answers.jsonl")
        for line in (
            '{"task": "chat"',
            '{"task": "chat", "prompt": [1]}',
            '{"task": "chat", "prompt": "a text", "answer": "another"}',
            '{"task": "chat", "prompt": [1], "answer": [2.5]}',
            '{"task": "chat", "prompt": [1], "answer": [60]}',
            "[]",
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"task": "chat", "prompt": [1], "answer": [2]}\n' + line + "\n")
            with self.assertRaises(SystemExit, msg=line) as caught:
                distill_answers.read_answers(path, 60, 600)
            self.assertIn("line 2", str(caught.exception))
        with self.assertRaises(SystemExit):
            distill_answers.read_answers(path + ".missing", 60, 600)

    def test_runs_of_equal_steps_see_same_batches(self):
        """A drafter learns the same alone and beside others, given equal steps, at any speed."""
        path = os.path.join(self.folder, "answers.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(80):
                row = torch.randint(0, 60, (12,)).tolist()
                file.write(
                    json.dumps({"task": "chat", "prompt": row[:4], "answer": row[4:]}) + "\n"
                )
        runs = []
        for names in (["moa-tli0"], ["eagle", "moa-tli0"]):
            out = os.path.join(self.folder, f"{len(names)}.pt")
            arguments = [
                "--target",
                self.folder,
                "--answers",
                path,
                "--out",
                out,
                "--tokens",
                "96",
                "--longest",
                "16",
                "--share",
                "0.6",
                "--steps",
                "5",
                "--warmup",
                "2",
                "--threads",
                "1",
                "--drafters",
                *names,
            ]
            done = subprocess.run(
                [sys.executable, distill_answers.__file__, *arguments],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            runs.append(torch.load(out))
        self.assertEqual(
            [(run["step"], run["tokens"]) for run in runs], [(5, runs[0]["tokens"])] * 2
        )
        alone, beside = (run["drafters"]["moa-tli0"]["weights"] for run in runs)
        self.assertEqual([name for name in alone if not torch.equal(alone[name], beside[name])], [])
        # The training's cost is saved with the drafter.
        folder = os.path.join(self.folder, "hf")
        subprocess.run(
            [
                sys.executable,
                export.__file__,
                "--target",
                self.folder,
                "--drafters",
                os.path.join(self.folder, "2.pt"),
                "--out",
                folder,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with open(os.path.join(folder, "eagle", "config.json"), encoding="utf-8") as file:
            record = json.load(file)["edgedraft_training"]
        self.assertEqual(
            (record["steps"], record["tokens"], record["drafters"]), (5, runs[1]["tokens"], 2)
        )

    def test_trains_target_on_ids(self):
        """A target of the requested shape, in a folder with the other's tokenizer; it learns prompts and answers."""
        path, out, folder = (
            os.path.join(self.folder, name) for name in ("text.jsonl", "new.pt", "new")
        )
        tokenizer = ("tokenizer.json", "added_tokens.json", "chat_template.jinja")
        for name in tokenizer:
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write("{}")
        with open(path, "w", encoding="utf-8") as file:
            # every id is followed by the next one; half of the texts have no answer
            for number in range(80):
                row = [(number + i) % 50 + 3 for i in range(12)]
                file.write(
                    json.dumps(
                        {"task": "chat", "prompt": row, "answer": []}
                        if number % 2
                        else {"task": "chat", "prompt": row[:4], "answer": row[4:]}
                    )
                    + "\n"
                )

        def trained(*more, conversations=path):
            arguments = [
                "--conversations",
                conversations,
                "--like",
                self.folder,
                "--out",
                out,
                "--hf",
                folder,
                "--tokens",
                "96",
                "--longest",
                "16",
                "--warmup",
                "2",
                "--threads",
                "1",
                "--hidden",
                "32",
                "--layers",
                "2",
                "--heads",
                "4",
                "--kv-heads",
                "2",
                "--head-dim",
                "8",
                "--ffn",
                "40",
                "--qwen2",
                *more,
            ]
            return subprocess.run(
                [sys.executable, train_open_target.__file__, *arguments],
                capture_output=True,
                text=True,
            )

        done = trained("--steps", "150", "--muon-lr", "0.02", "--residual-lr", "0.25")
        self.assertEqual(done.returncode, 0, done.stderr)
        target = load_target(folder)
        self.assertEqual(
            (
                target.config.num_hidden_layers,
                target.config.intermediate_size,
                target.config.attention_bias,
            ),
            (2, 40, True),
        )
        row = torch.tensor([[(7 + i) % 50 + 3 for i in range(12)]])
        right = target(row).logits[0, :-1].argmax(-1) == row[0, 1:]
        self.assertTrue(bool(right.all()), right)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
            like = json.load(file)
        self.assertEqual(
            [config[key] for key in ("bos_token_id", "eos_token_id")],
            [like[key] for key in ("bos_token_id", "eos_token_id")],
        )
        self.assertEqual(
            [name for name in tokenizer if not os.path.exists(os.path.join(folder, name))], []
        )
        self.assertEqual(config["max_position_embeddings"], 1024)
        self.assertIn(
            "already has its 150 steps", trained("--steps", "150").stdout
        )  # continues from its checkpoint
        longer = trained("--steps", "151", "--tokens", "3000", "--longest", "1500")
        self.assertEqual(
            longer.returncode, 0, longer.stderr
        )  # it keeps the context of its training
        self.assertEqual(load_target(folder).config.max_position_embeddings, 1500)
        foreign = os.path.join(self.folder, "foreign.jsonl")
        with open(foreign, "w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"task": "chat", "prompt": [i], "answer": [60, 2]}) + "\n"
                for i in range(9)
            )
        for wrong, named in (
            (trained("--steps", "150", conversations=foreign), "id 60"),
            (trained("--kv-heads", "3"), "--kv-heads 3"),
            (trained(conversations=path + ".missing"), "text.jsonl.missing"),
        ):
            self.assertNotEqual(wrong.returncode, 0)
            self.assertIn("error: ", wrong.stderr)
            self.assertIn(named, wrong.stderr)


if __name__ == "__main__":
    unittest.main()
