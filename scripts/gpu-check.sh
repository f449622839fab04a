#!/usr/bin/env bash
# Checks and measures the CUDA kernels on this machine's GPU and writes one Markdown record. Needs
# CMake and the CUDA toolkit; where the project's packages are there as well, it also runs the
# operator tests and the end-to-end tests on the GPU, measures whole passes of a decoder, and does
# the same for drafting on the GPU through Vulkan.
#
#   scripts/gpu-check.sh [--peers DIR] [RECORD.md]      default: docs/measurements/GPU-DATE.md
#
# --peers DIR also times whole passes in turns with llama.cpp on the same files: DIR holds a build of
# it for CUDA (llama-bench, there or in DIR/bin). Files of random weights are written for that, at
# most 16 GB at a time.
# The record is saved after every step, so that one cut short by a time limit still tells something.
# EDGEDRAFT_GPU_CHECK_QUICK=1 leaves out compute-sanitizer and the benches. EDGEDRAFT_GPU_CHECK_BUILD
# names a build tree of the project to take programs from, instead of building them here.
# EDGEDRAFT_COMMIT names the commit where there is no git.
# Exit code: 0 all good, 1 something failed (the record says what), 77 no GPU or no toolkit.
set -uo pipefail
peer=''
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
  --peers)
    for place in "${2:-}" "${2:-}/bin"; do
      [ -x "$place/llama-bench" ] && peer="$(realpath "$place/llama-bench")"
    done
    [ -n "$peer" ] || { echo "gpu-check: --peers ${2:-}: no llama-bench there or in its bin" >&2; exit 2; }
    shift 2
    ;;
  -*)
    echo "gpu-check: $1: there is no such option, see --help" >&2
    exit 2
    ;;
esac
out="${1:-}"
[ -z "$out" ] || out="$(realpath -m "$out")"
cd "$(dirname "$0")/.."

for place in "$(dirname "${CUDACXX:-/nowhere/nvcc}")" "${CUDA_PATH:-/usr/local/cuda}/bin"; do
  [ -x "$place/nvcc" ] && PATH="$place:$PATH"
done
skip() {
  echo "gpu-check: skipped: $1" >&2
  exit 77
}
built="${EDGEDRAFT_GPU_CHECK_BUILD:-}"
if [ -n "$built" ]; then
  built="$(realpath "$built")"
else
  command -v cmake >/dev/null || skip "no cmake"
  command -v make >/dev/null || export CMAKE_GENERATOR=Ninja
  command -v nvcc >/dev/null || skip "no nvcc: install the CUDA toolkit, or name it with CUDACXX"
fi
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || skip "no GPU that nvidia-smi shows"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
gpu="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)"
toolkit="$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
commit="$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
[ "$commit" = unknown ] || git diff --quiet HEAD || commit="$commit with changes"
commit="${EDGEDRAFT_COMMIT:-$commit}"
name="$(echo "$gpu" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')"
[ -n "$out" ] || out="$PWD/docs/measurements/$name-$(date -u +%Y-%m-%d).md"
mkdir -p "$(dirname "$out")"

failed=0
record="$work/record.md"
{
  echo "# CUDA on $gpu"
  echo
  echo "Written by \`scripts/gpu-check.sh\` at commit $commit on $(date -u '+%Y-%m-%d %H:%M') UTC."
  echo "Driver $driver${toolkit:+, CUDA toolkit }$toolkit, $(nproc) processors."
} >"$record"

