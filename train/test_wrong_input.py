"""Unusable files and options: programs report one line before they compute anything."""

import contextlib
import dataclasses
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

import torch

import answer_prompts
import calibrate
import distill
import distill_answers
import evaluate
import export
import parallel
import train_open_target
import tune_medusa
from checkpoint import load_checkpoint, write_llama
from generate import written
from model import Llama, LlamaConfig


class WrongInputTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.target = Llama(
            LlamaConfig(
                vocab_size=60,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                intermediate_size=40,
            )
        )
        write_llama(self.path("target"), self.target)
        self.entries(
            "answers.jsonl",
            [{"task": "chat", "prompt": [i, 4], "answer": [5, 6, 2]} for i in range(50)],
        )
        self.addCleanup(torch.set_grad_enabled, torch.is_grad_enabled())

    def path(self, name):
        return os.path.join(self.folder, name)

    def entries(self, name, entries):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    def refused(self, program, *arguments):
        """Output of a program that exits at once with these arguments."""
        said = io.StringIO()
        with unittest.mock.patch.object(
            sys, "argv", ["program", *map(str, arguments)]
        ), contextlib.redirect_stderr(said), contextlib.redirect_stdout(
            io.StringIO()
        ), self.assertRaises(
            SystemExit
        ) as caught:
            program.main()
        self.assertNotEqual(caught.exception.code, 0)
        return f"{said.getvalue()}{caught.exception.code}"

    def test_rejects_files_that_are_no_target(self):
        answers, nowhere = self.path("answers.jsonl"), self.path("nowhere")
        for program, arguments in (
            (distill_answers, ("--out", self.path("d.pt"))),
            (evaluate, ()),
            (calibrate, ("--drafter", nowhere)),
        ):
            self.assertIn(
                f"{nowhere}: No such file",
                self.refused(program, "--target", nowhere, "--answers", answers, *arguments),
            )
            self.assertIn(
                f"{answers} is not a checkpoint",
                self.refused(program, "--target", answers, "--answers", answers, *arguments),
            )
        self.entries("prompts.jsonl", [{"task": "chat", "prompt": [3]}])
        asking = ("--prompts", self.path("prompts.jsonl"), "--out", self.path("a.jsonl"))
        self.assertIn("not a folder", self.refused(answer_prompts, "--target", nowhere, *asking))

    def test_rejects_checkpoints_of_another_program(self):
        drafters, tuned = self.path("drafters.pt"), self.path("tuned.pt")
        where = {"step": 1, "elapsed": 1.0, "tokens": 9, "seed": 1}
        torch.save({"adapters": {}, "heads": {}, "rank": 32, "alpha": 16.0, **where}, tuned)
        torch.save({"drafters": {}, **where}, drafters)
        target, answers = self.path("target"), self.path("answers.jsonl")
        for said in (
            self.refused(export, "--target", target, "--drafters", tuned, "--out", self.path("hf")),
            self.refused(evaluate, "--target", target, "--answers", answers, "--drafters", tuned),
            self.refused(
                distill_answers,
                "--target",
                target,
                "--answers",
                answers,
                "--out",
                tuned,
                "--drafters",
                "independent",
                "--share",
                0.6,
            ),
        ):
            self.assertIn(f"{tuned} is a checkpoint of tune_*.py", said)
        said = self.refused(
            tune_medusa,
            "--target",
            target,
            "--answers",
            answers,
            "--out",
            drafters,
            "--hf",
            self.path("hf"),
        )
        self.assertIn(f"{drafters} is a checkpoint of distill.py", said)
        self.assertIn(
            "a checkpoint of distill.py",
            self.refused(evaluate, "--target", drafters, "--answers", answers),
        )

    def test_rejects_checkpoints_that_would_run_code(self):
        class Code:
            def __reduce__(self):
                return os.mkdir, (made,)

        made, path = self.path("made"), self.path("code.pt")
        torch.save({"model": Code()}, path)
        with self.assertRaisesRegex(SystemExit, "mkdir, which could run code"):
            load_checkpoint(path, "model")
        self.assertFalse(os.path.exists(made))

    def test_rejects_adapters_of_another_shape(self):
        tuned = self.path("tuned.pt")
        base = (
            "--target",
            self.path("target"),
            "--answers",
            self.path("answers.jsonl"),
            "--out",
            tuned,
            "--hf",
            self.path("hf"),
        )
        torch.save(
            {
                "adapters": {},
                "heads": {},
                "rank": 8,
                "alpha": 4.0,
                "step": 1,
                "elapsed": 1.0,
                "tokens": 9,
                "seed": 1,
            },
            tuned,
        )
        for other in (("--rank", 8), ("--alpha", 4), ("--rank", 4, "--alpha", 4)):
            self.assertIn("--rank 8 --alpha 4;", self.refused(tune_medusa, *base, *other))

    def test_checks_output_folders_at_start(self):
        target, answers, out = (self.path("target"), self.path("answers.jsonl"), self.path("m.pt"))
        torch.save({"model": self.target.state_dict(), "config": {}}, self.path("target.pt"))
        self.assertIn(
            "target.pt is not a folder",
            self.refused(
                tune_medusa,
                "--target",
                self.path("target.pt"),
                "--answers",
                answers,
                "--out",
                out,
                "--hf",
                self.path("hf"),
            ),
        )
        for wrong in (answers, os.path.join(answers, "below")):
            for program, source in (
                (tune_medusa, ("--target", target, "--answers", answers)),
                (train_open_target, ("--like", target, "--conversations", answers)),
            ):
                self.assertIn(
                    f"{answers} is not a folder",
                    self.refused(program, *source, "--out", out, "--hf", wrong),
                )

    def test_rejects_numbers_out_of_range(self):
        target, answers = self.path("target"), self.path("answers.jsonl")
        self.assertIn(
            "--count",
            self.refused(
                calibrate,
                "--target",
                target,
                "--answers",
                answers,
                "--drafter",
                target,
                "--count",
                0,
            ),
        )
        self.assertIn(
            "--limit must be 2",
            self.refused(
                calibrate,
                "--target",
                target,
                "--answers",
                answers,
                "--drafter",
                target,
                "--limit",
                1,
            ),
        )
        self.assertIn(
            "--chain",
            self.refused(evaluate, "--target", target, "--answers", answers, "--chain", "four"),
        )
        asking = ("--target", target, "--prompts", answers, "--out", self.path("new.jsonl"))
        for option, wrong in (("--temperature", -1), ("--limit", 0), ("--batch", 0), ("--jobs", 0)):
            self.assertIn(option, self.refused(answer_prompts, *asking, option, wrong))
        training = ("--target", target, "--answers", answers, "--out", self.path("d.pt"))
        for option, wrong in (
            ("--threads", 0),
            ("--minutes", 0),
            ("--minutes", "nan"),
            ("--share", "nan"),
            ("--share", "inf"),
            ("--share", 0),
            ("--keep", "nan"),
            ("--keep", "inf"),
        ):
            self.assertIn(option, self.refused(distill_answers, *training, option, wrong))
        for program, arguments in ((calibrate, ("--drafter", target)), (evaluate, ())):
            self.assertIn(
                "--threads",
                self.refused(
                    program, "--target", target, "--answers", answers, *arguments, "--threads", 0
                ),
            )

    def test_rejects_unknown_or_oversized_drafters(self):
        training = (
            "--target",
            self.path("target"),
            "--answers",
            self.path("answers.jsonl"),
            "--out",
            self.path("d.pt"),
            "--share",
            0.9,
        )
        for name, told in (
            ("independent-0", "unknown drafter 'independent-0'"),
            ("independent-3", "the target, which has 2"),
            ("moa-tli2", "a target of 2; at most 1"),
        ):
            said = self.refused(distill_answers, *training, "--drafters", name)
            self.assertIn(told, said)
            self.assertNotIn("90%", said)

    def test_rejects_drafters_of_another_target(self):
        """A target that is wider, has another vocabulary or head, or fewer layers than MoA runs."""
        torch.manual_seed(3)
        shape = self.target.config
        for change, names in (
            ({"hidden_size": 48}, ("moa-tli1", "eagle", "medusa", "independent")),
            ({"vocab_size": 61}, ("independent",)),
            ({"tie_word_embeddings": False}, ("independent",)),
            ({"num_hidden_layers": 4}, ("moa-tli3",)),
        ):
            other = Llama(dataclasses.replace(shape, **change))
            for name in names:
                drafters = self.path(f"{name}.pt")
                record = distill.drafter_record(name, distill.make_drafter(name, other, 0.9))
                torch.save(
                    {"drafters": {name: record}, "step": 1, "elapsed": 1.0, "tokens": 9, "seed": 1},
                    drafters,
                )
                self.assertEqual([*distill.load_drafters(drafters, other)], [name])
                said = self.refused(
                    evaluate,
                    "--target",
                    self.path("target"),
                    "--answers",
                    self.path("answers.jsonl"),
                    "--drafters",
                    drafters,
                )
                self.assertIn(f"{drafters}: its {name} does not match --target: ", said)

    def test_rejects_prompts_that_are_not_target_ids(self):
        asking = (
            "--target",
            self.path("target"),
            "--prompts",
            self.path("prompts.jsonl"),
            "--out",
            self.path("new.jsonl"),
        )
        for wrong, told in (
            ([60], "the id 60 is outside"),
            ([], "the prompt is empty"),
            ([-1], "must be ids"),
            (["a"], "must be ids"),
        ):
            self.entries(
                "prompts.jsonl",
                [{"task": "chat", "prompt": [3]}, {"task": "chat", "prompt": wrong}],
            )
            # would restart this program
            with unittest.mock.patch.object(parallel, "environment"):
                said = self.refused(answer_prompts, *asking)
            self.assertIn("prompts.jsonl, line 2: ", said)
            self.assertIn(told, said)

    def test_names_missing_option(self):
        self.assertIn(
            "--answers is missing", self.refused(evaluate, "--target", self.path("target"))
        )
        self.assertIn(
            "--tokenizer is missing", self.refused(evaluate, "--target", self.path("target.pt"))
        )
        training = (
            "--target",
            self.path("target"),
            "--answers",
            self.path("answers.jsonl"),
            "--out",
            self.path("d.pt"),
        )
        for option, value in (("--shortest", 4), ("--longest", 4)):
            self.assertIn(
                f"; of its 50 answers {option} skips 50",
                self.refused(distill_answers, *training, option, value),
            )

    def test_rejects_files_without_usable_answers(self):
        self.entries("empty.jsonl", [])
        self.entries(
            "short.jsonl", [{"task": "chat", "prompt": [i, 4], "answer": [2]} for i in range(50)]
        )
        target = self.path("target")
        for name in ("empty.jsonl", "short.jsonl"):
            self.assertIn(
                f"{name} has no answers",
                self.refused(
                    evaluate, "--target", target, "--answers", self.path(name), "--every-answer"
                ),
            )
            said = self.refused(
                distill_answers,
                "--target",
                target,
                "--answers",
                self.path(name),
                "--shortest",
                0,
                "--out",
                self.path("d.pt"),
            )
            self.assertIn(f"{name} has too few prompts", said)
            self.assertNotIn("skips", said)

    def test_rejects_answers_that_are_all_sampled(self):
        drafter = self.path("heads")
        distill.kind_of("medusa").write(drafter, distill.make_drafter("medusa", self.target, 0.9))
        greedy = {i: written(self.target, [], [[i, 4]], 3)[0] for i in range(4)}
        self.entries(
            "mixed.jsonl",
            [
                {"task": task, "prompt": [i, 4], "answer": [(answer[0] + other) % 60, *answer[1:]]}
                for task, other in (("chat", 1), ("code", 1))
                for i, answer in greedy.items()
            ],
        )
        said = self.refused(
            calibrate,
            "--target",
            self.path("target"),
            "--answers",
            self.path("mixed.jsonl"),
            "--drafter",
            drafter,
            "--walk",
            2,
        )
        self.assertIn("no greedy held-out answers", said)


if __name__ == "__main__":
    unittest.main()
