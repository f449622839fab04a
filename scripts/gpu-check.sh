#!/usr/bin/env bash
# Checks and measures the CUDA kernels on this machine's GPU and writes one Markdown record. Needs
# CMake and the CUDA toolkit. If the project's packages are installed as well, it also runs the
# operator and end-to-end tests on the GPU and measures whole passes of a decoder. It then does the
# same for drafting on the GPU through Vulkan.
#
#   scripts/gpu-check.sh [--peers DIR] [RECORD.md]      default: docs/records/measurements/GPU-DATE.md
#
# --peers DIR also times whole passes alternately with llama.cpp on the same files: DIR holds its
# CUDA build (llama-bench in DIR or DIR/bin). It writes files of random weights for that, at most 16
# GB at a time.
# Checks run in parallel, then measurements one by one. The record is saved after every step, so that
# a run cut short by a time limit keeps its results.
# EDGEDRAFT_GPU_CHECK_QUICK=1 skips compute-sanitizer and the benches. EDGEDRAFT_GPU_CHECK_BUILD
# names a build tree of the project whose programs are used instead of building them here.
# EDGEDRAFT_COMMIT names the commit if there is no git.
# Exit code: 0 all good, 1 something failed (see the record), 77 no GPU or no toolkit.
set -uo pipefail
peer='' out=''
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
      exit 0
      ;;
    --peers)
      shift
      for place in "${1:-.}" "${1:-.}/bin"; do
        [ -x "$place/llama-bench" ] && peer="$(realpath "$place/llama-bench")"
      done
      [ $# -gt 0 ] && [ -n "$peer" ] ||
        { echo "gpu-check: --peers ${1:-}: found no llama-bench in it or its bin" >&2; exit 2; }
      ;;
    -*)
      echo "gpu-check: $1: unknown option, see --help" >&2
      exit 2
      ;;
    *)
      [ -z "$out" ] || { echo "gpu-check: $1: give one record only, $out or this" >&2; exit 2; }
      out="$1"
      ;;
  esac
  shift
done
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
  command -v nvcc >/dev/null || skip "no nvcc: install the CUDA toolkit, or give its compiler in CUDACXX"
fi
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || skip "nvidia-smi shows no GPU"

work="$(mktemp -d)"
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$work"' EXIT
gpu="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)"
toolkit="$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
commit="$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
[ "$commit" = unknown ] || git diff --quiet HEAD || commit="$commit with uncommitted changes"
commit="${EDGEDRAFT_COMMIT:-$commit}"
name="$(echo "$gpu" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')"
[ -n "$out" ] || out="$PWD/docs/records/measurements/$name-$(date -u +%Y-%m-%d).md"
mkdir -p "$(dirname "$out")"

failed=0
record="$work/record.md"
{
  echo "# CUDA on $gpu"
  echo
  echo "Written by \`scripts/gpu-check.sh\` at commit $commit on $(date -u '+%Y-%m-%d %H:%M') UTC."
  echo "Driver $driver${toolkit:+, CUDA toolkit }$toolkit, $(nproc) processors."
} >"$record"

