#!/usr/bin/env bash
# Shows replicas behind HAProxy on one machine: kills them during answers, rolls them one by one,
# and counts how many prompts are found again after reconnecting, with SNI and with random routing.
# Every answer must equal plain decoding. Exits with 77 if a program is missing or a port is taken.
set -euo pipefail
export LC_ALL=C.UTF-8  # numbers with a decimal point

usage() {
  cat <<TEXT
usage: $0 [--build DIR] [--replicas N] [--kills N] [--clients N] [--devices N] [--turns N]

  --build DIR   build tree with the programs [build/release]
  --replicas N  servers, 2 to 9 [4]
  --kills N     replicas to kill during answers [20]
  --clients N   clients that ask meanwhile [4]
  --devices N   devices that reconnect between prompts [8]
  --turns N     prompts per device [4]
TEXT
}
refuse() { echo "$0: $1" >&2; usage >&2; exit 2; }

# Fixed ports need a network namespace of their own.
if [ "${1:-}" = --inside ]; then
  shift
elif unshare -rn ip link set lo up 2>/dev/null; then
  exec unshare -rn sh -c 'ip link set lo up && exec "$0" --inside "$@"' "$0" "$@"
fi

cd "$(dirname "$0")/.."
bin=build/release replicas=4 kills=20 clients=4 devices=8 turns=4
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build) [ $# -gt 1 ] || refuse "$1 has no value"; bin=$2; shift 2 ;;
    --replicas | --kills | --clients | --devices | --turns)
      [[ ${2:-} =~ ^[0-9]+$ ]] || refuse "$1: expected a number"
      declare "${1#--}=$2"; shift 2 ;;
    *) refuse "unknown option '$1'" ;;
  esac
done
[ "$replicas" -ge 2 ] && [ "$replicas" -le 9 ] || refuse "--replicas: expected 2 to 9"

skip() {
  printf '%s: Skipped\nwithout %s: %s\n' "$0" "$1" "$2"
  case ",${EDGEDRAFT_TEST_REQUIRE:-}," in *",$1,"*) exit 1 ;; esac
  exit 77
}
for program in haproxy curl; do
  command -v $program >/dev/null || skip $program "apt-get install $program"
done
for port in 7420 $(seq 7001 $((7000 + replicas))) $(seq 7101 $((7100 + replicas))) $(seq 7501 $((7500 + devices))); do
  if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then skip ports "port $port is taken"; fi
done
say() { printf '\n== %s\n' "$*"; }

