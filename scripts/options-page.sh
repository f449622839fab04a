#!/usr/bin/env bash
# Writes docs/options.md from the programs' --help. With --check it writes nothing and fails if the
# page differs. --build DIR names a build tree with tests [build/release].
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C.UTF-8

check='' bin=''
while [ $# -gt 0 ]; do
  case $1 in
    --check) check=yes; shift ;;
    --build) [ $# -gt 1 ] || { echo "$0: --build needs a folder" >&2; exit 2; }; bin=$(realpath -m "$2"); shift 2 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "usage: $0 [--check] [--build DIR]" >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."
bin=${bin:-build/release}
page=docs/options.md

# Help shows paths in the user's folders, and programs refuse wrong variables even with --help.
unset "${!EDGEDRAFT_@}" "${!XDG_@}"
export HOME=/HOME

section() {
  local program=$1
  shift
  echo "$(basename "$program")${*:+ $*}" | sed "s/^/${*:+#}## /"
  printf '\n```text\n'
  "$program" "$@" --help | sed 's,/HOME/,~/,g'
  printf '```\n\n'
}

write() {
  cat <<'TEXT'
# Options

The output of `--help`. `scripts/options-page.sh` writes this page; do not edit it. Each option with `Env` can also be set in that environment variable or, by its name, in the file of `--config` ([example](operations.md#systemd)).

TEXT
  for program in client/edgedraft client/conformance/edgedraft-conformance server/edgedraft-server \
    netsim/edgedraft-netsim netsim/lab/edgedraft-lab tests/bench/edgedraft-bench; do
    section "$bin/$program"
    for command in $("$bin/$program" --help | awk '/^Subcommands:/ { lists = 1; next } /^$/ { lists = 0 } lists { print $1 }'); do
      section "$bin/$program" "$command"
    done
  done
}

text=$(write)
if [ -z "$check" ]; then
  printf '%s\n' "$text" >"$page"
elif ! diff -u --label "$page" --label "programs' --help" "$page" - <<<"$text"; then
  echo "$page differs from --help: run scripts/options-page.sh [--build DIR]" >&2
  exit 1
fi
