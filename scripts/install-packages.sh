#!/usr/bin/env bash
# Installs the packages for building (`build`), building and testing (`test`), the further stages of
# scripts/test.sh --full (`full`), or building for 64-bit Arm (`arm64`). Runs on Debian 12 and Ubuntu
# 24.04 or newer. Asks for root only if something is missing. Safe to run again. `libraries` prints
# the names of those that programs and tests link.
set -euo pipefail

usage() { echo "usage: $0 build|test|full|arm64|libraries" >&2; exit 2; }
[ $# -eq 1 ] || usage

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "$0: apt-get not found. Install the equivalents of the packages listed in this script," \
       "then call cmake as in docs/quickstart.md; it names what is missing." >&2
  exit 1
fi

# Older releases have CMake before 3.25, Boost before 1.81 or no glslc.
. /etc/os-release
case ${ID:-} in
  debian) oldest=12 ;;
  ubuntu) oldest=24.04 ;;
  *) oldest='' ;;
esac
# Debian's testing has no VERSION_ID.
if [ -n "$oldest" ] && [ -n "${VERSION_ID:-}" ] && dpkg --compare-versions "$VERSION_ID" lt "$oldest"; then
  echo "$0: $PRETTY_NAME is too old. Debian 12 and Ubuntu 24.04 are the oldest releases with all needed" \
       "packages." >&2
  exit 1
fi

# Coroutines and boost::system::result need Boost 1.81; Debian 12's default is 1.74.
boost=libboost-dev
fibers=libboost-context-dev
if [ "${VERSION_CODENAME:-}" = bookworm ]; then
  boost=libboost1.81-dev
  fibers=libboost-context1.81-dev
fi
# Ubuntu's pkg-config file of SentencePiece requires it.
protobuf=()
[ "${ID:-}" = ubuntu ] && protobuf=(libprotobuf-dev)

# Ubuntu's browser is a snap, and some of its releases lack PyTorch: tests that need them skip.
debian_only=()
[ "${ID:-}" = debian ] && debian_only=(chromium python3-torch python3-sentencepiece)

# Libraries for the processor that runs the programs.
libraries=(
  "$boost" libssl-dev zlib1g-dev libflatbuffers-dev "${protobuf[@]}" libsentencepiece-dev
  libpcre2-dev libutf8proc-dev libsqlite3-dev libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libvulkan-dev
)
packages=(
  g++ cmake ninja-build pkg-config git ca-certificates flatbuffers-compiler
  libjs-markdown-it node-dompurify glslc spirv-tools "${libraries[@]}"
)
case $1 in
  build) ;;
  libraries)
    printf '%s\n' "${libraries[@]}" libgtest-dev
    exit 0
    ;;
  arm64) packages+=("$fibers" libgtest-dev g++-aarch64-linux-gnu qemu-user mmdebstrap) ;;
  # black and clang-format are for scripts/format.sh, clang for the fuzz targets. Mesa brings a
  # software Vulkan driver for machines without a GPU. Fibers run CUDA kernels on the host. Gnuplot
  # draws an experiment's report, Chromium shows it. HAProxy balances replicas. PyTorch runs the
  # tests of train/. The last five boot a kernel with netem.
  test) packages+=("$fibers" libgtest-dev black clang clang-format-14 haproxy libclang-rt-dev openssl curl gnuplot-nox "${debian_only[@]}"
                   mesa-vulkan-drivers vulkan-validationlayers
                   qemu-system-x86 busybox-static cpio xz-utils iproute2) ;;
  full) packages+=(clang-19 clang-tidy-19 libc++-19-dev libc++abi-19-dev) ;;
  *) usage ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [ "${status:0:2}" = ii ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "Installing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "$0: packages are missing, and sudo is not installed. As root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
said=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get install -y -qq \
  --no-install-recommends --no-remove "${missing[@]}" 2>&1 >/dev/null) || {
    echo "$said" >&2
    case $said in
      *"need to be removed"*)
        echo "$0: not removing other packages to make room for these. Check what would be removed" \
             "and install by hand: apt-get install ${missing[*]}" >&2
        ;;
    esac
    exit 1
  }