save() { cp "$record" "$out"; }  # after every step: what is known survives a time limit
# say TITLE: a section of the record, and of what is seen.
say() {
  printf '\n## %s\n\n' "$1" >>"$record"
  echo "== $1" >&2
}
# Output of a program that prints Markdown itself.
markdown() {
  timeout "$1" "${@:2}" >"$work/output" 2>"$work/errors"
  local status=$?
  cat "$work/output" >>"$record"
  if [ $status -ne 0 ]; then
    failed=1
    printf '\n**Failed** with exit code %d:\n\n```\n%s\n```\n' $status "$(tail -20 "$work/errors")" >>"$record"
    echo "   failed" >&2
  fi
  save
}
# quoted SECONDS LINES COMMAND...: the end of its output as a block.
quoted() {
  timeout "$1" "${@:3}" >"$work/output" 2>&1
  local status=$?
  printf '```\n%s\n```\n' "$(tail -"$2" "$work/output")" >>"$record"
  if [ $status -ne 0 ]; then
    failed=1
    printf '\n**Failed** with exit code %d.\n' $status >>"$record"
    echo "   failed" >&2
  fi
  save
  return $status
}

kernels="$built/kernels"
if [ -z "$built" ]; then
  kernels="$work/kernels"
  say "Build of kernels/"
  started=$SECONDS
  quoted 900 15 sh -c "cmake -S kernels -B '$kernels' -DCMAKE_BUILD_TYPE=Release && cmake --build '$kernels' --parallel $(nproc)" || exit 1
  echo "Took $((SECONDS - started)) s." >>"$record"
fi
check="$kernels/cuda/edgedraft-cuda-check"

say "Operators against float64"
markdown 300 "$check"

