#!/usr/bin/env bash
# Installs the test packages, builds everything and runs the quick tests. With --full also runs
# those labelled slow (netem in a virtual machine) and the matrix of docs/testing.md: Clang, libc++,
# clang-tidy, sanitizers, fuzz targets, 64-bit Arm. Further arguments go to ctest (for example -R
# Sampler). A test skips if a package or a device is missing; it fails instead if
# EDGEDRAFT_TEST_REQUIRE names that (docs/testing.md).
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
esac
full=
if [ "${1:-}" = --full ]; then
  full=yes
  shift
fi

scripts/install-packages.sh test

echo "== build"
# Warnings are errors only in CI: a newer compiler may have other warnings.
cmake --preset release -DBUILD_TESTING=ON -DEDGEDRAFT_WERROR="${CI:-OFF}" >/dev/null
cmake --build --preset release

echo "== tests"
labels=(-LE slow)
[ -z "$full" ] || labels=()
status=0
ctest --preset release --parallel "$(nproc)" "${labels[@]}" "$@" || status=$?

echo "== skipped"
awk '/: Skipped$/ { getline; ++count[$0] }
     END { for (why in count) printf "%6d  %s\n", count[why], why }' \
  build/release/Testing/Temporary/LastTest.log | sort -k1,1nr -k2
[ -n "$full" ] || echo "        slow tests, other compilers, sanitizers, fuzzing and Arm (run with --full)"

# Repeats failures at the end, where they are easy to find.
if [ "$status" -ne 0 ]; then
  echo "== failed"
  awk '/^[0-9]+\/[0-9]+ Test: / { name = $0; sub(/^[^:]*: /, "", name); count = 0 }
       /^<end of output>$/ { end = count }
       { line[++count] = $0 }
       /^Test / && !/^Test (time|Passed|Skipped|Pass Reason)/ {
         print "-- " name
         for (i = (end > 40 ? end - 39 : 1); i <= end; ++i) print line[i]
         print
       }' build/release/Testing/Temporary/LastTest.log
  exit "$status"
fi

# A filter selects single tests and need not match another stage.
[ -n "$full" ] && [ $# -eq 0 ] || exit 0

scripts/install-packages.sh full
failed=()
# Runs a stage of the matrix in docs/testing.md. A failure of one does not stop the others.
stage() {
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}
preset() {
  cmake --preset "$1" >/dev/null && cmake --build --preset "$1"
}
tested_preset() {
  preset "$1" && ctest --preset "$1" --parallel "$(nproc)" -LE slow
}
fuzzed() {
  preset fuzz && ctest --preset fuzz --parallel "$(nproc)"
}
stage "Clang" tested_preset clang
stage "clang-tidy" run-clang-tidy-19 -quiet -p build/clang
stage "libc++" preset libcxx
stage "address and undefined behaviour sanitizers" tested_preset asan
stage "thread sanitizer" tested_preset tsan
stage "fuzz targets" fuzzed
stage "64-bit Arm" scripts/arm64.sh build/arm64-record.md

[ ${#failed[@]} -eq 0 ] && exit 0
printf '== failed: %s\n' "${failed[@]}"
exit 1
