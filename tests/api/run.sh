#!/usr/bin/env bash
# Tests `edgedraft serve` with clients of OpenAI's API from npm and with a browser: run.sh SERVER
# CLIENT LAB MODELS WORK [PATTERN]. Arguments: the programs, the folder of the demo models, the
# folder for npm packages, and a pattern that selects tests by name. Exits with 77 if npm or its
# packages are missing. Without Chromium only the page's tests are skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
server=$1 client=$2 lab=$3 models=$4 work=$5 pattern=${6:-}

# Reports a skipped part with the missing need and the reason, as tests/support/skip.h does;
# scripts/test.sh counts these lines. Exits if that need is required.
leave_out() {
  printf '%s: Skipped\nwithout %s: %s\n' "$1" "$2" "$3"
  case ",${EDGEDRAFT_TEST_REQUIRE:-}," in *",$2,"*) exit 1 ;; esac
}
skip() {
  leave_out "$0" npm "$1"
  exit 77
}
command -v npm >/dev/null || skip "npm not found"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' || skip "needs Node.js 20 or newer"
EDGEDRAFT_CHROMIUM=$(command -v chromium || command -v chromium-browser || true)
export EDGEDRAFT_CHROMIUM
[ -n "$EDGEDRAFT_CHROMIUM" ] || leave_out "$here/page*.test.js" chromium "apt-get install chromium"

# The user's own settings do not apply here.
for name in "${!EDGEDRAFT_@}"; do
  case $name in EDGEDRAFT_CHROMIUM | EDGEDRAFT_TEST_*) ;; *) unset "$name" ;; esac
done
mkdir -p "$work"
cp "$here"/package.json "$here"/package-lock.json "$here"/*.js "$work"
cd "$work"
export XDG_CONFIG_HOME=$PWD/config XDG_CACHE_HOME=$PWD/cache XDG_DATA_HOME=$PWD/data
if ! cmp -s package-lock.json installed.json; then
  npm ci --no-audit --no-fund >npm.log 2>&1 || { cat npm.log; skip "npm could not install the packages"; }
  cp package-lock.json installed.json
fi

# Two agents of 300 MB; without them only their tests are skipped. Their versions are exact and
# their only dependencies are optional packages, so no lock file is needed.
agents=$PWD/agents
mkdir -p "$agents"
if ! cmp -s "$here/agents/package.json" "$agents/installed.json"; then
  cp "$here/agents/package.json" "$agents"
  if (cd "$agents" && timeout 180 npm install --omit=optional --no-package-lock --no-audit --no-fund >npm.log 2>&1 &&
    HOME=$PWD node_modules/.bin/opencode --version && HOME=$PWD node_modules/.bin/qwen --version); then
    cp "$here/agents/package.json" "$agents/installed.json"
  else
    cat "$agents/npm.log"
    leave_out "$here/agents.test.js" npm "npm could not install the agents"
    agents=
  fi
fi
export EDGEDRAFT_AGENTS=$agents EDGEDRAFT_AGENTS_LIST=$here/agents/package.json

processes=()
stop() {
  kill "${processes[@]}" 2>/dev/null || true
  wait
}
trap stop EXIT
# Waits for a program's first line, "ready ...".
ready() {
  for _ in $(seq 300); do
    if grep -q '^ready' "$1.out" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "$1 did not start:"
  cat "$1.err"
  exit 1
}
"$server" --model "$models/target.gguf" --bundle "$models/moa-tli1.gguf" --listen 127.0.0.1:0 \
  --max-sessions 32 --state state >server.out 2>server.err &
processes+=($!)
ready server
read -r _ address _ pin <server.out
"$client" serve --listen 127.0.0.1:0 --server "$address" --pin "$pin" \
  --bundle "$models/moa-tli1.gguf" >serve.out 2>serve.err &
processes+=($!)
ready serve
read -r _ url _ <serve.out
# An endpoint without drafts.
"$client" serve --listen 127.0.0.1:0 --server "$address" --pin "$pin" --plain --page off \
  --bundle "$models/moa-tli1.gguf" >plain.out 2>plain.err &
processes+=($!)
ready plain
read -r _ plain _ <plain.out

# For the page: a slow server that can be stopped.
"$lab" server --model "$models/target.gguf" --bundle "$models/moa-tli1.gguf" --listen 127.0.0.1:0 \
  --state page-state --pace-ms 60 >page-server.out 2>page-server.err &
processes+=($!)
export EDGEDRAFT_PAGE_SERVER=$!
ready page-server
read -r _ address _ pin <page-server.out
rm -rf page-data
mkdir page-data
# The drafter may write the whole answer while the server is stopped. On a busy machine its check
# may take longer than the default of three seconds.
"$client" serve --listen 127.0.0.1:0 --server "$address" --pin "$pin" --deadline-ms 1000 --hold-ms 50000 \
  --bundle "$models/moa-tli1.gguf" --offline-bundle "$models/independent.gguf" --page page-data/conversations.db >page.out 2>page.err &
processes+=($!)
ready page
read -r _ page _ <page.out

# For agents, whose first prompts have thousands of tokens.
"$server" --model "$models/target.gguf" --bundle "$models/moa-tli1.gguf" --listen 127.0.0.1:0 \
  --state agent-state --ctx 32768 --max-sessions 4 >agent-server.out 2>agent-server.err &
processes+=($!)
ready agent-server
read -r _ address _ pin <agent-server.out
"$client" serve --listen 127.0.0.1:0 --server "$address" --pin "$pin" --page off \
  --bundle "$models/moa-tli1.gguf" >agent.out 2>agent.err &
processes+=($!)
ready agent
read -r _ agent _ <agent.out
export EDGEDRAFT_AGENT_API=$agent

# An endpoint that requires a key and has no server.
rm -f key
export EDGEDRAFT_KEY=a-key-of-this-test
(umask 077 && printf '%s' "$EDGEDRAFT_KEY" >key)
"$client" serve --listen 127.0.0.1:0 --server 127.0.0.1:9 --bundle "$models/moa-tli1.gguf" \
  --api-key-file key --allow-origin https://app.example.org --page memory >keyed.out 2>keyed.err &
processes+=($!)
ready keyed
read -r _ keyed _ <keyed.out

export EDGEDRAFT_KEYED=${keyed%/v1}
export EDGEDRAFT_DOCS=$here/../../docs
export EDGEDRAFT_API=$url EDGEDRAFT_PLAIN=$plain EDGEDRAFT_PAGE=${page%/v1} EDGEDRAFT_PAGE_DATA=$PWD/page-data
# This reporter repeats failures at the end.
node --test --test-reporter=spec --test-concurrency=1 ${pattern:+--test-name-pattern="$pattern"} .
