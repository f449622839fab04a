#!/usr/bin/env bash
# Quantizes a model with llama.cpp's tools to every element type and compares this project's
# perplexity with llama.cpp's on the same files and text. Writes a Markdown table.
#
#   scripts/perplexity-peer.sh --peers DIR --model FILE.gguf --text FILE [--bos] [--window N]
#                              [--threads N] [--build DIR] [--types LIST]
#
# --peers names the folder with llama-quantize, llama-imatrix and llama-perplexity; --model is in
# F32, F16 or BF16. --bos sets the model's add_bos_token. Types of three bits or fewer take an
# importance matrix of the same text. A row's matrices have one type (--pure), except those whose
# rows are no multiple of its block, and embeddings of IQ2 and MXFP4 (Q8_0).
#
# Exit code: 0 all within 0.5 %, 1 a type is not.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C.UTF-8

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
}
peers='' model='' text='' window=512 threads=2 bin='' override=()
types=F32,F16,BF16,Q8_0,Q5_1,Q5_0,Q4_1,Q4_0,Q6_K,Q5_K_S,Q4_K_S,Q3_K_S,Q2_K,IQ4_NL,IQ4_XS,IQ3_S,IQ3_XXS,IQ2_S,IQ2_XS,IQ2_XXS,MXFP4
while [ $# -gt 0 ]; do
  case $1 in
    --bos) override=(--override-kv tokenizer.ggml.add_bos_token=bool:true); shift; continue ;;
    -h | --help) usage; exit 0 ;;
    --peers | --model | --text | --window | --threads | --build | --types)
      [ $# -gt 1 ] || { echo "$0: $1 needs a value, see --help" >&2; exit 2; } ;;&
    --peers) peers=$(realpath -m "$2") ;;
    --model) model=$(realpath -m "$2") ;;
    --text) text=$(realpath -m "$2") ;;
    --window) window=$2 ;;
    --threads) threads=$2 ;;
    --build) bin=$(realpath -m "$2") ;;
    --types) types=$2 ;;
    *) echo "$0: $1: unknown option, see --help" >&2; exit 2 ;;
  esac
  shift 2
done
cd "$(dirname "$0")/.."
bin=${bin:-build/release}
for file in "$peers"/llama-{quantize,imatrix,perplexity} "$model" "$text" "$bin/client/edgedraft"; do
  [ -e "$file" ] || { echo "$0: ${file:-an option}: no such file, see --help" >&2; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!EDGEDRAFT_@}"  # the user's own settings must not apply here
log=$work/log
# Runs a command quietly; shows its last lines if it fails.
quiet() {
  "$@" >"$log" 2>&1 || { tail -n 5 "$log" >&2; echo "$0: $1 failed" >&2; exit 1; }
}

# F16 carries the changed metadata; the others are made from it.
base=$work/base.gguf
quiet "$peers/llama-quantize" "${override[@]}" "$model" "$base" COPY "$threads"
quiet "$peers/llama-imatrix" -m "$base" -f "$text" -o "$work/imatrix.gguf" -c "$window" -b "$window" \
  -t "$threads" --chunks 16
status=0
echo "| type | llama.cpp | Edgedraft | ratio |"
echo "|---|---|---|---|"
for type in ${types//,/ }; do
  made=$work/made.gguf
  options=(--pure)
  case $type in
    IQ2_* | IQ3_* | Q2_K | Q3_K_S) options+=(--imatrix "$work/imatrix.gguf") ;;
  esac
  # llama-quantize makes these only per tensor; the embedding has no importance matrix.
  name=$type
  case $type in
    IQ2_* | MXFP4)
      name=Q8_0
      options+=(--tensor-type "(attn|ffn).*weight=${type,,}" --token-embedding-type q8_0)
      ;;
  esac
  quiet "$peers/llama-quantize" "${options[@]}" "$base" "$made" "$name" "$threads"
  theirs=''
  # llama.cpp's log may lose its last line at exit.
  for _ in {1..10}; do
    quiet "$peers/llama-perplexity" -m "$made" -f "$text" -c "$window" -b "$window" -t "$threads"
    theirs=$(sed -n 's/.*PPL = \([0-9.]*\).*/\1/p' "$log")
    [ -z "$theirs" ] || break
  done
  quiet "$bin/client/edgedraft" perplexity --model "$made" -f "$text" --window "$window" \
    --threads "$threads"
  ours=$(sed -n 's/^perplexity \([0-9.]*\) .*/\1/p' "$log")
  awk -v type="$type" -v theirs="$theirs" -v ours="$ours" 'BEGIN {
    printf "| `%s` | %s | %s | %.4f |\n", tolower(type), theirs, ours, ours / theirs
    exit !(ours / theirs > 0.995 && ours / theirs < 1.005)
  }' || status=1
done
exit $status
