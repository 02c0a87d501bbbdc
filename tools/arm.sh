#!/usr/bin/env bash
# Tests kernels and mathematics on ARM with NEON, by emulation: whether they are right, not how fast they are.
#
#     tools/arm.sh            the kernels' own tests, and `tests/numerics`
#     tools/arm.sh NAME       those of them whose names contain NAME
#
# Needs the standard library (`rustup target add aarch64-unknown-linux-gnu`), a linker (Debian: `gcc-aarch64-linux-gnu`) and
# an emulator (Debian: `qemu-user`).
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
linker=aarch64-linux-gnu-gcc
emulator=qemu-aarch64

missing() {
    echo "error: $1 is missing" >&2
    echo >&2
    echo "hint: \`$2\`" >&2
    exit 1
}
[[ -d $(rustc --print sysroot)/lib/rustlib/$target ]] || missing "the standard library for $target" "rustup target add $target"
command -v "$linker" >/dev/null || missing "\`$linker\`" "apt-get install gcc-aarch64-linux-gnu"
command -v "$emulator" >/dev/null || missing "\`$emulator\`" "apt-get install qemu-user"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker
# The libraries of the system are those that the linker brings.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L /usr/aarch64-linux-gnu"
# C code of dependencies.
export CC_aarch64_unknown_linux_gnu=$linker
cargo test --release --target "$target" -p oomph-kernels -p oomph --lib --test numerics -- "$@"
