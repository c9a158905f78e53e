extern crate std;

use super::*;

fn addr(n: u32) -> Addr {
    Addr::v4((0x0a00_0000 + n).to_be_bytes())
}

fn cache() -> PathMtus {
    PathMtus::new(4, AddrHash::new(&[1; 32], 3))
}

const T: Table = Table(0);

#[test]
fn a_path_mtu_only_shrinks_until_it_expires() {
    let mut c = cache();
    let now = Instant::from_millis(5);
    assert!(c.learn(now, T, &addr(1), 1400));
    assert!(!c.learn(now, T, &addr(1), 1450));
    assert_eq!(c.get(T, &addr(1)), Some(1400));
    assert!(c.learn(now, T, &addr(1), 1300));
    assert_eq!(c.get(T, &addr(1)), Some(1300));
    assert_eq!(c.get(T, &addr(2)), None);
    assert_eq!(c.get(Table(1), &addr(1)), None);
    assert!(!c.expire(now + Duration::from_secs(599)));
    assert!(c.expire(now + Duration::from_secs(600)));
    assert_eq!(c.get(T, &addr(1)), None);
    assert_eq!(c.next_deadline(), Instant::NEVER);
}

#[test]
fn the_cache_is_bounded_and_the_oldest_goes() {
    let mut c = cache();
    for n in 0..100u32 {
        assert!(c.learn(Instant::from_millis(u64::from(n)), T, &addr(n), 1400));
    }
    assert_eq!((0..100).filter(|n| c.get(T, &addr(*n)).is_some()).count(), 4);
    assert_eq!(c.get(T, &addr(99)), Some(1400));
    assert_eq!(c.get(T, &addr(95)), None);
}
