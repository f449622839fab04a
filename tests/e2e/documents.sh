#!/usr/bin/env bash
# Runs the marked commands of the documents: documents.sh BUILD [PAGE...]. BUILD is the build tree;
# PAGE, relative to the repository, defaults to all pages with marks. A mark is a line of its own:
#
#   <!--test-->             the block that follows runs
#   <!--test:terminal-->    it runs in another terminal until the page ends; the next block waits for
#                           its line "ready ..."
#   <!--test:quickstart-->  server and endpoint run from here on, as after the quickstart
#
# The blocks of a page run in order in one shell, in a copy of the folders that they name. In them
# `sha256:...` is the pin of the last server. Exits with 77 if a program is missing or a port is taken.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)

# The pages use fixed ports: a network namespace, if possible, separates them from this machine's.
if [ "${1:-}" = --inside ]; then
  shift
elif unshare -rn ip link set lo up 2>/dev/null; then
  exec unshare -rn sh -c 'ip link set lo up && exec "$0" --inside "$@"' "$0" "$@"
fi
build=$(realpath "$1")
shift

# Reports a skip as tests/api/run.sh does.
skip() {
  printf '%s: Skipped\nwithout %s: %s\n' "$0" "$1" "$2"
  case ",${EDGEDRAFT_TEST_REQUIRE:-}," in *",$1,"*) exit 1 ;; esac
  exit 77
}
for program in curl openssl python3; do
  command -v $program >/dev/null || skip $program "apt-get install $program"
done
for port in 7420 7430 8000 9420; do
  if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then skip ports "port $port is taken"; fi
done

# The user's own settings do not apply here.
for name in "${!EDGEDRAFT_@}" "${!XDG_@}"; do unset "$name"; done
work=$(mktemp -d) running=''
# Each page is a process group of its own.
end_page() {
  [ -z "$running" ] || kill -KILL -- "-$running" 2>/dev/null || true
  running=''
}
trap 'end_page; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Replaces all of a page but its marked blocks by empty lines, so that line numbers stay.
extract() {
  awk '
    /^<!--test:quickstart-->$/ { print "after_quickstart"; next }
    /^<!--test(:terminal)?-->$/ { mark = $0; print ""; next }
    /^<!-- *test/ || (mark && !inside && !/^```/) { print "echo a wrong mark, or one without a block; false"; mark = ""; next }
    /^```/ {
      inside = !inside
      print mark !~ /terminal/ ? "" : inside ? "terminal <<\"END OF BLOCK\"" : "END OF BLOCK"
      if (!inside) mark = ""
      next
    }
    inside && mark { gsub(/sha256:\.\.\./, "$pin"); print; next }
    { print "" }' "$1"
}

# Runs standard input in the background and waits for its line "ready ...".
terminal() {
  local output=$work/terminal.$((++terminals)) line=''
  bash -eo pipefail -c "$(cat)" >"$output" 2>&1 &
  for _ in $(seq 300); do
    if line=$(grep -sm 1 '^ready ' "$output"); then break; fi
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$line" ] || { echo "no line \"ready ...\" in its terminal"; return 1; }
  case $line in *sha256:*) export pin=${line##* } ;; esac
}

after_quickstart() {
  terminal <<<"exec edgedraft-server --model models/demo/target.gguf --bundle models/demo/moa-tli0.gguf"
  export EDGEDRAFT_PIN=$pin EDGEDRAFT_BUNDLE=models/demo/moa-tli0.gguf
  terminal <<<"exec edgedraft serve --offline-bundle models/demo/target.gguf"
}

# A Hugging Face folder from the test data: NAME FIXTURE.
hugging_face_folder() {
  mkdir -p "$1"
  cp "$source/tests/data/fixtures/$2"/{config.json,model.safetensors} "$1"
  cp "$source/tests/fuzz/corpus/tokenizer_json/unigram" "$1/tokenizer.json"
}

run_page() {
  set -eE +m
  mkdir "$work/clone"
  cd "$work/clone"
  cp -r "$source"/{README.md,docs,models,netsim,scripts,train} .
  mkdir build
  ln -s "$build" build/release
  hugging_face_folder HF_DIR scaled/target
  hugging_face_folder DRAFTER_DIR scaled/moa-tli1
  hugging_face_folder train/TARGET scaled/target
  hugging_face_folder train/hf/eagle scaled/eagle
  export HOME=$work/home PATH=$build/client:$build/server:$build/netsim:$build/netsim/lab:$build/tests/bench:$PATH
  mkdir "$HOME"
  echo fail >"$HOME/.curlrc"  # an HTTP error is a failure
  terminals=0
  extract "$source/$1" >"$work/blocks"
  trap 'echo "$page:$LINENO: failed: $BASH_COMMAND"' ERR
  . "$work/blocks"
}

pages=("$@")
if [ $# -eq 0 ]; then
  mapfile -t pages < <(cd "$source" && grep -rl --include='*.md' '^<!-- *test' README.md docs models train | sort)
fi
status=0
for page in "${pages[@]}"; do
  echo "== $page"
  set -m
  run_page "$page" </dev/null >"$work/output" 2>&1 &
  running=$!
  set +m
  if ! wait "$running"; then
    status=1
    tail -n 40 "$work"/terminal.* "$work/output" 2>/dev/null || true
  fi
  end_page
  # A process that is being killed may still write.
  rm -rf "${work:?}"/* || { sleep 1; rm -rf "${work:?}"/*; }
done
exit $status
