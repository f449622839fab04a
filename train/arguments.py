"""Types of command-line options."""

from __future__ import annotations

import argparse
import os


def out_file(path: str) -> str:
    """A file that is written in the end: whether it can be is said before hours are spent on it."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is a folder")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path
