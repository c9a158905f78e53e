use std::cell::RefCell;
use std::rc::Rc;

use clearway_proto::Failure;

use super::*;
use crate::Pair;

const SERVER: &str = "10.0.0.1/24";
const CLIENT: &str = "10.0.0.2/24";

fn at(port: u16) -> Endpoint {
    Endpoint::new(Addr::v4([10, 0, 0, 1]), port)
}

/// Sends so many bytes, ends its side, and waits for the end of the other one.
fn sender(bytes: usize) -> impl FnMut(&mut Call<'_>) -> Next {
    let mut left = bytes;
    move |call: &mut Call<'_>| {
        left -= call.send(&vec![7; left]);
        if left == 0 {
            call.shutdown();
        }
        if call.ended().is_some() { Next::Close } else { Next::Wait }
    }
}

/// A server that ends its side at once and takes bytes only from the second `from` on: how much it
/// had when it heard that the connection is over, when, and why it was.
fn late(from: u64) -> (usize, u64, Ended) {
    let told = Rc::new(RefCell::new(None));
    let tell = Rc::clone(&told);
    let server = Services::new().listen(7, move || {
        let (tell, mut came, mut begun) = (Rc::clone(&tell), 0, None);
        move |call: &mut Call<'_>| {
            let begun = *begun.get_or_insert_with(|| call.now());
            let seconds = call.now().since(begun).as_nanos() / 1_000_000_000;
            if let Some(why) = call.ended() {
                *tell.borrow_mut() = Some((came, seconds, why));
                call.finish();
                return Next::Close;
            }
            call.shutdown();
            if seconds >= from {
                came += call.recv().len();
                call.consumed(call.recv().len());
            } else {
                call.wake_at(begun + Duration::from_secs(from));
            }
            Next::Wait
        }
    });
    // With a socket it is not finished when its connection is.
    let client = Services::new().udp(0, |_| {}).connect(at(7), sender(20_000));
    let mut pair = Pair::new((SERVER, server), (CLIENT, client)).unwrap();
    pair.run().unwrap();
    told.take().expect("it hears the end")
}

#[test]
fn bytes_of_a_connection_that_is_over_are_kept_for_who_takes_them_later() {
    assert_eq!(late(0), (20_000, 0, Ended::Closed));
    assert_eq!(late(20), (20_000, 20, Ended::Closed));
}

#[test]
fn bytes_that_nobody_takes_within_a_minute_end_as_unread() {
    let (came, seconds, why) = late(1_000);
    assert_eq!((came, why), (0, Ended::Unread));
    assert!((60..62).contains(&seconds), "{seconds}");
}

#[test]
fn a_connection_beyond_the_places_is_reset() {
    let server = Services::new().places(1).listen(7, || |_: &mut Call<'_>| Next::Wait);
    let ended = Rc::new(RefCell::new(Vec::new()));
    let step = || {
        let ended = Rc::clone(&ended);
        move |call: &mut Call<'_>| {
            if let Some(why) = call.ended() {
                ended.borrow_mut().push(why);
                call.finish();
            }
            Next::Wait
        }
    };
    let client = Services::new().connect(at(7), step()).connect(at(7), step());
    let (served, _) = Pair::new((SERVER, server), (CLIENT, client)).unwrap().run().unwrap();
    assert_eq!((served.begun, served.failed), (2, 1));
    // The other one hears that the program ends.
    assert_eq!(*ended.borrow(), [Ended::Failed(Some(Failure::Reset)), Ended::Stopped]);
}

#[test]
fn conversations_wake_each_other_and_begin_new_ones() {
    // Whoever calls port 7 is told what a second connection, which the first call began, has heard.
    let heard: Rc<RefCell<Vec<u8>>> = Rc::default();
    let server = Services::new().listen(13, || {
        |call: &mut Call<'_>| {
            call.send(b"good day");
            Next::Close
        }
    });
    let kept = Rc::clone(&heard);
    let client = Services::new().connect(at(13), move |call: &mut Call<'_>| {
        if !call.peer_closed() {
            return Next::Wait;
        }
        let first = call.recv().to_vec();
        call.consumed(first.len());
        let kept = Rc::clone(&kept);
        let begun = call.connect(at(13), move |call: &mut Call<'_>| {
            if call.peer_closed() {
                kept.borrow_mut().extend_from_slice(&first);
                kept.borrow_mut().extend_from_slice(call.recv());
                call.consumed(call.recv().len());
                return Next::Close;
            }
            Next::Wait
        });
        assert!(begun.is_ok());
        Next::Close
    });
    let (served, asked) = Pair::new((SERVER, server), (CLIENT, client)).unwrap().run().unwrap();
    assert_eq!((served.begun, asked.begun, asked.ended, asked.failed), (2, 2, 2, 0));
    assert_eq!(*heard.borrow(), b"good daygood day");
}

#[test]
fn what_cannot_begin_is_told_in_a_sentence() {
    let step = || |_: &mut Call<'_>| Next::Wait;
    let why = |services: Services| {
        let other = Services::new().udp(9, |_| {});
        let ended = Pair::new((SERVER, services), (CLIENT, other)).unwrap().run();
        ended.unwrap_err().to_string()
    };
    let two = Services::new().listen(7, step).listen(7, step);
    assert!(why(two).starts_with("cannot listen on port 7: "));
    assert!(why(Services::new().listen(0, step)).contains("port 0"));
    let two = Services::new().udp(9, |_| {}).udp(9, |_| {});
    assert_eq!(why(two), "cannot bind UDP port 9: somebody has it already");
}
