#!/usr/bin/env bash
# Builds the fuzz targets with AddressSanitizer and runs each for MINUTES=20 (JOBS=2 at a time), from the corpora of the repository, which stay as
# they are: what is found lies in target/fuzz. Prints a table; exit code 1 when an input crashed, hung or leaked. Targets may be named as arguments.
#
# cargo-fuzz asks for a nightly compiler; the stable one does the same when it is told that it may (RUSTC_BOOTSTRAP).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin" RUSTC_BOOTSTRAP=1
minutes=${MINUTES:-20} jobs=${JOBS:-2}
out=$PWD/target/fuzz
programs=$PWD/fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release

(cd fuzz && cargo fuzz build --release)
targets=("$@")
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(cd fuzz && cargo fuzz list)
fi
mkdir -p "$out"

fuzz() {
    local target=$1 more=()
    mkdir -p "$out/$target"
    [[ "$target" != script ]] || more=(tests/scripts)
    "$programs/$target" -max_total_time=$((minutes * 60)) -print_final_stats=1 -rss_limit_mb=4096 -artifact_prefix="$out/$target-" \
        "$out/$target" "fuzz/corpus/$target" "${more[@]}" >"$out/$target.log" 2>&1 || echo failed >"$out/$target.failed"
}

rm -f "$out"/*.failed
for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
    echo "fuzz: $target for $minutes minutes" >&2
    fuzz "$target" &
done
wait

printf '%-10s %12s %10s %10s  %s\n' target executions edges inputs outcome
bad=0
for target in "${targets[@]}"; do
    log=$out/$target.log outcome=ok
    if [[ -e "$out/$target.failed" ]]; then
        outcome="FAILED: $log" bad=1
    fi
    printf '%-10s %12s %10s %10s  %s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)" "$(grep -o 'corp: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)" "$outcome"
done
exit $bad
