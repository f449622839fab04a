#!/usr/bin/env bash
# Runs the whole system on one machine. Installs the build packages, builds, and starts a server with
# the shipped target and TLS. Answers prompts through the shipped drafter and compares the answers
# with plain decoding, also over an emulated 4G link at a large model's pace. Kills the server during
# an answer and restarts it. Safe to run again; the second time takes seconds.
set -euo pipefail
export LC_ALL=C.UTF-8  # numbers with a decimal point

usage() {
  cat <<EOF
usage: $0 [--serve [--port PORT]] [--build DIR] [DRAFTER]

  --serve      start a server and its page instead, on http://127.0.0.1:7430/
  --port PORT  port of the page; 0: any free port [7430]
  --build DIR  use the programs of this build tree; install and build nothing
  DRAFTER      bundle in models/demo: moa-tli0, moa-tli1, eagle, eagle-hass, independent or independent-2 [moa-tli0]
EOF
}
refuse() { echo "$0: $1" >&2; usage >&2; exit 2; }
serves=no port=7430 bin='' drafter=moa-tli0
while [ $# -gt 0 ]; do
  case $1 in
    --serve) serves=yes; shift ;;
    --port) [ $# -gt 1 ] || refuse "$1 has no value"; port=$2; shift 2 ;;
    --build) [ $# -gt 1 ] || refuse "$1 has no value"; bin=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) refuse "unknown option '$1'" ;;
    *) drafter=$1; shift ;;
  esac
done
[ -z "$bin" ] || bin=$(realpath -m "$bin")
cd "$(dirname "$0")/.."
models=models/demo
[ -f "$models/$drafter.gguf" ] || refuse "unknown drafter '$drafter'"

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

if [ -z "$bin" ]; then
  say "Installing packages and building"
  scripts/install-packages.sh build
  # A tree with tests keeps them. If its configuration failed for lack of their packages, there are
  # none.
  if [ -f build/release/tests/CTestTestfile.cmake ]; then testing=(); else testing=(-DBUILD_TESTING=OFF); fi
  cmake --preset release "${testing[@]}" >/dev/null
  cmake --build --preset release --target edgedraft edgedraft-server edgedraft-lab edgedraft-netsim
  bin=$PWD/build/release
fi

work=$(mktemp -d)
# The user's own settings must not apply here.
unset "${!EDGEDRAFT_@}"
export XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache
server_pid='' client_pid=''
stop_server() {
  [ -n "$server_pid" ] || return 0
  kill "${1:--TERM}" "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=''
}
trap 'stop_server; [ -z "$client_pid" ] || kill "$client_pid" 2>/dev/null || true; rm -rf "$work"' EXIT

address=127.0.0.1:0 pin=''
lab=$bin/netsim/lab/edgedraft-lab
# Sets address and pin from the server's one line of output. Further arguments start the lab's
# server instead and are passed to it.
start_server() {
  local program=("$bin/server/edgedraft-server")
  [ $# -eq 0 ] || program=("$lab" server)
  : >"$work/ready"
  "${program[@]}" --model "$models/target.gguf" --bundle "$models/$drafter.gguf" \
    --listen "$address" --state "$work/state" --log-level warn "$@" >"$work/ready" &
  server_pid=$!
  for _ in $(seq 100); do
    if read -r word address _ pin <"$work/ready" && [ "$word" = ready ]; then return; fi
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "$0: the server did not start" >&2
  exit 1
}
client() { client_of "$bin/client/edgedraft" "$@"; }
client_of() { "$1" run --server "$address" --pin "$pin" --bundle "$models/$drafter.gguf" "${@:2}"; }
# One number of a JSON answer.
number() { grep -o "\"$2\": *[0-9][0-9.]*" "$1" | head -n 1 | grep -o "[0-9.]*\$"; }

# Always drafts: with a local server plain decoding of this small a target is faster.
drafting=(--hold lockstep)

prompts=(
  "Set an alarm for 7:15 am"
  "What is 47 plus 38?"
  "Convert 3 hours to minutes."
  "Tell me a story about a dog and a ball."
)

# The story is sampled; all other answers are greedy.
manner() { case $1 in Tell*) echo --temperature 0.5 --seed 3 ;; esac; }

say "A server on loopback, TLS 1.3, and its pin"
start_server
echo "$address  $pin"

if [ $serves = yes ]; then
  : >"$work/serve"
  # The small target answers offline, since most drafters cannot answer alone.
  "$bin/client/edgedraft" serve --listen "127.0.0.1:$port" --server "$address" --pin "$pin" \
    --bundle "$models/$drafter.gguf" --offline-bundle "$models/target.gguf" >"$work/serve" &
  client_pid=$!
  while ! read -r _ url _ <"$work/serve" && kill -0 "$client_pid" 2>/dev/null; do sleep 0.1; done
  [ -z "${url:-}" ] || say "The page: ${url%v1} (Ctrl-C ends it)"
  wait "$client_pid"
  exit
fi

say "A conversation through the drafter $drafter"
for prompt in "${prompts[@]}"; do
  printf '\n> %s\n' "$prompt"
  client -p "$prompt" --max-tokens 120 $(manner "$prompt") "${drafting[@]}"
done

say "The same prompts, drafted and plain"
printf '%-42s %7s %7s %6s %7s %8s %8s %9s\n' '' tokens cycles tau passes 'B up' 'B down' 'ms/token'
for mode in drafted plain; do
  option=("${drafting[@]}")
  [ $mode = plain ] && option=(--plain)
  for i in "${!prompts[@]}"; do
    answer=$work/$mode.$i
    client -p "${prompts[$i]}" --max-tokens 120 $(manner "${prompts[$i]}") --json "${option[@]}" >"$answer"
    printf '%-8s%-34.33s %7s %7s %6.2f %7s %8s %8s %9.1f\n' $mode "${prompts[$i]}" \
      "$(number "$answer" tokens)" "$(number "$answer" cycles)" "$(number "$answer" tau)" \
      "$(number "$answer" target_calls)" "$(number "$answer" bytes_up)" \
      "$(number "$answer" bytes_down)" \
      "$(awk -v rate="$(number "$answer" tokens_per_second)" 'BEGIN { print 1000 / rate }')"
  done
done
text() { grep -Eo '"text": *"([^"\\]|\\.)*"' "$1"; }
for i in "${!prompts[@]}"; do
  if [ "$(text "$work/drafted.$i")" != "$(text "$work/plain.$i")" ]; then
    echo "$0: the drafted answer differs from plain decoding: ${prompts[$i]}" >&2
    exit 1
  fi
done
echo "Answers identical: yes"
stop_server

say "A large model over 4G: plain decoding, drafts with hold lockstep, and drafts with hold none"
scripts/side-by-side.sh --build "$bin" --drafter "$drafter"

say "The server is killed during an answer and restarts (at a large model's pace)"
start_server --pace-ms 150
client_of "$lab" -p "${prompts[3]}" --max-tokens 120 $(manner "${prompts[3]}") --hold none --pace-ms 40 --resync-wait-ms 20000 --deadline-ms 2000 &
client_pid=$!
sleep 1
echo "[demo: kill -9 server]"
stop_server -KILL
sleep 1.5
echo "[demo: server restarts]"
start_server
wait "$client_pid"
client_pid=''
say "Done. See README.md and docs/; scripts/test.sh runs the tests."
