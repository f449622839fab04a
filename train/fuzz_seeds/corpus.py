"""The folder of the seeds, one below it per fuzz target."""

import os

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/fuzz")


def write(target: str, name: str, content: bytes) -> None:
    folder = os.path.join(TESTS, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
