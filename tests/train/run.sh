#!/usr/bin/env bash
# Tests of the training programs. Exits with 77 if PyTorch is missing.
set -euo pipefail
cd "$(dirname "$0")/../../train"

# Debian installs PyTorch for the system's Python; another Python may come first in PATH.
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import torch' 2>/dev/null; then
    # Keeps caches out of the source tree.
    exec env PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$python" -m unittest
  fi
done
# Same format as tests/support/skip.h; scripts/test.sh counts these lines.
printf '%s: Skipped\nwithout pytorch: not installed (python3-torch)\n' "$0"
case ",${EDGEDRAFT_TEST_REQUIRE:-}," in *,pytorch,*) exit 1 ;; esac
exit 77
