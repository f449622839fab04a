"""Targets and drafters in Hugging Face folders, and targets from GGUF files."""

import argparse
import dataclasses
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import torch

import answer_prompts
import distill
import distill_answers
import export
import train_open_target
import unpack_gguf
from checkpoint import load_target, read_safetensors, write_llama, write_safetensors
from data import collate
from drafters import eagle, moa
from end_ids import END_TEXTS, end_ids
from generate import written
from model import Llama, LlamaConfig
from split import SHIPPED
from traces import Traces


class HuggingFaceTest(unittest.TestCase):
    """Saves and reloads a target and its drafters through a Hugging Face folder."""

    def setUp(self):
        torch.manual_seed(6)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "target")
        self.target = Llama(
            LlamaConfig(
                vocab_size=60,
                hidden_size=32,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                intermediate_size=40,
                tie_word_embeddings=False,
            )
        ).eval()
        write_llama(self.folder, self.target)
        self.tokens = torch.randint(0, 60, (2, 11))

    def set_config(self, **values):
        path = os.path.join(self.folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = {**json.load(file), **values}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({key: value for key, value in config.items() if value is not None}, file)

    def test_stored_head_overrides_tied_head(self):
        self.set_config(tie_word_embeddings=True, head_dim=None)
        loaded = load_target(self.folder)
        self.assertFalse(loaded.config.tie_word_embeddings)
        self.assertTrue(torch.equal(loaded(self.tokens).logits, self.target(self.tokens).logits))

    def test_tied_head_equals_embedding(self):
        tied = Llama(dataclasses.replace(self.target.config, tie_word_embeddings=True)).eval()
        write_llama(self.folder, tied, dtype=torch.float16)
        loaded = load_target(self.folder)
        self.assertIs(loaded.head_weight, loaded.model.embed_tokens.weight)
        self.assertTrue(
            torch.allclose(loaded(self.tokens).logits, tied(self.tokens).logits, atol=0.05)
        )

    def test_reads_rope_of_newer_configs(self):
        llama3 = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
        for values, theta, scaling in (
            (
                dict(
                    rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 500.0}
                ),
                500.0,
                None,
            ),
            (dict(rope_theta=1e6, rope_parameters={"rope_type": "default"}), 1e6, None),
            (
                dict(rope_theta=100.0, rope_parameters={"rope_theta": 5e5}, rope_scaling=llama3),
                5e5,
                llama3,
            ),
            (
                dict(
                    rope_theta=None,
                    rope_scaling=None,
                    rope_parameters={"rope_theta": 5e5, **llama3},
                ),
                5e5,
                {"rope_theta": 5e5, **llama3},
            ),
        ):
            write_llama(self.folder, self.target)
            self.set_config(**values)
            config = load_target(self.folder).config
            self.assertEqual((config.rope_theta, config.rope_scaling), (theta, scaling))

    def test_reads_sharded_qwen2(self):
        """Biases on q, k and v, and an index of weight files."""
        qwen = Llama(dataclasses.replace(self.target.config, attention_bias=True)).eval()
        write_llama(self.folder, qwen)
        self.assertTrue(
            torch.equal(load_target(self.folder)(self.tokens).logits, qwen(self.tokens).logits)
        )
        self.set_config(attention_bias=None)  # as in published ones
        whole = os.path.join(self.folder, "model.safetensors")
        tensors = sorted(read_safetensors(whole).items())
        os.remove(whole)
        for file, part in (("a.safetensors", tensors[::2]), ("b.safetensors", tensors[1::2])):
            write_safetensors(os.path.join(self.folder, file), dict(part))
        with open(whole + ".index.json", "w", encoding="utf-8") as file:
            json.dump(
                {
                    "weight_map": {
                        name: "ab"[i % 2] + ".safetensors" for i, (name, _) in enumerate(tensors)
                    }
                },
                file,
            )
        target = load_target(self.folder)
        self.assertTrue(torch.equal(target(self.tokens).logits, qwen(self.tokens).logits))
        for name in ("moa-tli1", "eagle", "medusa", "independent"):
            size = sum(
                p.numel()
                for _, p in distill.trainable(name, distill.make_drafter(name, target, 0.6))
            )
            self.assertLessEqual(size, 0.6 * target.count_parameters(), name)

    def test_rejects_unsupported_configs(self):
        for values, named in (
            ({"model_type": "mamba"}, "mamba"),
            ({"hidden_act": "gelu"}, "gelu"),
            ({"mlp_bias": True}, "mlp_bias"),
            ({"num_hidden_layers": 4}, "layers.3"),
            ({"hidden_size": None}, "hidden_size"),
            ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
            ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
            ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ):
            write_llama(self.folder, self.target)
            self.set_config(**values)
            with self.assertRaises(SystemExit, msg=named) as caught:
                load_target(self.folder)
            self.assertIn(named, str(caught.exception))

    def test_names_truncated_files(self):
        path = os.path.join(self.folder, "model.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        for content in (
            b"version https://git-lfs.github.com/spec/v1",
            b"",
            whole[:500],
            whole[:-1],
        ):
            with open(path, "wb") as file:
                file.write(content)
            with self.assertRaises(SystemExit) as caught:
                load_target(self.folder)
            self.assertIn("model.safetensors", str(caught.exception))
            self.assertIn("truncated", str(caught.exception))

    def test_batches_answers_of_any_prompt_length(self):
        """A task's prompts of any length share passes; each answer belongs to its own prompt and includes the end."""
        prompts = [
            self.tokens[0, :5].tolist(),
            self.tokens[1, :3].tolist(),
            self.tokens[1, :5].tolist(),
            self.tokens[0, 6:].tolist(),
        ]
        likeliest = int(self.target(torch.tensor(prompts[:1])).logits[0, -1].argmax())
        for ends in (2, [likeliest, 59]):
            self.set_config(eos_token_id=ends)
            options = argparse.Namespace(
                target=self.folder, device="cpu", batch=2, jobs=1, limit=9, temperature=0, seed=1
            )
            answers = dict(
                answer_prompts.written_here(options, ["chat", "chat", "chat", "code"], prompts)
            )
            for index, prompt in enumerate(prompts):
                expected = []
                while len(expected) < 9:
                    token = int(
                        self.target(torch.tensor([prompt + expected])).logits[0, -1].argmax()
                    )
                    expected.append(token)
                    if token in ([ends] if ends == 2 else ends):
                        break
                self.assertEqual(answers[index], expected)
        self.assertEqual(answers[0], [likeliest])

    def test_end_texts_equal_those_of_the_server(self):
        with open(
            os.path.join(
                os.path.dirname(__file__),
                os.pardir,
                "shared",
                "model",
                "tokenizer",
                "vocabulary.cpp",
            ),
            encoding="utf-8",
        ) as file:
            texts = re.search(r"kEndTexts\[\] = \{(.*?)\};", file.read(), re.S).group(1)
        self.assertEqual(sorted(re.findall(r'"(.*?)"', texts)), sorted(END_TEXTS))

    def test_finds_every_id_that_ends_an_answer(self):
        """The same ids as edgedraft convert and a server find in the folder."""

        def written_in_folder(name, values):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                json.dump(values, file)

        self.set_config(eos_token_id=None)
        with self.assertRaises(SystemExit) as caught:
            end_ids(self.folder)
        self.assertIn("eos_token_id", str(caught.exception))
        written_in_folder("generation_config.json", {"eos_token_id": [7, 2]})
        self.assertEqual(end_ids(self.folder), [2, 7])
        self.set_config(eos_token_id=5)
        self.assertEqual(end_ids(self.folder), [2, 5, 7])
        # The tokenizer's own end, from any file that defines it.
        for vocabulary in ({"a": 0, "</s>": 9}, [["a", 0.0]] * 9 + [["</s>", -1.0]]):
            written_in_folder(
                "tokenizer.json",
                {
                    "model": {"vocab": vocabulary},
                    "added_tokens": [{"id": 10, "content": "<|eom_id|>"}],
                },
            )
            for end in ("</s>", {"content": "</s>"}):
                written_in_folder("tokenizer_config.json", {"eos_token": end})
                self.assertEqual(end_ids(self.folder), [2, 5, 7, 9, 10])
        # An added token that ends an answer by its spelling.
        written_in_folder("added_tokens.json", {"<|im_start|>": 11, "<|im_end|>": 12})
        written_in_folder(
            "tokenizer_config.json",
            {"eos_token": None, "added_tokens_decoder": {"13": {"content": "<|eot_id|>"}}},
        )
        self.assertEqual(end_ids(self.folder), [2, 5, 7, 10, 12, 13])
        written_in_folder("added_tokens.json", ["<|im_end|>"])
        with self.assertRaises(SystemExit):
            end_ids(self.folder)

    def test_sampled_answers_follow_target_distribution(self):
        """The first ids of many sampled answers match the target's distribution, and a seed reproduces them."""
        prompt = self.tokens[0, :5].tolist()
        law = (self.target(torch.tensor([prompt])).logits[0, -1] / 0.7).softmax(-1)

        def first_ids(seed):
            options = argparse.Namespace(
                target=self.folder,
                device="cpu",
                batch=500,
                jobs=1,
                limit=1,
                temperature=0.7,
                seed=seed,
            )
            return [
                answer[0]
                for _, answer in sorted(
                    answer_prompts.written_here(options, ["chat"] * 2000, [prompt] * 2000)
                )
            ]

        drawn = first_ids(3)
        self.assertEqual(first_ids(3), drawn)
        self.assertNotEqual(first_ids(4), drawn)
        shares = torch.bincount(torch.tensor(drawn), minlength=60) / len(drawn)
        self.assertLess(float((shares - law).abs().max()), 5 * (0.25 / len(drawn)) ** 0.5)

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
            for number in range(
                80
            ):  # every id is followed by the next one; half of the texts have no answer
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

    def test_tokenizes_given_answers(self):
        """Texts of a file become ids followed by the end; prompts given as ids stay unchanged."""
        program, asked, out = (
            os.path.join(self.folder, name) for name in ("tokenizer", "asked.jsonl", "given.jsonl")
        )
        with open(
            program, "w", encoding="utf-8"
        ) as file:  # stands in for edgedraft tokenize: the text's length, and 9 for --chat
            file.write('#!/bin/sh\ncase "$*" in *--chat*) printf "9 ";; esac\nwc -c\n')
        os.chmod(program, 0o755)
        with open(asked, "w", encoding="utf-8") as file:
            file.writelines(
                json.dumps(entry) + "\n"
                for entry in (
                    {"task": "a", "prompt": "four", "answer": "seven 7"},
                    {"task": "b", "prompt": [5, 6]},
                )
            )
        base = [
            sys.executable,
            answer_prompts.__file__,
            "--prompts",
            asked,
            "--out",
            out,
            "--model",
            "any.gguf",
            "--edgedraft",
            program,
        ]
        subprocess.run([*base, "--given", "--end", "2"], check=True, stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(
                [json.loads(line) for line in file],
                [
                    {"task": "a", "prompt": [9, 4], "answer": [7, 2]},
                    {"task": "b", "prompt": [5, 6], "answer": []},
                ],
            )
        for wrong in (
            ["--given"],
            ["--end", "2"],
            ["--given", "--end", "2", "--prompts", program],
            ["--given", "--end", "2", "--target", self.folder],
            ["--server", "a:1", "--pin", "sha256:0"],
        ):
            self.assertEqual(
                subprocess.run([*base, *wrong], capture_output=True).returncode, 2, wrong
            )

    def test_ignores_user_settings_except_sign_in(self):
        """Masking, another template or other sampling would change the answers; only sign-in settings are passed on."""
        program, asked, out, said = (
            os.path.join(self.folder, name)
            for name in ("edgedraft", "asked.jsonl", "answers.jsonl", "said")
        )
        with open(program, "w", encoding="utf-8") as file:  # records its arguments and settings
            file.write(
                f"""#!/bin/sh
echo "$@" >> {said}
env | grep -E 'EDGEDRAFT_|XDG_CONFIG_HOME' >> {said}
[ -e "$XDG_CONFIG_HOME/edgedraft/edgedraft.toml" ] && echo configured >> {said}
case $1 in tokenize) echo 9;; *) echo '{{"tokens": [5, 2]}}';; esac
"""
            )
        os.chmod(program, 0o755)
        with open(asked, "w", encoding="utf-8") as file:
            file.write(
                json.dumps({"task": "a", "prompt": "at <private>the beach</private>"}) + "\n"
            )
        os.makedirs(os.path.join(self.folder, "config", "edgedraft"))
        with open(
            os.path.join(self.folder, "config", "edgedraft", "edgedraft.toml"),
            "w",
            encoding="utf-8",
        ) as file:
            file.write('private-detect = "all"\n')
        subprocess.run(
            [
                sys.executable,
                answer_prompts.__file__,
                "--prompts",
                asked,
                "--out",
                out,
                "--model",
                "any.gguf",
                "--edgedraft",
                program,
                "--server",
                "a:1",
                "--pin",
                "sha256:0",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            env={
                **os.environ,
                "EDGEDRAFT_PRIVATE_DETECT": "all",
                "EDGEDRAFT_TOP_P": "0.5",
                "EDGEDRAFT_CHAT_TEMPLATE": "t.jinja",
                "EDGEDRAFT_TOKEN_FILE": "token",
                "XDG_CONFIG_HOME": os.path.join(self.folder, "config"),
            },
        )
        with open(said, encoding="utf-8") as file:
            tokenize, *settings = file.read().splitlines()
        self.assertEqual(
            len([line for line in settings if line.startswith("run ") and "--private off" in line]),
            1,
        )
        self.assertEqual(
            {line for line in settings if line.startswith("EDGEDRAFT_")},
            {"EDGEDRAFT_TOKEN_FILE=token"},
        )
        self.assertNotIn("configured", settings)

    def test_reads_prompts_from_a_pipe(self):
        """With --target the program restarts before it reads them; a file without prompts is refused."""
        self.set_config(eos_token_id=2)
        out = os.path.join(self.folder, "answers.jsonl")
        base = [
            sys.executable,
            answer_prompts.__file__,
            "--target",
            self.folder,
            "--prompts",
            "/dev/stdin",
            "--out",
            out,
            "--limit",
            "3",
        ]
        asked = "".join(
            json.dumps({"task": "a", "prompt": [5, number]}) + "\n" for number in range(2)
        )
        environment = {
            name: value for name, value in os.environ.items() if name != "MALLOC_MMAP_MAX_"
        }  # set by the restart
        done = subprocess.run(base, input=asked, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, encoding="utf-8") as file:
            before = file.read()
        self.assertEqual(
            [json.loads(line)["prompt"] for line in before.splitlines()], [[5, 0], [5, 1]]
        )
        refused = subprocess.run(base, input="", capture_output=True, text=True, env=environment)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("has no prompts", refused.stderr)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)

    def test_uses_a_seed_per_answer_and_keeps_answers_after_failure(self):
        program, asked, out = (
            os.path.join(self.folder, name)
            for name in ("edgedraft", "asked.jsonl", "answers.jsonl")
        )
        with open(asked, "w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"task": "a", "prompt": "the same"}) + "\n" for _ in range(3)
            )
        base = [
            sys.executable,
            answer_prompts.__file__,
            "--prompts",
            asked,
            "--out",
            out,
            "--model",
            "any.gguf",
            "--edgedraft",
            program,
            "--server",
            "a:1",
            "--pin",
            "sha256:0",
            "--seed",
            "5",
            "--temperature",
            "1",
        ]

        def ask(last_step):
            with open(
                program, "w", encoding="utf-8"
            ) as file:  # its answer is the seed, the last of its arguments
                file.write(
                    "#!/bin/sh\ncase $1 in tokenize) echo 9;; *) for last; do :; done; "
                    + last_step
                    + ";; esac\n"
                )
            os.chmod(program, 0o755)
            return subprocess.run(base, capture_output=True, text=True)

        self.assertEqual(ask("echo '{\"tokens\": ['$last']}'").returncode, 0)
        with open(out, encoding="utf-8") as file:
            before = file.read()
        self.assertEqual(
            [json.loads(line)["answer"] for line in before.splitlines()], [[5], [6], [7]]
        )
        failed = ask("exit 3")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("error: ", failed.stderr)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(subprocess.run([*base, "--out", asked], capture_output=True).returncode, 2)
        # The next run does not overwrite answers from before a failure.
        answered = "echo '{\"tokens\": ['$last']}'"
        failed = ask(f"[ $last = 7 ] && exit 3; {answered}")
        self.assertIn("holds the 2 answers so far", failed.stderr)
        with open(out + ".new", encoding="utf-8") as file:
            so_far = file.read()
        self.assertEqual(len(so_far.splitlines()), 2)
        refused = ask(answered)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("answers.jsonl.new", refused.stderr)
        with open(out + ".new", encoding="utf-8") as file:
            self.assertEqual(file.read(), so_far)
        os.remove(out + ".new")
        self.assertEqual(ask(answered).returncode, 0)


def gguf_string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(item):
    """A value preceded by its type."""
    if isinstance(item, list):
        whole = [gguf_value(element) for element in item]
        return (
            struct.pack("<I", 9)
            + whole[0][:4]
            + struct.pack("<Q", len(item))
            + b"".join(element[4:] for element in whole)
        )
    if isinstance(item, str):
        return struct.pack("<I", 8) + gguf_string(item)
    form, kind = {bool: ("?", 7), int: ("I", 4), float: ("f", 6)}[type(item)]
    return struct.pack("<I" + form, kind, item)


def gguf_file(metadata, tensors):
    """Bytes of a file with the tensors (type, shape, bytes)."""
    table, data = b"", b""
    for name, (kind, shape, content) in tensors.items():
        table += gguf_string(name) + struct.pack(
            f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(data)
        )
        data += content + bytes(-len(content) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(gguf_string(key) + gguf_value(item) for key, item in metadata.items()) + table
    return head + bytes(-len(head) % 32) + data


class UnpackGgufTest(unittest.TestCase):
    """The folder of a GGUF file contains the file's model."""

    def setUp(self):
        torch.manual_seed(8)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path, self.folder = os.path.join(folder.name, "model.gguf"), os.path.join(
            folder.name, "hf"
        )
        self.target = Llama(
            LlamaConfig(
                vocab_size=40,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=16,
                intermediate_size=64,
                rope_theta=500.0,
            )
        ).eval()
        pieces = (
            ["<unk>", "<s>", "</s>"]
            + [chr(97 + i) for i in range(26)]
            + ["\u2581", "ab", "ba", "aba", "\u2581a"]
        )
        pieces += [f"<unused{i}>" for i in range(40 - len(pieces))]
        self.metadata = {
            "general.architecture": "llama",
            "llama.block_count": 2,
            "llama.context_length": 99,
            "llama.embedding_length": 32,
            "llama.feed_forward_length": 64,
            "llama.attention.head_count": 4,
            "llama.attention.head_count_kv": 2,
            "llama.attention.key_length": 16,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 500.0,
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.scores": [-float(i) for i in range(40)],
            "tokenizer.ggml.token_type": [2, 3, 3] + [1] * 31 + [5] * 6,
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.add_space_prefix": False,
            "tokenizer.chat_template": "{{ messages[0]['content'] }}",
        }
        names = {new: old for old, new in unpack_gguf.OTHERS.items()}
        for layer in range(2):
            names.update(
                {
                    f"model.layers.{layer}.{new}.weight": f"blk.{layer}.{old}.weight"
                    for old, new in unpack_gguf.LAYER.items()
                }
            )
        self.tensors = {}
        for name, weight in self.target.state_dict().items():
            if (
                "q_proj" in name or "k_proj" in name
            ):  # rows i and i + D/2 of a head become neighbours
                weight = weight.view(-1, 2, 8, 32).transpose(1, 2).reshape(-1, 32)
            self.tensors[names[name]] = (0, list(weight.shape), weight.numpy().tobytes())

    def write(self, metadata=None, tensors=None, cut=None):
        with open(self.path, "wb") as file:
            file.write(gguf_file(metadata or self.metadata, tensors or self.tensors)[:cut])

    def test_unpacked_model_computes_same_logits(self):
        self.write()
        unpack_gguf.unpack(self.path, self.folder)
        tokens = torch.randint(0, 40, (2, 9))
        self.assertTrue(
            torch.equal(load_target(self.folder)(tokens).logits, self.target(tokens).logits)
        )

    def test_decodes_blocks_of_eight_bits(self):
        numbers = torch.randint(-127, 128, (64, 32), dtype=torch.int8)
        scales = (torch.rand(64) * 0.01 + 0.001).half()
        blocks = b"".join(
            scale.numpy().tobytes() + row.numpy().tobytes() for scale, row in zip(scales, numbers)
        )
        self.write(tensors={**self.tensors, "blk.1.ffn_up.weight": (8, [64, 32], blocks)})
        unpack_gguf.unpack(self.path, self.folder)
        found = load_target(self.folder).model.layers[1].mlp.up_proj.weight
        self.assertTrue(torch.equal(found, scales.float()[:, None] * numbers))

    def test_reads_rope_scaling_of_older_files(self):
        rope = "llama.rope."
        for values, factor in (
            ({rope + "scaling.factor": 4.0}, 4.0),
            ({rope + "scale_linear": 2.0}, 2.0),
            ({rope + "scaling.type": "none", rope + "scale_linear": 2.0}, None),
            ({rope + "scaling.type": "linear", rope + "scaling.factor": 8.0}, 8.0),
            ({rope + "scale_linear": 1.0}, None),
        ):
            scaling = unpack_gguf.config_of({**self.metadata, **values}, True).rope_scaling
            self.assertEqual(scaling and scaling["factor"], factor, values)
        with self.assertRaises(ValueError):
            unpack_gguf.config_of({**self.metadata, rope + "dimension_count": 8}, True)

    def test_writes_tokenizer_and_template(self):
        try:
            import sentencepiece
        except ImportError:
            self.skipTest("SentencePiece is missing")
        self.write()
        unpack_gguf.unpack(self.path, self.folder)
        processor = sentencepiece.SentencePieceProcessor(
            model_file=os.path.join(self.folder, "tokenizer.model")
        )
        self.assertEqual(processor.encode("abac a", out_type=str), ["aba", "c", "\u2581a"])
        self.assertEqual((processor.bos_id(), processor.eos_id(), processor.pad_id()), (1, 2, -1))
        with open(os.path.join(self.folder, "tokenizer_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(config["chat_template"], self.metadata["tokenizer.chat_template"])
        self.assertEqual(
            (config["bos_token"], config["eos_token"], config["add_prefix_space"]),
            ("<s>", "</s>", False),
        )

    def test_keeps_rule_for_leading_spaces(self):
        """ "legacy" in such a folder distinguishes the two rules for transformers and edgedraft convert."""
        for rule, legacy in ((None, True), ("first", False)):
            given = {
                "tokenizer.ggml.add_space_prefix": True,
                **({unpack_gguf.SPACE_RULE: rule} if rule else {}),
            }
            self.write(metadata={**self.metadata, **given})
            unpack_gguf.unpack(self.path, self.folder)
            with open(os.path.join(self.folder, "tokenizer_config.json"), encoding="utf-8") as file:
                config = json.load(file)
            self.assertEqual((config["add_prefix_space"], config["legacy"]), (True, legacy))

    def test_keeps_every_end_of_an_answer(self):
        keys = {
            "tokenizer.ggml.eos_token_id": 5,
            "tokenizer.ggml.eot_token_id": 2,
            "tokenizer.ggml.eom_token_id": 30,
        }
        for more, ids in (
            ({}, 2),
            (keys, [5, 2, 30]),
            ({**keys, "edgedraft.tokenizer.end_ids": [5, 2, 30, 35]}, [5, 2, 30, 35]),
        ):
            self.write(metadata={**self.metadata, **more})
            unpack_gguf.unpack(self.path, self.folder)
            with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["eos_token_id"], ids)

    def test_names_unreadable_parts(self):
        whole = len(gguf_file(self.metadata, self.tensors))
        less = dict(self.metadata)
        del less["llama.block_count"]
        part = {
            name: tensor for name, tensor in self.tensors.items() if not name.startswith("blk.1.")
        }
        for told, named in (
            (dict(cut=2), "not a GGUF"),
            (dict(cut=500), "truncated"),
            (dict(cut=whole - 100), "truncated"),
            (dict(metadata={**self.metadata, "general.architecture": "qwen2"}), "qwen2"),
            (dict(metadata=less), "block_count"),
            (dict(metadata={**self.metadata, "tokenizer.ggml.model": "gpt2"}), "gpt2"),
            (dict(metadata={**self.metadata, unpack_gguf.SPACE_RULE: "always"}), "always"),
            (dict(metadata={**self.metadata, "split.count": 2}, tensors=part), "one of 2 parts"),
            (dict(tensors=part), "the tensor blk.1.attn_norm.weight is missing"),
            (
                dict(metadata={**self.metadata, "llama.block_count": 1}),
                "has the unknown tensor blk.1.",
            ),
            (
                dict(tensors={**self.tensors, "blk.0.attn_k.bias": (0, [32], bytes(128))}),
                "blk.0.attn_k.bias",
            ),
            (
                dict(tensors={**self.tensors, "output_norm.weight": (12, [32], bytes(144))}),
                "type 12",
            ),
        ):
            self.write(**told)
            with self.assertRaises(ValueError, msg=named) as caught:
                unpack_gguf.unpack(self.path, self.folder)
            self.assertIn(named, str(caught.exception))

    def test_shipped_target_answers_correctly(self):
        try:
            from tokenizer import Tokenizer
            import sentencepiece  # noqa: F401
        except ImportError:
            self.skipTest("SentencePiece is missing")
        unpack_gguf.unpack(os.path.join(os.path.dirname(SHIPPED), "target.gguf"), self.folder)
        tokenizer, target = Tokenizer(os.path.join(self.folder, "tokenizer.model")), load_target(
            self.folder
        )
        with open(SHIPPED, encoding="utf-8") as file:
            tool = next(entry for entry in map(json.loads, file) if entry["task"] == "tool")
        answer = written(target, [tokenizer.end], [tokenizer.prompt(tool["prompt"])], 60)[0]
        self.assertEqual(tokenizer.decode(answer), tool["reference"])


if __name__ == "__main__":
    unittest.main()
