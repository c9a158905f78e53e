//! How the stack begins: a private host of one worker, with the ports of its settings.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;

use clearway_engine::Mode;
use clearway_host::{Control, HostByHand, Settings};

/// In place of the settings' file in sentences.
const NAME: &str = "CLEARWAY_INPROC";

/// Makes the host of these settings, with its ports. An error is a sentence for the user.
pub(crate) fn begin(text: &str) -> Result<HostByHand, String> {
    let mut settings = Settings::parse(text, Path::new(NAME)).map_err(|error| error.to_string())?;
    // Who drives it sleeps by itself.
    settings.mode = Mode::Interrupt;
    if settings.workers.len() != 1 {
        return Err("cores.workers: a stack inside of a program has one worker".into());
    }
    let mut secret = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut secret));
    read.map_err(|error| format!("cannot read the system's random source: {error}"))?;
    let mut setup = settings.setup(PathBuf::new(), secret);
    setup.is_private = true;
    let mut host = HostByHand::new(setup).map_err(|error| error.to_string())?;
    furnish(&mut host, &settings)?;
    if host.must_poll() {
        return Err(
            "a port of DPDK cannot be slept on, so it cannot lie inside of a program: use \
            `tap:`, `tun:` or `loop`, or a host (`clearway up`)"
                .into(),
        );
    }
    Ok(host)
}

/// Carries out the settings. The control plane waits for the worker, which is turned meanwhile.
fn furnish(host: &mut HostByHand, settings: &Settings) -> Result<(), String> {
    let control = Control::new(host.handle(), settings.control(env!("CARGO_PKG_VERSION").into()));
    thread::scope(|scope| {
        let begun = scope.spawn(|| control.begin(settings, &[]));
        while !begun.is_finished() {
            let time = host.time();
            host.turn(time).map_err(|error| error.to_string())?;
            thread::yield_now();
        }
        match begun.join() {
            Ok(begun) => begun.map_err(|error| error.to_string()),
            Err(_) => Err("the control plane panicked; this is a bug of clearway".into()),
        }
    })
}
