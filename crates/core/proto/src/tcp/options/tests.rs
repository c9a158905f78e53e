use clearway_wire::tcp::TcpOptions;

use super::super::ecn::Handshake;
use super::{Agreed, MIN_MSS, Offered, agree, ours};
use crate::config::TcpConfig;

fn full() -> Offered {
    Offered { mss: Some(1460), scale: Some(9), ts: Some((1, 0)), sack: true }
}

fn with(peer: Offered) -> Agreed {
    agree(&TcpConfig::default(), &peer, false, 1460, 0)
}

#[test]
fn what_both_offer_is_agreed() {
    let a = with(full());
    assert_eq!(
        a,
        Agreed {
            snd_scale: 9,
            rcv_scale: 10,
            scaling: true,
            ts: true,
            sack: true,
            mss: 1460,
            ecn: Handshake::default()
        }
    );
    assert_eq!(a.payload_mss(), 1448);
}

#[test]
fn what_the_peer_leaves_out_is_off() {
    let a = with(Offered::default());
    assert_eq!(
        a,
        Agreed {
            snd_scale: 0,
            rcv_scale: 0,
            scaling: false,
            ts: false,
            sack: false,
            mss: 536,
            ecn: Handshake::default()
        }
    );
    assert_eq!(a.payload_mss(), 536);
    assert_eq!(agree(&TcpConfig::default(), &Offered::default(), true, 1440, 0).mss, 1220);
}

#[test]
fn what_we_do_not_offer_is_off() {
    let cfg =
        TcpConfig { window_scaling: false, timestamps: false, sack: false, ..TcpConfig::default() };
    assert_eq!(
        ours(&cfg, 1460, 0),
        Offered { mss: Some(1460), scale: None, ts: None, sack: false }
    );
    let a = agree(&cfg, &full(), false, 1460, 0);
    assert_eq!(
        a,
        Agreed {
            snd_scale: 0,
            rcv_scale: 0,
            scaling: false,
            ts: false,
            sack: false,
            mss: 1460,
            ecn: Handshake::default()
        }
    );
}

#[test]
fn a_shift_beyond_fourteen_is_taken_as_fourteen() {
    assert_eq!(with(Offered { scale: Some(255), ..full() }).snd_scale, 14);
}

#[test]
fn a_tiny_segment_size_is_raised_to_the_floor() {
    for mss in [0, 1, 48, 87] {
        assert_eq!(with(Offered { mss: Some(mss), ..full() }).mss, MIN_MSS);
    }
    assert_eq!(with(Offered { mss: Some(89), ..full() }).mss, 89);
}

#[test]
fn link_and_owner_bound_the_segment_size() {
    let cfg = TcpConfig::default();
    assert_eq!(agree(&cfg, &Offered { mss: Some(9000), ..full() }, false, 1460, 0).mss, 1460);
    assert_eq!(agree(&cfg, &full(), false, 1460, 1000).mss, 1000);
    assert_eq!(ours(&cfg, 1460, 1000).mss, Some(1000));
    assert_eq!(ours(&cfg, 1460, 9000).mss, Some(1460));
    assert_eq!(ours(&cfg, 1460, 1).mss, Some(MIN_MSS));
}

#[test]
fn the_options_of_a_segment_are_an_offer() {
    let o = TcpOptions {
        mss: Some(1400),
        wscale: Some(3),
        ts: Some((5, 6)),
        sack_permitted: true,
        ..TcpOptions::NONE
    };
    assert_eq!(
        Offered::from(&o),
        Offered { mss: Some(1400), scale: Some(3), ts: Some((5, 6)), sack: true }
    );
}
