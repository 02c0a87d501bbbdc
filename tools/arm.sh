#!/usr/bin/env bash
# Tests the kernels as a 64-bit ARM processor computes them, by NEON: cross-compiled, and run by QEMU.
#
#     tools/arm.sh                  # the tests of `oomph-kernels` and `oomph-core`
#     tools/arm.sh -p oomph-kernels conv::     # other arguments of `cargo test`
#
# It needs Debian's packages `qemu-user` and `gcc-aarch64-linux-gnu`, and `rustup target add aarch64-unknown-linux-gnu`.
# On two cores it takes eight minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
for program in qemu-aarch64 aarch64-linux-gnu-gcc; do
    command -v "$program" >/dev/null && continue
    echo "error: \`$program\` is missing" >&2
    echo >&2
    echo "hint: \`apt-get install qemu-user gcc-aarch64-linux-gnu\`" >&2
    exit 1
done
if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target ]]; then
    echo "error: Rust's target \`$target\` is missing" >&2
    echo >&2
    echo "hint: \`rustup target add $target\`" >&2
    exit 1
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
if [[ $# == 0 ]]; then set -- -p oomph-core -p oomph-kernels --lib; fi
cargo test --release --target "$target" "$@"
