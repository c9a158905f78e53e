//! Two cores, each with a stack, a thread and an application of its own; the device's queues share
//! connections out among them. They say together how many they had.
//!
//! ```text
//! cargo run -p clearway --example cores -- tap:cw0 10.0.0.2/24 0,1
//! ```

use std::error::Error;

use clearway::{Cores, Duration, Io, Net, Next, serve};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, cores] = args.as_slice() else {
        return Err("usage: cores PORT ADDRESS/LENGTH CORES".into());
    };
    let cores: Cores = cores.parse()?;
    let mut net = Net::builder().port(port).address(address).cores(cores).open()?;
    let stopper = net.stopper();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.drain(Duration::from_millis(10_000));
        }
    });
    println!("ready");
    // Each core calls this once, in its own thread.
    let reports = net.run_each(|core| {
        serve(7, move |_: &mut (), io: &mut dyn Io| {
            io.send(format!("core {core}\n").as_bytes());
            Next::Close
        })
    })?;
    let counts: Vec<u64> = reports.iter().map(|report| report.app.begun).collect();
    println!("connections of each core: {counts:?}, together {}", counts.iter().sum::<u64>());
    Ok(())
}
