//! A web server that ends well: the first SIGTERM or SIGINT has it take no more connections and
//! wait for those that have an answer under way, so many seconds at most; the second ends it at once.
//! Whoever was cut off is named.
//!
//! ```text
//! cargo run -p clearway --example signals -- tap:cw0 10.0.0.2/24 1000000 10
//! ```

use std::error::Error;

use clearway::{Duration, Net, Source, Talks, http};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, page_len, seconds] = args.as_slice() else {
        return Err("usage: signals PORT ADDRESS/LENGTH BYTES-OF-PAGE SECONDS".into());
    };
    let config = http::Config { page_len: page_len.parse()?, ..http::Config::default() };
    let server = Talks::new(http::Server::new(config)?, Source::Listen(80), 4096);
    let patience = Duration::from_millis(u64::from(seconds.parse::<u32>()?) * 1_000);
    let mut net = Net::builder().port(port).address(address).open()?;

    let (stopper, stopped) = (net.stopper(), net.stopper());
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        let mut came = signals.forever();
        if came.next().is_some() {
            println!("draining");
            stopper.drain(patience);
        }
        if came.next().is_some() {
            stopper.stop();
        }
    });

    println!("ready");
    let report = net.run(server)?;
    for left in stopped.left() {
        println!("{} was cut off in {:?}", left.remote, left.state);
    }
    println!("answered {} requests", report.app.requests());
    Ok(())
}
