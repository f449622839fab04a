#!/usr/bin/env bash
# Answers one prompt three times at once, over an emulated network at a large model's pace: plain
# decoding, drafts with hold lockstep, and drafts with hold none. Shows the texts as they appear (if
# not on a terminal, at the end), and their times.
set -euo pipefail
export LC_ALL=C.UTF-8  # numbers with a decimal point

usage() {
  cat <<EOF
usage: $0 [--network NAME] [--pace FILE] [--drafter NAME] [--build DIR] [PROMPT]

  --network NAME   emulated network (edgedraft-netsim link --list) [paper-4g]
  --pace FILE      device profile of a large model and its drafter [netsim/devices/paper-llama3-8b.toml]
  --drafter NAME   bundle in models/demo [moa-tli0]
  --build DIR      build tree with edgedraft-lab and edgedraft-netsim
                   [build/release, built by scripts/demo.sh]
EOF
}
refuse() { echo "$0: $1" >&2; usage >&2; exit 2; }
network=paper-4g pace='' drafter=moa-tli0 bin=''
prompt="Tell me a story about a dog and a ball."
while [ $# -gt 0 ]; do
  case $1 in
    --network | --pace | --drafter | --build) [ $# -gt 1 ] || refuse "$1 has no value" ;;&
    --network) network=$2; shift 2 ;;
    --pace) pace=$2; shift 2 ;;
    --drafter) drafter=$2; shift 2 ;;
    --build) bin=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) refuse "unknown option '$1'" ;;
    *) prompt=$1; shift ;;
  esac
done

# Paths are relative to the caller's directory.
[ ! -f "$network" ] || network=$(realpath "$network")
[ -z "$pace" ] || pace=$(realpath -m "$pace")
[ -z "$bin" ] || bin=$(realpath -m "$bin")
cd "$(dirname "$0")/.."
pace=${pace:-netsim/devices/paper-llama3-8b.toml}
models=models/demo
bundle=$models/$drafter.gguf
bin=${bin:-build/release}
for file in "$bundle" "$pace" "$bin"/netsim/{edgedraft-netsim,lab/edgedraft-lab}; do
  [ -e "$file" ] || { echo "$0: $file: no such file" >&2; exit 2; }
done
ways=(plain lockstep none)
declare -A title=(
  [plain]="plain decoding"
  [lockstep]="a round trip per draft"
  [none]="no waiting"
)
declare -A options=(
  [plain]="--plain"
  [lockstep]="--hold lockstep --tree 4,4,12"
  [none]="--hold none"
)

work=$(mktemp -d)
# The user's own settings must not apply here.
unset "${!EDGEDRAFT_@}"
export XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
"$bin/netsim/edgedraft-netsim" link --profile "$network" --dry-run >/dev/null || exit 2
(umask 077; head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/token")

# Each has its own server, link and client, so that they do not disturb each other.
port=$((20000 + RANDOM % 10000))
for way in "${ways[@]}"; do
  : >"$work/$way.text"
  # Without namespaces the servers listen on this machine's own ports, some of which are taken.
  port=$((port + 1))
  while (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
  paced=(--pace-profile "$pace")
  [ "$way" = plain ] && paced=() # nothing is drafted
  printf -v serve '%q ' exec "$bin/netsim/lab/edgedraft-lab" server --model $models/target.gguf --bundle "$bundle" \
    --state "$work/$way" --pace-profile "$pace" --token-file "$work/token" --log-level error
  serve+='--listen "$EDGEDRAFT_SERVER_LISTEN" '
  printf -v ready '%q' "$work/$way.ready"
  # shellcheck disable=SC2016,SC2086  # the inner shell expands; options are words
  "$bin/netsim/edgedraft-netsim" link --profile "$network" --port $port --at-server "$serve>$ready" \
    -- bash -c '
      read -r _ _ _ pin <"$0.ready"
      touch "$0.up"
      until [ -e "$1/go" ]; do sleep 0.02; done
      exec "${@:2}" --server "$EDGEDRAFT_SERVER" --pin "$pin" >"$0.text" 2>"$0.told"' "$work/$way" "$work" \
    "$bin/netsim/lab/edgedraft-lab" run --bundle "$bundle" --token-file "$work/token" "${paced[@]}" \
    -p "$prompt" --max-tokens 128 --log-level info ${options[$way]} \
    >"$work/$way.link" 2>&1 &
  pids+=($!)
done

running() { kill -0 "${pids[@]}" 2>/dev/null; }
for _ in $(seq 300); do
  up=("$work"/*.up)
  [ ${#up[@]} -eq ${#ways[@]} ] && break
  running || break
  sleep 0.1
done
touch "$work/go"

columns=$(($( (tput cols 2>/dev/null) || echo 100) / ${#ways[@]} - 2))
rows=18
# Shows the texts in columns, side by side.
frame() {
  local files=()
  for way in "${ways[@]}"; do
    { echo "${title[$way]}"; echo; fold -s -w "$columns" "$work/$way.text"; } >"$work/$way.column"
    files+=("$work/$way.column")
  done
  awk -v width="$columns" -v rows=$rows '
    FNR == 1 { ++column }
    { text[column, FNR] = $0 }
    END {
      form = "%-" width "s  "
      for (row = 1; row <= rows; ++row) {
        line = ""
        for (i = 1; i <= column; ++i) line = line sprintf(form, substr(text[i, row], 1, width))
        print line
      }
    }' "${files[@]}"
}

printf '> %s\n  (%s, at the pace of %s)\n\n' "$prompt" "$network" "$(basename "$pace" .toml)"
if [ -t 1 ]; then
  frame
  while running; do
    sleep 0.08
    printf '\e[%dA' $rows
    frame
  done
fi
failed=no
for i in "${!ways[@]}"; do
  wait "${pids[$i]}" || { failed=yes; cat "$work/${ways[$i]}".{link,told} >&2 2>/dev/null || true; }
done
pids=()
[ $failed = no ] || exit 1
[ -t 1 ] && printf '\e[%dA' $rows
frame

# Turns the client's report into a table row.
printf '%-28s %8s %9s %14s %10s %10s\n' '' tokens/s tokens 'target passes' up down
for way in "${ways[@]}"; do
  awk -v title="${title[$way]}" '
    match($0, /[0-9]+ tokens( in|,) .*/) {
      split(substr($0, RSTART), part, "; ")
      split(part[1], word, /[ ,]+/)
      for (i = 1; i in word; ++i) if (word[i] == "target") passes = word[i - 1]
      split(part[2], bytes, ", ")
      sub(/ up/, "", bytes[1]); sub(/ down/, "", bytes[2])
      tokens = word[1]
      milliseconds = part[3] + 0
    }
    END {
      if (!tokens) exit 1
      printf "%-28s %8.1f %9d %14d %10s %10s\n", title, 1000 / milliseconds, tokens, passes, bytes[1], bytes[2]
    }
  ' "$work/$way.told"
done
for way in "${ways[@]}"; do
  cmp -s "$work/plain.text" "$work/$way.text" || { echo "$0: the answers differ" >&2; exit 1; }
done
echo "Answers identical: yes"
