#!/usr/bin/env bash
# Formats all sources. With --check it changes nothing, prints the differences and exits with 1 if there are any.
# C++, CUDA and GLSL need clang-format 14, Python needs black 23, JavaScript needs npm. Sources whose
# tool is missing are left alone and the exit status is 77 (skipped).
set -euo pipefail
cd "$(dirname "$0")/.."

check=
case "${1:-}" in
  '') ;;
  --check) check=yes ;;
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
  *)
    echo "usage: $0 [--check]" >&2
    exit 2
    ;;
esac
status=0
# Reports skipped sources with the missing need and the reason, as tests/support/skip.h does.
missing() {
  printf '%s: Skipped\nwithout %s: %s\n' "$1" "$2" "$3"
  case ",${EDGEDRAFT_TEST_REQUIRE:-}," in *",$2,"*) exit 1 ;; esac
  [ "$status" -ne 0 ] || status=77
}
git rev-parse --git-dir >/dev/null 2>&1 || { missing sources git "the list of sources is git's"; exit "$status"; }

clang=(-i) black=(-q) prettier=(--write)
if [ -n "$check" ]; then
  clang=(--dry-run -Werror) black=(-q --check --diff) prettier=(--check)
fi

# Other versions break lines elsewhere.
if command -v clang-format-14 >/dev/null; then
  git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' |
    xargs -0 clang-format-14 "${clang[@]}" || status=1
  # clang-format has no file type for GLSL, so shaders are passed under the name of a C++ file.
  while read -r file; do
    formatted=$(clang-format-14 --assume-filename="${file%.*}.cpp" <"$file")
    if [ "$formatted" = "$(<"$file")" ]; then continue; fi
    if [ -n "$check" ]; then
      diff -u --label "$file" --label "$file, formatted" "$file" - <<<"$formatted" || status=1
    else
      printf '%s\n' "$formatted" >"$file"
    fi
  done < <(git ls-files '*.comp' '*.glsl')
else
  missing "C++, CUDA and GLSL" clang-format "apt-get install clang-format-14"
fi

if [[ $(black --version 2>/dev/null) == black,\ 23.* ]]; then
  git ls-files -z '*.py' | xargs -0 black "${black[@]}" || status=1
else
  missing Python black "apt-get install black, version 23"
fi

npx=(npx --yes prettier@3.10.1 --print-width 100 --log-level warn)
if timeout 60 "${npx[@]}" --version >/dev/null 2>&1; then
  git ls-files -z '*.js' | xargs -0 "${npx[@]}" "${prettier[@]}" || status=1
else
  missing JavaScript npm "npx cannot run prettier 3.10.1"
fi
exit "$status"