if [ -z "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
  say "Kernels and whole passes: times and bandwidths"
  markdown 300 "$check" --bench

  say "compute-sanitizer"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
      printf '\n%s:\n\n' "$tool" >>"$record"
      quoted 300 3 compute-sanitizer --tool "$tool" --error-exitcode 9 "$check" --small
    done
  else
    echo "Skipped: there is none on this machine." >>"$record"
  fi
fi

# Intermediate code of an older target, translated when it is loaded: its kernels do not wait for
# those before them, so they must not start early (early_start.cu).
say "Kernels compiled for an older device"
if command -v nvcc >/dev/null && command -v cmake >/dev/null; then
  older="$work/older"
  quoted 900 3 sh -c "cmake -S kernels -B '$older' -DCMAKE_BUILD_TYPE=Release -DEDGEDRAFT_CUDA_ARCHITECTURES=80-virtual && cmake --build '$older' --parallel $(nproc)" &&
    markdown 300 "$older/cuda/edgedraft-cuda-check" --small
else
  echo "Skipped: needs CMake and nvcc." >>"$record"
fi

# The whole project, where what it needs is there.
targets=(cuda_device_test e2e_test edgedraft edgedraft-server edgedraft-bench)
project_is_there() {
  [ -z "$built" ] || return 0
  built="$work/project"
  if ! cmake -S . -B "$built" -DCMAKE_BUILD_TYPE=Release -DEDGEDRAFT_CUDA=ON >"$work/output" 2>&1; then
    printf 'Skipped, as the project does not configure here:\n\n```\n%s\n```\n' \
      "$(grep -m1 -A3 -E 'CMake Error|Could NOT' "$work/output")" >>"$record"
    return 1
  fi
  quoted 1500 3 cmake --build "$built" --parallel "$(nproc)" --target "${targets[@]}"
}
say "Tests of the project on the GPU"
if project_is_there; then
  bench="$built/tests/bench/edgedraft-bench"
  quoted 600 3 "$built/tests/runtime/cuda_device_test" --gtest_filter='*/cuda' --gtest_brief=1
  # The server takes the GPU by itself; the shipped models are quantised, so answers are exact.
  quoted 600 3 "$built/tests/e2e/e2e_test" --gtest_brief=1
  if [ -z "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
    widths=1,2,4,8,16,32,64,128,256
    for mode in "" --deterministic; do
      say "Passes of a decoder, Llama 3 8B in BF16 with random weights${mode:+, deterministic}"
      # shellcheck disable=SC2086  # no option or one
      quoted 600 30 "$bench" engine --device cuda $mode --shape llama3-8b --type bf16 \
        --widths $widths --mismatch 1000
    done
    for type in q4_0 q4_k; do
      say "Passes of a decoder, Llama 3 8B in $type"
      quoted 600 30 "$bench" engine --device cuda --shape llama3-8b --type $type --widths $widths
    done
    say "Passes of a decoder, TinyLlama in Q8_0"
    quoted 600 30 "$bench" engine --device cuda --shape tinyllama --type q8_0 --widths $widths
    say "Sessions that share a pass, TinyLlama in Q8_0"
    for graphs in "" --no-cuda-graphs; do
      for sessions in 1 4 16 64; do
        printf '\n`--sessions %s%s`\n\n' "$sessions" "${graphs:+ $graphs}" >>"$record"
        # shellcheck disable=SC2086  # no option or one
        quoted 120 8 "$bench" engine --device cuda $graphs --shape tinyllama --type q8_0 \
          --sessions $sessions --context 512 --page 32 --kv-type f16 --widths 1,4 --prompt 0
      done
    done
    say "Passes of a decoder, TinyLlama in Q8_0, otherwise"
    for options in --no-cuda-graphs "--context 7936 --page 32" "--context 7936 --page 32 --kv-type f16"; do
      printf '\n`%s`\n\n' "$options" >>"$record"
      # shellcheck disable=SC2086  # several options
      quoted 300 15 "$bench" engine --device cuda $options --shape tinyllama --type q8_0 \
        --widths 1,8,64 --prompt 0
    done
  fi

  if [ -n "$peer" ]; then
    for type in q4_0 q8_0 f16; do
      say "Passes of Llama 3 8B in $type, in turns with llama.cpp"
      quoted 600 3 "$bench" model --shape llama3-8b --type $type -o "$work/random.gguf" &&
        quoted 600 20 "$bench" engine --device cuda --model "$work/random.gguf" --prompt 0 \
          --widths 1,2,4,8,16,32,64,128 --peer "$peer"
      rm -f "$work/random.gguf"
    done
  fi

  # Grids and scratch are rounded up, so that launches repeat: what a launch writes has to fit, in a
  # graph and without one.
  say "Attention's scratch memory"
  if command -v compute-sanitizer >/dev/null; then
    for graphs in "" --no-cuda-graphs; do
      printf '\nmemcheck%s:\n\n' "${graphs:+, $graphs}" >>"$record"
      # shellcheck disable=SC2086  # no option or one
      quoted 300 3 compute-sanitizer --tool memcheck --error-exitcode 9 "$bench" engine \
        --device cuda $graphs --shape tinyllama --context 900 --widths 62 --prompt 0
    done
  else
    echo "memcheck skipped: there is no compute-sanitizer on this machine." >>"$record"
  fi
  # More rows than scratch allows at a time.
  quoted 300 15 "$bench" engine --device cuda --shape tinyllama --type q8_0 --context 31744 \
    --page 32 --kv-type f16 --widths 64,256 --prompt 0

  say "Drafting on the GPU through Vulkan"
  devices="$("$built/client/edgedraft" devices 2>/dev/null)"
  if grep -q '^vulkan:[0-9]* *NVIDIA' <<<"$devices"; then
    # One that came from elsewhere may have no cmake to build with.
    { [ -x "$built/tests/vulkan/vulkan_test" ] ||
      quoted 900 1 cmake --build "$built" --parallel "$(nproc)" --target vulkan_test; } &&
      quoted 600 3 "$built/tests/vulkan/vulkan_test" --gtest_brief=1
    quoted 60 8 "$built/client/edgedraft" devices --bundle models/demo/moa-tli1.gguf
    if [ -z "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
      quoted 300 80 "$bench" device --shape llama3-8b --type q8_0 --widths 1,8,32
    fi
  else
    echo "Skipped: Vulkan's loader finds no driver of this GPU." >>"$record"
  fi
fi

say "Result"
[ $failed -eq 0 ] && echo "All good." >>"$record" || echo "**Something failed**, see above." >>"$record"
save
echo "gpu-check: $([ $failed -eq 0 ] && echo all good || echo FAILED): $out" >&2
exit $failed