save() { cp "$record" "$out"; }  # after every step, so that results survive a time limit
# say TITLE: starts a section of the record and prints the title.
say() {
  printf '\n## %s\n\n' "$1" >>"$record"
  echo "== $1" >&2
}
# written LINES STATUS FILE: adds the last LINES of a step's output as a block; 0 adds all of it as
# Markdown. Adds FILE.errors if the step failed.
written() {
  if [ "$1" -eq 0 ]; then cat "$3" >>"$record"; else printf '```\n%s\n```\n' "$(tail -"$1" "$3")" >>"$record"; fi
  if [ "$2" -ne 0 ]; then
    failed=1
    printf '\n**Failed** with exit code %d.\n' "$2" >>"$record"
    [ ! -s "$3.errors" ] || printf '\n```\n%s\n```\n' "$(tail -20 "$3.errors")" >>"$record"
    echo "   failed" >&2
  fi
  save
  return "$2"
}
# quoted SECONDS LINES COMMAND...: runs a step and adds the end of its output as a block.
quoted() {
  timeout "$1" "${@:3}" >"$work/output" 2>&1
  written "$2" $? "$work/output"
}
# beside TITLE SECONDS LINES COMMAND...: starts a step without measurements, in parallel with
# others.
titles=() lines=() pids=()
beside() {
  local at="$work/beside-${#titles[@]}"
  titles+=("$1") lines+=("$3")
  if [ "$3" -eq 0 ]; then
    timeout "$2" "${@:4}" >"$at" 2>"$at.errors" &
  else
    timeout "$2" "${@:4}" >"$at" 2>&1 &
  fi
  pids+=($!)
}
# Waits for the steps and writes their output in the order of their start.
gather() {
  local index status before=''
  for index in "${!titles[@]}"; do
    wait "${pids[index]}"
    status=$?
    [ "${titles[index]}" = "$before" ] || say "${titles[index]}"
    before="${titles[index]}"
    written "${lines[index]}" $status "$work/beside-$index"
  done
  titles=() lines=() pids=()
}

kernels="$built/kernels"
if [ -z "$built" ]; then
  kernels="$work/kernels"
  say "Build of kernels/"
  quoted 900 15 sh -c "cmake -S kernels -B '$kernels' -DCMAKE_BUILD_TYPE=Release && cmake --build '$kernels' --parallel $(nproc)" || exit 1
fi
check="$kernels/cuda/edgedraft-cuda-check"

beside "Operators against float64" 300 0 "$check"

# Intermediate code of an older target, compiled at load time: its kernels do not wait for earlier
# ones, so they must not start early (early_start.cu).
if command -v nvcc >/dev/null && command -v cmake >/dev/null; then
  beside "Kernels compiled for an older device" 900 0 sh -c "
    { cmake -S kernels -B '$work/older' -DCMAKE_BUILD_TYPE=Release -DEDGEDRAFT_CUDA_ARCHITECTURES=80-virtual &&
      cmake --build '$work/older' --parallel $(nproc); } >&2 && '$work/older/cuda/edgedraft-cuda-check' --small"
else
  beside "Kernels compiled for an older device" 1 1 echo "Skipped: needs CMake and nvcc."
fi

