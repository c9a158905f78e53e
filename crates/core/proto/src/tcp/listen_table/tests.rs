use super::*;

fn listener(addr: Addr, port: u16, both: bool) -> Listener {
    Listener {
        table: Table(0),
        local: Endpoint::new(addr, port),
        bound: None,
        reuse_port: false,
        next: None,
        given: 0,
        both,
        backlog: 1,
        defer: 0,
        fast_open: FastOpenListener::default(),
        token: 0,
        options: ConnOptions::default(),
        settings: ConnOptions::default().into(),
        seldom: Seldom::NONE,
        syn_rcvd: 0,
        queue: List::new(),
        event_queue: Link::OFF,
    }
}

fn v4(last: u8) -> Addr {
    Addr::v4([10, 0, 0, last])
}

const V6: Addr = Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

#[test]
fn a_specific_address_wins_over_the_wildcard() {
    let mut t = ListenTable::new(8, AddrHash::new(&[1; 32], 6));
    let any = t.insert(listener(Addr::ANY_V4, 80, false)).unwrap();
    let one = t.insert(listener(v4(1), 80, false)).unwrap();
    assert_eq!(t.find(Table(0), Endpoint::new(v4(1), 80)), Some(one));
    assert_eq!(t.find(Table(0), Endpoint::new(v4(2), 80)), Some(any));
    assert_eq!(t.find(Table(0), Endpoint::new(v4(2), 81)), None);
    assert_eq!(t.find(Table(1), Endpoint::new(v4(2), 80)), None);
    assert_eq!(t.find(Table(0), Endpoint::new(V6, 80)), None);
}

#[test]
fn the_ipv6_wildcard_takes_ipv4_unless_it_is_told_not_to() {
    let mut t = ListenTable::new(8, AddrHash::new(&[1; 32], 6));
    let both = t.insert(listener(Addr::ANY_V6, 80, true)).unwrap();
    assert_eq!(t.find(Table(0), Endpoint::new(v4(1), 80)), Some(both));
    assert_eq!(t.find(Table(0), Endpoint::new(V6, 80)), Some(both));
    assert_eq!(t.insert(listener(Addr::ANY_V4, 80, false)), Err(ListenError::InUse));
    t.remove(both).unwrap();
    assert_eq!(t.find(Table(0), Endpoint::new(v4(1), 80)), None);
    let only6 = t.insert(listener(Addr::ANY_V6, 80, false)).unwrap();
    let only4 = t.insert(listener(Addr::ANY_V4, 80, false)).unwrap();
    assert_eq!(t.find(Table(0), Endpoint::new(v4(1), 80)), Some(only4));
    assert_eq!(t.find(Table(0), Endpoint::new(V6, 80)), Some(only6));
}

#[test]
fn the_same_address_and_port_is_refused_and_so_is_one_too_many() {
    let mut t = ListenTable::new(2, AddrHash::new(&[1; 32], 6));
    t.insert(listener(v4(1), 80, false)).unwrap();
    assert_eq!(t.insert(listener(v4(1), 80, false)), Err(ListenError::InUse));
    t.insert(listener(v4(1), 81, false)).unwrap();
    assert_eq!(t.insert(listener(v4(1), 82, false)), Err(ListenError::TooMany));
}

#[test]
fn news_of_a_listener_is_told_once_and_dies_with_it() {
    let mut t = ListenTable::new(2, AddrHash::new(&[1; 32], 6));
    let a = t.insert(listener(v4(1), 80, false)).unwrap();
    let b = t.insert(listener(v4(1), 81, false)).unwrap();
    t.mark(a);
    t.mark(a);
    t.mark(b);
    t.remove(a);
    assert_eq!(t.next_marked(), Some((b, 0)));
    assert_eq!(t.next_marked(), None);
    t.mark(a);
    assert_eq!(t.next_marked(), None);
}
