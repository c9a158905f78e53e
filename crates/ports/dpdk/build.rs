//! Compiles the shim in `c/` against the installed DPDK, and links its libraries. The drivers
//! themselves are loaded by DPDK when it starts.

use std::env;
use std::process::ExitCode;

/// The libraries whose functions the shim calls.
const LIBRARIES: &[&str] =
    &["rte_eal", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_net", "rte_kvargs"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=c");
    // Its own link flags name every library of DPDK, so they are not taken.
    let dpdk = match pkg_config::Config::new()
        .atleast_version("22.11")
        .cargo_metadata(false)
        .probe("libdpdk")
    {
        Ok(dpdk) => dpdk,
        Err(error) => {
            eprintln!("{error}");
            eprintln!(
                "DPDK 22.11 or later is not installed. Either install it: apt-get install \
                 libdpdk-dev"
            );
            eprintln!("or build without it: cargo build -p clearway-cli --no-default-features");
            return ExitCode::FAILURE;
        }
    };
    let mut build = cc::Build::new();
    build.files(["c/shim.c", "c/gate.c", "c/peers.c"]).includes(&dpdk.include_paths).include("c");
    // pkg-config's list of paths leaves this flag out, which every header of DPDK relies on.
    build.flag("-include").flag("rte_config.h");
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        // What DPDK asks of any x86 processor: up to SSE 4.2, and nothing of the machine that
        // happens to build.
        Ok("x86_64") => build.flag("-march=x86-64-v2"),
        Ok("aarch64") => build.flag("-march=armv8-a+crc"),
        _ => &mut build,
    };
    build
        .opt_level(2)
        .define("ALLOW_EXPERIMENTAL_API", None)
        .warnings(true)
        .flag("-Wno-unused-parameter");
    build.compile("clearway_dpdk_shim");
    for path in &dpdk.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    ExitCode::SUCCESS
}
