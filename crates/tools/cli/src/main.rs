//! The `clearway` binary.

mod bench;
mod bulk;
mod capture;
mod cli;
mod crew;
mod ctl;
mod doctor;
mod error;
mod extcap;
mod figures;
mod folders;
mod health;
mod http;
mod install;
mod ip;
mod kernel;
mod lab;
mod log;
mod man;
mod metrics;
mod net;
mod nstat;
mod out;
mod pktgen;
mod reflect;
mod run;
mod service;
mod signals;
mod ss;
mod stages;
mod team;
mod top;
mod up;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