sanitizer="$(command -v compute-sanitizer)"
if [ -n "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
  sanitizer=''
elif [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck initcheck synccheck; do
    beside "compute-sanitizer" 300 3 "$sanitizer" --tool $tool --error-exitcode 9 "$check" --small
  done
else
  beside "compute-sanitizer" 1 1 echo "Skipped: not installed on this machine."
fi

# The whole project, if its packages are installed.
targets=(cuda_device_test e2e_test edgedraft edgedraft-server edgedraft-bench)
project_is_there() {
  [ -z "$built" ] || return 0
  say "Build of the project"
  built="$work/project"
  if ! cmake -S . -B "$built" -DCMAKE_BUILD_TYPE=Release -DEDGEDRAFT_CUDA=ON >"$work/output" 2>&1; then
    printf 'Skipped: the project does not configure here:\n\n```\n%s\n```\n' \
      "$(grep -m1 -A3 -E 'CMake Error|Could NOT' "$work/output")" >>"$record"
    return 1
  fi
  quoted 1500 3 cmake --build "$built" --parallel "$(nproc)" --target "${targets[@]}"
}
project='' vulkan=''
if project_is_there; then
  project=yes
  bench="$built/tests/bench/edgedraft-bench"
  beside "Tests of the project on the GPU" 600 3 \
    "$built/tests/runtime/cuda_device_test" --gtest_filter='*/cuda' --gtest_brief=1
  # The server selects the GPU by itself; the shipped models are quantised, so answers are exact.
  for shard in 0 1 2 3; do
    beside "Tests of the project on the GPU" 600 3 \
      env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard "$built/tests/e2e/e2e_test" --gtest_brief=1
  done
  # Grids and scratch are rounded up, so that launches repeat: output of a launch has to fit, in a
  # graph and without one.
  if [ -n "$sanitizer" ]; then
    for graphs in "" --no-cuda-graphs; do
      # shellcheck disable=SC2086  # no option or one
      beside "Attention's scratch memory: memcheck, with and without graphs" 300 3 "$sanitizer" --tool memcheck \
        --error-exitcode 9 "$bench" engine --device cuda $graphs --shape tinyllama --context 900 --widths 62 --prompt 0
    done
  fi
  devices="$("$built/client/edgedraft" devices 2>/dev/null)"
  if grep -q '^vulkan:[0-9]* *NVIDIA' <<<"$devices"; then
    vulkan=yes
    # A machine with a copied build tree may lack cmake.
    { [ -x "$built/tests/vulkan/vulkan_test" ] ||
      quoted 900 1 cmake --build "$built" --parallel "$(nproc)" --target vulkan_test; } &&
      beside "Drafting on the GPU through Vulkan: tests" 600 3 "$built/tests/vulkan/vulkan_test" --gtest_brief=1
  else
    beside "Drafting on the GPU through Vulkan: tests" 1 1 echo "Skipped: the Vulkan loader finds no driver for this GPU."
  fi
fi
gather

# Measurements have the machine to themselves.
if [ -z "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
  say "Kernels and whole passes: times and bandwidths"
  quoted 300 0 "$check" --bench
fi
if [ -n "$project" ] && [ -z "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
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
  say "Several sessions per pass, TinyLlama in Q8_0"
  for graphs in "" --no-cuda-graphs; do
    for sessions in 1 4 16 64; do
      printf '\n`--sessions %s%s`\n\n' "$sessions" "${graphs:+ $graphs}" >>"$record"
      # shellcheck disable=SC2086  # no option or one
      quoted 120 8 "$bench" engine --device cuda $graphs --shape tinyllama --type q8_0 \
        --sessions $sessions --context 512 --page 32 --kv-type f16 --widths 1,4 --prompt 0
    done
  done
  say "Passes of a decoder, TinyLlama in Q8_0, other options"
  # The last set has more rows than scratch allows at a time.
  for options in "--no-cuda-graphs --widths 1,8,64" "--context 7936 --page 32 --widths 1,8,64" \
    "--context 7936 --page 32 --kv-type f16 --widths 1,8,64" \
    "--context 31744 --page 32 --kv-type f16 --widths 64,256"; do
    printf '\n`%s`\n\n' "$options" >>"$record"
    # shellcheck disable=SC2086  # several options
    quoted 300 15 "$bench" engine --device cuda $options --shape tinyllama --type q8_0 --prompt 0
  done
fi

if [ -n "$project" ] && [ -n "$peer" ]; then
  for type in q4_0 q8_0 f16; do
    say "Passes of Llama 3 8B in $type, alternating with llama.cpp"
    quoted 600 3 "$bench" model --shape llama3-8b --type $type -o "$work/random.gguf" &&
      quoted 600 20 "$bench" engine --device cuda --model "$work/random.gguf" --prompt 0 \
        --widths 1,2,4,8,16,32,64,128 --peer "$peer"
    rm -f "$work/random.gguf"
  done
fi

if [ -n "$vulkan" ]; then
  say "Drafting on the GPU through Vulkan"
  quoted 60 8 "$built/client/edgedraft" devices --bundle models/demo/moa-tli1.gguf
  if [ -z "${EDGEDRAFT_GPU_CHECK_QUICK:-}" ]; then
    quoted 300 80 "$bench" device --shape llama3-8b --type q8_0 --widths 1,8,32
  fi
fi

say "Result"
[ $failed -eq 0 ] && echo "All good." >>"$record" || echo "**Something failed**, see above." >>"$record"
echo "Took $SECONDS s." >>"$record"
save
echo "gpu-check: $([ $failed -eq 0 ] && echo all good || echo FAILED): $out" >&2
exit $failed
