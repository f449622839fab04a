#!/usr/bin/env bash
# The training programs' own tests. Exits with 77 where there is no PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../../train"

# Debian's PyTorch belongs to the system's Python; another one may come first in the PATH.
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import torch' 2>/dev/null; then
    # No caches in the source tree.
    exec env PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$python" -m unittest
  fi
done
# As tests/support/skip.h does: scripts/test.sh counts these lines.
printf '%s: Skipped\nwithout pytorch: not installed (python3-torch)\n' "$0"
case ",${EDGEDRAFT_TEST_REQUIRE:-}," in *,pytorch,*) exit 1 ;; esac
exit 77
