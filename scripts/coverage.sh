#!/usr/bin/env bash
# Which lines of crates/core/proto and crates/core/wire do tests reach? Builds with what runs counted (llvm-cov), runs the tests of both crates,
# the packet scripts, the corpora of the fuzz targets and SEEDS=2000 of the simulator, and prints a table: of each file, lines of code, those
# that nothing reached, and the share that was. target/coverage/uncovered.txt has those lines themselves. Test code does not count.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
seeds=${SEEDS:-2000}
out=$PWD/target/coverage
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
if [[ ! -x "$tools/llvm-cov" ]]; then
    echo "coverage: installing llvm-tools, of rustup" >&2
    rustup component add llvm-tools
fi

rm -rf "$out/raw"
mkdir -p "$out/raw"
# One file for each program, which its processes share.
export CARGO_TARGET_DIR=$out/build RUSTFLAGS="-C instrument-coverage" LLVM_PROFILE_FILE="$out/raw/%m.profraw"
crates=(-p clearway-proto -p clearway-wire -p clearway-fuzz)
examples=(-p clearway-sim --example sim -p clearway-script --example scripts)

cargo build "${examples[@]}"
cargo test "${crates[@]}" --lib --tests --no-run --message-format=json |
    jq -r 'select(.executable != null) | .executable' | sort -u >"$out/programs.txt"
# Two that send for minutes of a stream's time take hours when each line is counted; what they reach others of BBR reach.
cargo test "${crates[@]}" --lib --tests --quiet -- --skip one_loss_in_a_hundred_costs_next_to_nothing \
    --skip a_path_that_becomes_faster_or_slower_is_followed
programs=$out/build/debug/examples
"$programs/sim" --seeds "$seeds" --keep-going
"$programs/scripts" >"$out/scripts.log" || { tail -n 20 "$out/scripts.log"; exit 1; }

"$tools/llvm-profdata" merge -sparse "$out"/raw/*.profraw -o "$out/all.profdata"
mapfile -t objects < <(printf '%s\n' "$programs/scripts" | cat - "$out/programs.txt" | sed 's/^/--object=/')
"$tools/llvm-cov" export --format=lcov --instr-profile="$out/all.profdata" "$programs/sim" "${objects[@]}" \
    --ignore-filename-regex='/tests/|/tests\.rs$|/examples/' crates/core/proto/src crates/core/wire/src >"$out/all.lcov"
exec scripts/coverage.py "$out/all.lcov" "$out/uncovered.txt"
