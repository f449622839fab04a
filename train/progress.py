"""A progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    """Shows elapsed / total seconds; ``line`` prints above the bar.  Silent when ``active`` is false."""

    def __init__(self, total: float, active: bool = True, width: int = 30):
        self.total, self.active, self.width = max(total, 1e-9), active, width
        self.terminal = active and sys.stdout.isatty()
        self.shown = 0.0

    def update(self, done: float, note: str = "") -> None:
        if not self.terminal or time.time() - self.shown < 0.5:
            return
        self.shown = time.time()
        share = min(1.0, done / self.total)
        filled = int(self.width * share)
        sys.stdout.write(
            f"\r[{'#' * filled}{'.' * (self.width - filled)}] {100 * share:5.1f} % {note}\033[K"
        )
        sys.stdout.flush()

    def line(self, text: str) -> None:
        if self.active:
            if self.terminal:
                sys.stdout.write("\r\033[K")
            print(text, flush=True)
