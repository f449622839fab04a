"""Answers of targets to prompts, by a folder or by a server."""

import argparse
import json
import os
import subprocess
import sys
import unittest

import torch

import answer_prompts
from folder_case import FolderCase


class AnswersTest(FolderCase):
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

    def test_tokenizes_given_answers(self):
        """Texts of a file become ids followed by the end; prompts given as ids stay unchanged."""
        program, asked, out = (
            os.path.join(self.folder, name) for name in ("tokenizer", "asked.jsonl", "given.jsonl")
        )
        # stands in for edgedraft tokenize: the text's length, and 9 for --chat
        with open(program, "w", encoding="utf-8") as file:
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
        # records its arguments and settings
        with open(program, "w", encoding="utf-8") as file:
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
            # its answer is the seed, the last of its arguments
            with open(program, "w", encoding="utf-8") as file:
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


if __name__ == "__main__":
    unittest.main()
