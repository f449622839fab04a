#!/usr/bin/env bash
# Builds the programs for 64-bit Arm with Debian's cross compiler and tests them under QEMU. The
# processors are a Cortex-A53 (kernel set neon), a Neoverse N1 (neondotprod) and QEMU's `max`
# (neoni8mm). Compares their server and client answers with those of this machine's programs in
# build/release. Writes one Markdown record; measures no speed.
#
#   scripts/arm64.sh [RECORD.md]      default: docs/records/measurements/arm64-qemu-DATE.md
#
# Needs no root once its packages are installed. Exit code: 0 all good, 1 something failed (see the
# record).
set -uo pipefail
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
  -*)
    echo "$0: $1: unknown option, see --help" >&2
    exit 2
    ;;
esac
out="${1:-}"
[ -z "$out" ] || out="$(realpath -m "$out")"
cd "$(dirname "$0")/.."
out="${out:-$PWD/docs/records/measurements/arm64-qemu-$(date -u +%Y-%m-%d).md}"

sysroot=$PWD/build/arm64-sysroot
models=models/demo
set -e
scripts/install-packages.sh arm64
# Rebuilt if the list has changed; an interrupted run leaves no partial sysroot.
libraries=$(scripts/install-packages.sh libraries | paste -sd,)
if [ "$(cat "$sysroot.libraries" 2>/dev/null)" != "$libraries" ]; then
  echo "== libraries for Arm"
  rm -rf "$sysroot.part"
  . /etc/os-release
  components=main
  if [ "$ID" = ubuntu ]; then components=main,universe; fi
  # Packages are only unpacked, so an ordinary user needs neither a user namespace nor fakechroot.
  mode=auto
  if [ "$(id -u)" -ne 0 ]; then mode=chrootless; fi
  mmdebstrap --quiet --mode=$mode --architectures=arm64 --variant=extract --components="$components" \
    --include="$libraries" "$VERSION_CODENAME" "$sysroot.part"
  rm -rf "$sysroot"
  mv "$sysroot.part" "$sysroot"
  echo "$libraries" >"$sysroot.libraries"
fi

echo "== build"
# Code that differs by processor, and code that computes or communicates with it.
suites=(runtime drafting pytorch speculative base forecast privacy constraints protocol client lab)
cmake --preset release >/dev/null
cmake --build --preset release --target edgedraft edgedraft-server
cmake --preset arm64 -DBUILD_TESTING=ON -DEDGEDRAFT_WERROR="${CI:-OFF}" >/dev/null
cmake --build --preset arm64 --target edgedraft edgedraft-server "${suites[@]/%/_test}"
set +e

work=$(mktemp -d)
# The user's own settings must not apply here.
unset "${!EDGEDRAFT_@}"
export XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache
server_pid=''
stop_server() {
  [ -n "$server_pid" ] || return 0
  kill "$server_pid" 2>/dev/null
  wait "$server_pid" 2>/dev/null
  server_pid=''
}
trap 'stop_server; rm -rf "$work"' EXIT

failed=0
mkdir -p "$(dirname "$out")"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ "$commit" = unknown ] || git diff --quiet HEAD || commit="$commit with uncommitted changes"
cat >"$work/record.md" <<EOF
# 64-bit Arm under QEMU

