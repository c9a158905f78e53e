use super::*;

#[test]
fn names_of_kinds_are_found_again() {
    for kind in Kind::ALL {
        assert_eq!(Kind::of(kind.name()), Some(*kind));
    }
}

#[test]
fn numbers_have_no_sign_and_stay_in_their_range() {
    assert_eq!(Kind::Queue.check("65535"), Ok(Value::Number(65_535)));
    for bad in ["65536", "-1", "+1", "1x", "", " 1"] {
        assert!(Kind::Queue.check(bad).is_err(), "{bad:?}");
    }
    assert!(Kind::Mtu.check("67").is_err());
    assert!(Kind::Number.check("18446744073709551616").is_err());
}

#[test]
fn ports_are_one_or_a_range() {
    assert_eq!(Kind::Ports.check("80"), Ok(Value::Ports(PortRange { first: 80, last: 80 })));
    assert_eq!(
        Kind::Ports.check("1-65535"),
        Ok(Value::Ports(PortRange { first: 1, last: 65_535 }))
    );
    for bad in ["2-1", "-", "1-", "65536", "a"] {
        assert!(Kind::Ports.check(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_namespace_cannot_name_another_folder() {
    for bad in ["", ".", "..", "a/b", "../x", "a b", "\u{e9}", &"x".repeat(65)] {
        assert!(Kind::Namespace.check(bad).is_err(), "{bad:?}");
    }
    assert!(Kind::Namespace.check("server-1.x_y").is_ok());
}

#[test]
fn a_session_is_a_worker_and_a_slot_and_perhaps_a_generation() {
    let name = |generation| Value::Session(SessionName { worker: 1, slot: 77, generation });
    assert_eq!(Kind::Session.check("1:77"), Ok(name(None)));
    assert_eq!(Kind::Session.check("1:77:5"), Ok(name(Some(5))));
    for bad in ["", "1", "1:", ":1", "256:1", "1:2:", "1:2:3:4", "1:4294967296", "-1:2", "a:b"] {
        assert!(Kind::Session.check(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_net_may_be_a_lone_address() {
    assert_eq!(Kind::Net.check("10.0.0.1"), Ok(Value::Prefix("10.0.0.1/32".parse().unwrap())));
    assert_eq!(Kind::Net.check("::1"), Ok(Value::Prefix("::1/128".parse().unwrap())));
    assert!(Kind::Prefix.check("10.0.0.1").is_err());
}

#[test]
fn protocols_have_names_or_numbers() {
    assert_eq!(Kind::Protocol.check("tcp"), Ok(Value::Protocol(6)));
    assert_eq!(Kind::Protocol.check("132"), Ok(Value::Protocol(132)));
    assert!(Kind::Protocol.check("256").is_err());
}
