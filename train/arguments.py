"""Types of command-line options."""

from __future__ import annotations

import argparse
import os


def out_file(path: str) -> str:
    """A file that is written at the end; checks first that it can be, before hours are spent on it."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"folder {folder} does not exist")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is a folder")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path


def out_folder(path: str) -> str:
    """A folder that is filled at the end and created if missing; checked first for the same reason."""
    there = os.path.abspath(path)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise argparse.ArgumentTypeError(f"{there} is not a folder")
    if not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{there} cannot be written")
    return path


def count(text: str) -> int:
    """A count of at least one."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number