work=$(mktemp -d)
# The user's own settings must not apply here.
unset "${!EDGEDRAFT_@}"
export XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache
lab=$bin/netsim/lab/edgedraft-lab models=models/demo
declare -A pids
haproxy_pid='' pin='' others=()
end_all() {
  touch "$work/stop"
  kill -KILL "${pids[@]}" $haproxy_pid "${others[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap end_all EXIT
trap 'exit 1' INT TERM

# A target pass takes 20 ms, as a large model's would.
begin_replica() {
  "$lab" server --model $models/target.gguf --bundle $models/moa-tli0.gguf --pace-ms 20 \
    --listen 127.0.0.1:700$1 --metrics 127.0.0.1:710$1 --replica r$1 --state "$work/state" \
    --max-sessions 64 --measure 0.1 --log-level warn >"$work/ready$1" 2>>"$work/log$1" &
  pids[$1]=$!
}
await() {
  for _ in $(seq 300); do
    curl -sf "http://127.0.0.1:710$1/ready" >/dev/null && return
    sleep 0.1
  done
  echo "$0: replica r$1 did not start" >&2
  cat "$work/log$1" >&2
  exit 1
}
# kill_replica NUMBER SIGNAL, until it has ended.
kill_replica() {
  kill "-$2" "${pids[$1]}"
  wait "${pids[$1]}" 2>/dev/null || true
}
# The sum of a metric over all replicas.
total() {
  for i in $(seq "$replicas"); do curl -s "http://127.0.0.1:710$i/metrics"; done |
    awk -v name="edgedraft:$1" '$1 == name { sum += $2 } END { print sum + 0 }'
}
running() { curl -s "http://127.0.0.1:710$1/metrics" | awk '$1 == "edgedraft:num_requests_running" { print $2 + 0 }'; }

# begin_haproxy sni|random
begin_haproxy() {
  {
    cat <<TEXT
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  retries 3
  option redispatch 1
frontend clients
  bind 127.0.0.1:7420
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  default_backend replicas
backend replicas
  option httpchk GET /ready
  default-server check inter 500ms fall 1 rise 1 observe layer4 error-limit 1 on-error mark-down
TEXT
    if [ "$1" = sni ]; then
      printf '  balance leastconn\n  use-server %%[req.ssl_sni] if { req.ssl_sni -m found }\n'
    else
      printf '  balance random(1)\n'
    fi
    for i in $(seq "$replicas"); do
      echo "  server r$i 127.0.0.1:700$i check port 710$i"
    done
  } >"$work/haproxy.cfg"
  haproxy -db -f "$work/haproxy.cfg" >>"$work/haproxy.log" 2>&1 &
  haproxy_pid=$!
  for _ in $(seq 100); do
    if (: <"/dev/tcp/127.0.0.1/7420") 2>/dev/null; then return; fi
    sleep 0.02
  done
  echo "$0: HAProxy did not start" >&2
  cat "$work/haproxy.log" >&2
  exit 1
}
end_haproxy() { kill -KILL $haproxy_pid; wait $haproxy_pid 2>/dev/null || true; haproxy_pid=''; }

say "$replicas replicas with one key, and HAProxy"
begin_replica 1
await 1
read -r _ _ _ pin <"$work/ready1"
for i in $(seq 2 "$replicas"); do begin_replica $i; done
for i in $(seq 2 "$replicas"); do await $i; done
begin_haproxy sni
haproxy -v | sed -n 1p

# ask NUMBER NAME OPTIONS...
prompts=("Tell me a story about a dog and a ball." "Tell me a story about a cat and a boat."
         "What is 47 plus 38? Explain." "Tell me a story about a bird and a tree.")
ask() {
  "$lab" run --server 127.0.0.1:7420 --pin "$pin" --bundle $models/moa-tli0.gguf --json \
    --temperature 0.5 --seed 3 --max-tokens 150 -p "${prompts[$1 % ${#prompts[@]}]}" "${@:3}" >"$work/$2"
}
tokens() { grep -o '"tokens":\[[0-9,]*\]' "$1"; }
for i in "${!prompts[@]}"; do
  ask $i "plain$i" --plain
  tokens "$work/plain$i" >"$work/expected$i"
done

# A client asks until told to stop. Its answers are checked at the end.
keep_asking() {
  local count=0 name
  while [ ! -e "$work/stop" ]; do
    name=$1.$((count++))
    ask "$1" "answer.$name" --cycles "$work/cycles.$name" --resync-wait-ms 60000 --pace-ms 5 \
      2>>"$work/errors" || echo "client $1 gave up" >>"$work/gave-up"
  done
}
say "$clients clients; $kills kills during answers, then one replica after another is drained and replaced"
: >"$work/errors"
: >"$work/gave-up"
asking=()
for i in $(seq 0 $((clients - 1))); do keep_asking $i & asking+=($!); done
others=("${asking[@]}")
done_kills=0
while [ $done_kills -lt "$kills" ]; do
  sleep 0.2
  victim=$((RANDOM % replicas + 1))
  [ "$(running $victim)" -gt 0 ] || continue
  kill_replica $victim KILL
  begin_replica $victim
  await $victim
  done_kills=$((done_kills + 1))
done
for i in $(seq "$replicas"); do
  kill_replica $i TERM
  begin_replica $i
  await $i
done
touch "$work/stop"
wait "${asking[@]}"
others=()

answers=0 broken=0 changed=0
for answer in "$work"/answer.*; do
  answers=$((answers + 1))
  client=${answer##*answer.}
  client=$((${client%%.*} % ${#prompts[@]}))
  if [ "$(tokens "$answer")" != "$(<"$work/expected$client")" ]; then changed=$((changed + 1)); fi
  grep -q '"reconnects":[1-9]' "$answer" || continue
  broken=$((broken + 1))
  cat "${answer/answer./cycles.}" >>"$work/broken"
done
echo "kills during answers: $done_kills; replicas drained: $replicas"
echo "answers: $answers, interrupted: $broken, changed: $changed, given up: $(wc -l <"$work/gave-up")"

# Stall: from the last verdict before an outage to the first one after it. The prompt's time is that
# of the answer's first verdict, so it includes the connection's start.
awk '
  function field(name, _) { match($0, "\"" name "\":[0-9.]+"); return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 }
  /"kind":"answer"/ { last = -1; next }
  /"kind":"state"/ { if (/"state":"offline"/) is_out = last >= 0; next }
  /"kind":"(prompt|draft|resync)"/ {
    at = field("at_ms")
    if (last < 0) prompts[++prompt_count] = field("round_trip_ms")
    if (is_out) { stalls[++count] = at - last; is_out = 0 }
    last = at
  }
  function sort(a, n,   i, j, x) { for (i = 2; i <= n; i++) { x = a[i]; for (j = i - 1; j > 0 && a[j] > x; j--) a[j + 1] = a[j]; a[j + 1] = x } }
  function at_share(a, n, share,   i) { i = int(n * share + 0.999999); return a[i < 1 ? 1 : i] }
  END {
    sort(stalls, count); sort(prompts, prompt_count)
    if (count == 0) { print "no stalls"; exit }
    printf "stalls: %d, median %.0f ms, 99th percentile %.0f ms, longest %.0f ms\n", count, at_share(stalls, count, 0.5), at_share(stalls, count, 0.99), stalls[count]
    printf "prompts, sent to verdict: median %.0f ms, 99th percentile %.0f ms\n", at_share(prompts, prompt_count, 0.5), at_share(prompts, prompt_count, 0.99)
  }' "$work/broken"
[ $changed -eq 0 ] && [ ! -s "$work/gave-up" ] || { cat "$work/errors" >&2; exit 1; }

# Devices ask, lose their connections, and continue the same text.
measure_routing() {
  local urls=() text i turn began=() ended
  rm -rf "$XDG_CACHE_HOME"
  for i in $(seq "$replicas"); do kill_replica $i KILL; begin_replica $i; done
  for i in $(seq "$replicas"); do await $i; done
  end_haproxy
  begin_haproxy "$1"
  others=()
  for i in $(seq "$devices"); do
    "$bin/client/edgedraft" serve --listen 127.0.0.1:$((7500 + i)) --server 127.0.0.1:7420 \
      --pin "$pin" --bundle $models/moa-tli0.gguf --private off --log-level off >"$work/serve$i" 2>&1 &
    others+=($!)
    until curl -sf "http://127.0.0.1:$((7500 + i))/v1/models" >/dev/null; do sleep 0.05; done
  done
  : >"$work/times"
  for turn in $(seq "$turns"); do
    if [ $turn -eq 2 ]; then
      began=($(total prompt_tokens_total) $(total prefix_cache_hit_tokens_total) $(total 'session_resume_total{result="resumed"}'))
    fi
    for i in $(seq "$devices"); do
      text="Device $i:"
      for word in $(seq $((60 + 10 * turn))); do text+=" $((i * 7919 + word * 104729 % 997))"; done
      curl -s -o "$work/said" -w '%{time_total}\n' "http://127.0.0.1:$((7500 + i))/v1/completions" \
        -H 'Content-Type: application/json' \
        -d "{\"model\":\"x\",\"prompt\":\"$text\",\"max_tokens\":1}" >"$work/time"
      grep -q '"choices"' "$work/said" || { cat "$work/said" >&2; exit 1; }
      [ $turn -eq 1 ] || cat "$work/time" >>"$work/times"
    done
    end_haproxy
    begin_haproxy "$1"
    sleep 1
  done
  ended=($(total prompt_tokens_total) $(total prefix_cache_hit_tokens_total) $(total 'session_resume_total{result="resumed"}'))
  kill "${others[@]}"
  wait "${others[@]}" 2>/dev/null || true
  others=()
  sort -n "$work/times" | awk -v how="$1" -v turns=$((devices * (turns - 1))) \
    -v received=$((ended[0] - began[0])) -v hit=$((ended[1] - began[1])) -v resumed=$((ended[2] - began[2])) '
    { times[NR] = $1 }
    END {
      printf "%-7s prompts %d, sessions resumed %d, tokens received %d, found in prefix caches %d, recomputed %d, time to first token: median %.0f ms\n",
        how, turns, resumed, received, hit, received - hit, 1000 * times[int((NR + 1) / 2)]
    }'
}
say "$devices devices with $turns prompts each; all connections break after each"
measure_routing sni
measure_routing random