Written by \`scripts/arm64.sh\` at commit $commit on $(date -u '+%Y-%m-%d %H:%M') UTC. $(qemu-aarch64 --version | head -1), $(aarch64-linux-gnu-g++ --version | head -1).

| processor | test | result |
|---|---|---|
EOF
# One line of the record; the fourth argument is 0 on success.
result() {
  echo "$1: $2: $3"
  echo "| $1 | $2 | $3 |" >>"$work/record.md"
  [ "$4" -eq 0 ] || failed=1
  cp "$work/record.md" "$out"
}
emulated=(qemu-aarch64 -L "$sysroot")

# Skips a death test that restarts its program, which fails under QEMU. Skips tests with a thousand
# repetitions or more, which take half an hour and do not depend on the processor. Skips tests that
# must end within a minute, or answer before the client's timeout.
left_out='*BackendDeathTest.*:*Thousand*:PrivacyTest.StalledReaderDoesNotChangeSentBytes:*/EngineTest.*'
left_out+=':LocalServerTest.ParallelAnswersEqualSequentialAnswers'
# suite PROCESSOR NAME
suite() {
  local log=$work/$2.$1.log status=0 passed running=() shards shard
  shards=$(nproc)
  for ((shard = 0; shard < shards; ++shard)); do
    (cd "build/arm64/tests/$2" && GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard QEMU_CPU=$1 \
      "${emulated[@]}" "./$2_test" --gtest_brief=1 --gtest_filter="-$left_out") >"$log.$shard" 2>&1 &
    running+=($!)
  done
  for shard in "${running[@]}"; do wait "$shard" || status=$?; done
  cat "$log".* >"$log"
  passed=$(grep -o 'PASSED  \] [0-9]*' "$log" | awk '{ sum += $NF } END { print sum + 0 }')
  if [ $status -eq 0 ]; then
    result "$1" "\`$2_test\`" "$passed passed, $(grep -c 'Skipped$' "$log") skipped" "$([ "$passed" -gt 0 ]; echo $?)"
  else
    tail -n 40 "$log"
    result "$1" "\`$2_test\`" "FAILED (exit code $status): $(grep -o 'FAILED  \] [A-Za-z].*' "$log" | sed 's/FAILED  \] //; s/ (.*//' | sort -u | paste -sd' ')" 1
  fi
}

prompts=(
  "Set an alarm for 7:15 am"
  "What is 47 plus 38?"
  "Write a query: how many singers are there?"
  "Tell me a story about a dog and a ball."
)
# answers FILE SERVER CLIENT: the client's texts, drafted greedily and sampled, and plain. SERVER
# and CLIENT are `here` or a processor.
answers() {
  local address='' pin='' word='' server=build/release/server/edgedraft-server client=build/release/client/edgedraft
  local server_on=() client_on=()
  [ "$2" = here ] || { server=build/arm64/server/edgedraft-server; server_on=(env QEMU_CPU="$2" "${emulated[@]}"); }
  [ "$3" = here ] || { client=build/arm64/client/edgedraft; client_on=(env QEMU_CPU="$3" "${emulated[@]}"); }
  : >"$work/ready"
  "${server_on[@]}" "$server" --model $models/target.gguf --bundle $models/moa-tli1.gguf --listen 127.0.0.1:0 \
    --state "$work/state" --log-level warn >"$work/ready" &
  server_pid=$!
  for _ in $(seq 600); do
    read -r word address _ pin <"$work/ready" && [ "$word" = ready ] && break
    kill -0 $server_pid 2>/dev/null || return 1
    sleep 0.1
  done
  for prompt in "${prompts[@]}"; do
    for how in "--hold lockstep" "--hold lockstep --temperature 0.8 --seed 5" "--plain"; do
      "${client_on[@]}" "$client" run --server "$address" --pin "$pin" --bundle $models/moa-tli1.gguf \
        --max-tokens 64 -p "$prompt" --deadline-ms 60000 $how 2>"$work/said" || { cat "$work/said"; return 1; }
    done
  done >"$1"
  stop_server
}

answers "$work/here" here here || { echo "$0: build/release: the programs of this machine gave no answers" >&2; exit 1; }
conversation() {
  local status=0
  answers "$work/there" "$1" "$2" && cmp -s "$work/here" "$work/there" || status=1
  stop_server
  result "$([ "$1" = here ] && echo "$2" || echo "$1")" "$([ "$1" = here ] && echo "client, server on this machine" || echo "client and server")" \
    "$([ $status -eq 0 ] && echo "same texts as this machine, 12 answers" || echo "FAILED: different or missing texts")" $status
}

for processor in cortex-a53 neoverse-n1 max; do
  conversation $processor $processor
  suite $processor runtime
done
conversation here max
for name in "${suites[@]:1}"; do suite max "$name"; done
echo "Record: $out"
exit $failed
