use clearway_base::Duration;
use clearway_dev::{DevCounters, Mac};
use clearway_pkt::Offloads;

use super::*;

/// A port that is nothing but its descriptor.
struct Bare(Option<Notifier>);

impl Facts for Bare {
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn mac(&self) -> Option<Mac> {
        None
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    fn counters(&self) -> DevCounters {
        DevCounters::default()
    }

    fn link_up(&self) -> bool {
        true
    }
}

/// Sleeps a moment, at most, with ports at the places 1, 2 and 5, of which the last has no
/// descriptor; `frames` says at which there is something.
fn woken(is_rung: bool, frames: &[usize]) -> Woken {
    let (notifier, other) = (Notifier::new().unwrap(), Notifier::new().unwrap());
    let port = |place: usize| {
        let fd = Notifier::new().unwrap();
        if frames.contains(&place) {
            fd.notify();
        }
        (place, Bare(Some(fd)))
    };
    let ports = [port(1), port(2), (5, Bare(None))];
    if is_rung {
        other.notify();
    }
    let now = Instant::from_millis(1);
    let ports = ports.iter().map(|(place, port)| (*place, port));
    sleep(&notifier, Some(other.as_fd()), ports, now, now + Duration::from_millis(1)).unwrap()
}

#[test]
fn who_was_rung_need_not_look_at_ports_that_had_nothing_then() {
    assert_eq!(woken(true, &[]), Woken { rung: true, quiet: 1 << 1 | 1 << 2 });
    assert_eq!(woken(true, &[2]), Woken { rung: true, quiet: 1 << 1 });
    assert_eq!(woken(true, &[1, 2]), Woken { rung: true, quiet: 0 });
}

#[test]
fn who_was_not_rung_looks_at_all_ports() {
    assert_eq!(woken(false, &[1]), Woken { rung: false, quiet: 0 });
    // The time was over: a port that holds frames back may have one now.
    assert_eq!(woken(false, &[]), Woken { rung: false, quiet: 0 });
}

#[test]
fn a_thread_that_sleeps_here_asks_to_be_woken_in_time() {
    std::thread::spawn(|| {
        woken(false, &[]);
        assert_eq!(u64::try_from(prctl::get_timerslack().unwrap()), Ok(TIMER_SLACK_NS));
    })
    .join()
    .unwrap();
}
