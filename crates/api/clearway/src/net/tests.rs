use std::sync::mpsc;
use std::time::Duration as Patience;

use clearway_engine::{Next, Source, Talks};
use clearway_wire::Endpoint;

use super::*;
use crate::{connect, serve};

#[test]
fn what_cannot_be_opened_is_told_in_a_sentence() {
    let sentence =
        |builder: Builder| builder.open().err().map(|why| why.to_string()).unwrap_or_default();
    assert!(sentence(Net::builder()).contains("no port"));
    assert!(sentence(Net::builder().address("10.0.0.1/24")).contains("no port"));
    assert!(sentence(Net::builder().port("cable:1")).contains("cable"));
    assert!(
        sentence(Net::builder().address("10.0.0.1/24").port("loop"))
            .contains("Name the port first")
    );
    assert!(sentence(Net::builder().port("loop").address("10.0.0.1")).contains("10.0.0.1"));
    assert!(
        sentence(Net::builder().port("loop").gateway("nobody")).contains("nobody is no address")
    );
    let numbers = sentence(Net::builder().port("loop").connections(4_000_000_000));
    assert!(numbers.contains("connections may be 1 to 16777216, not 4000000000"), "{numbers}");
    assert!(sentence(Net::builder().port("loop").connections(0)).contains("not 0"));
    assert!(sentence(Net::builder().port("loop").mtu(4_000_000_000)).contains("576 to 65535"));
    let mut config = Config::new([7; 32]);
    config.limits.udp_sockets = u32::MAX;
    assert!(sentence(Net::builder().port("loop").config(config)).contains("udp_sockets"));
    let mut net = Net::builder().port("loop").address("10.0.0.0/24").open().unwrap();
    let why = net.run(serve(7, |_: &mut (), _| Next::Close)).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("10.0.0.0/24 cannot be an address"), "{why}");
    let again = net.run(serve(7, |_: &mut (), _| Next::Close)).map(|_| ()).unwrap_err().to_string();
    assert!(again.contains("runs once"), "{again}");
}

#[test]
fn a_run_ends_when_it_is_stopped_before_or_meanwhile() {
    for before in [true, false] {
        let mut net = Net::builder().port("loop").address("10.0.0.1/24").open().unwrap();
        let stopper = net.stopper();
        let (done, wait) = mpsc::channel();
        let stopping = std::thread::spawn(move || {
            if !before {
                // The run has begun or not when this is called: both are meant.
                std::thread::yield_now();
            }
            stopper.stop();
            done.send(()).unwrap();
        });
        if before {
            wait.recv_timeout(Patience::from_secs(10)).unwrap();
        }
        let report = net.run(serve(7, |_: &mut (), _| Next::Close)).unwrap();
        assert_eq!(report.app.begun, 0);
        stopping.join().unwrap();
    }
}

#[test]
fn a_client_over_the_loopback_hears_that_nobody_listens_and_is_finished() {
    let mut net = Net::builder().port("loop").address("10.0.0.1/24").connections(8).open().unwrap();
    let remote = Endpoint::new(Addr::v4([10, 0, 0, 1]), 9);
    let report = net.run(connect(remote, 3, |_: &mut (), _| Next::Wait)).unwrap();
    assert_eq!((report.app.begun, report.app.ended, report.app.failed), (3, 3, 3));
}

#[test]
fn each_core_runs_an_application_of_its_own() {
    let cores: Cores = "0".parse().unwrap();
    let mut net = Net::builder().port("loop").address("10.0.0.1/24").cores(cores).open().unwrap();
    let remote = Endpoint::new(Addr::v4([10, 0, 0, 1]), 9);
    let reports =
        net.run_each(|core| connect(remote, core as u32 + 2, |_: &mut (), _| Next::Wait)).unwrap();
    assert_eq!(reports.iter().map(|report| report.app.failed).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_service_of_ones_own_runs_on_a_net() {
    let mut net = Net::builder().port("loop").address("10.0.0.1/24").open().unwrap();
    net.stopper().stop();
    let server = clearway_http::Server::new(clearway_http::Config::default()).unwrap();
    let report = net.run(Talks::new(server, Source::Listen(80), 16)).unwrap();
    assert_eq!(report.app.accepted, 0);
}

#[test]
fn what_leads_nowhere_is_told_when_the_run_begins() {
    let fails = |builder: Builder, port| {
        let mut net = builder.port("loop").address("10.0.0.1/24").open().unwrap();
        net.run(serve(port, |_: &mut (), _| Next::Close)).map(|_| ()).unwrap_err().to_string()
    };
    for gateway in ["10.9.9.9", "10.0.0.1", "2001:db8::1"] {
        let why = fails(Net::builder().gateway(gateway), 7);
        assert!(why.contains(gateway) && why.contains("on no link of ours"), "{why}");
    }
    assert!(fails(Net::builder(), 0).contains("nobody could name port 0"));
    let mut net = Net::builder().port("loop").address("10.0.0.1/24").open().unwrap();
    let why =
        net.run(crate::answer_datagrams(0, |_, _| false)).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("nobody could name port 0"), "{why}");
    let mut net = Net::builder().port("loop").address("10.0.0.1/24").open().unwrap();
    let remote = Endpoint::new(Addr::v4([10, 0, 0, 1]), 0);
    let why = net
        .run(connect(remote, 1, |_: &mut (), _| Next::Wait))
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(why.contains("cannot connect to 10.0.0.1:0"), "{why}");
    let mut net = Net::builder().port("loop").address("10.0.0.1/24").connections(8).open().unwrap();
    let remote = Endpoint::new(Addr::v4([10, 0, 0, 1]), 9);
    let many = net.run(connect(remote, 4_000_000_000, |_: &mut (), _| Next::Wait)).map(|_| ());
    assert!(many.unwrap_err().to_string().contains("cannot connect to"));
}
