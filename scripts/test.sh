#!/usr/bin/env bash
# Installs what the tests need, builds everything, and runs every test; then
# the fuzz targets for a few seconds each. Arguments go to ctest (for example -R Sampler).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-packages.sh test

echo "== build"
# Warnings are errors where they have been seen first: not on a stranger's newer compiler.
cmake --preset release -DBUILD_TESTING=ON -DEDGEDRAFT_WERROR="${CI:-OFF}" >/dev/null
cmake --build --preset release

echo "== tests"
ctest --preset release --parallel "$(nproc)" "$@"

# A filter asks for single tests; it need not name a fuzz target.
[ $# -eq 0 ] || exit 0

echo "== fuzz targets"
if command -v clang++ >/dev/null; then
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz
  ctest --test-dir build/fuzz --output-on-failure
else
  echo "skipped: no clang++, so no libFuzzer"
fi
