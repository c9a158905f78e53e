use simple_dns::rdata::{A, CNAME};
use simple_dns::{ResourceRecord, rdata::AAAA};

use super::*;

/// An answer to a question for this name, with these records.
fn reply(
    id: u16,
    name: &'static str,
    family: Family,
    records: Vec<(&'static str, RData<'static>)>,
) -> Packet<'static> {
    let mut packet = Packet::new_reply(id);
    let kind = if family == Family::V4 { TYPE::A } else { TYPE::AAAA };
    packet.questions.push(Question::new(
        Name::new(name).unwrap(),
        kind.into(),
        CLASS::IN.into(),
        false,
    ));
    for (name, rdata) in records {
        packet.answers.push(ResourceRecord::new(Name::new(name).unwrap(), CLASS::IN, 60, rdata));
    }
    packet
}

fn read(
    packet: &Packet<'_>,
    id: u16,
    name: &str,
    family: Family,
) -> Option<Result<Vec<Addr>, DnsError>> {
    answer(&packet.build_bytes_vec().unwrap(), id, name, family)
}

#[test]
fn a_question_is_what_rfc_1035_4_1_draws() {
    let bytes = question(0x1234, "www.example", Family::V4).unwrap();
    let expected = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    assert_eq!(bytes, expected);
    assert_eq!(question(1, "a.", Family::V6).unwrap()[12..], *b"\x01a\0\0\x1c\0\x01");
}

#[test]
fn what_is_no_name_is_refused() {
    let long = "a".repeat(64);
    let longer = "abcdefg.".repeat(33);
    for name in ["", ".", "a..b", ".a", &long, &longer] {
        let refused = question(1, name, Family::V4);
        assert_eq!(refused, Err(DnsError::BadName(name.to_owned())), "{name:?}");
    }
}

#[test]
fn an_alias_is_followed_and_other_names_are_not_listened_to() {
    let records = vec![
        ("www.example", RData::CNAME(CNAME(Name::new("host.example").unwrap()))),
        ("other.example", RData::A(A { address: 0x0808_0808 })),
        ("host.example", RData::A(A { address: 0x0a00_0001 })),
        ("host.example", RData::A(A { address: 0x0a00_0002 })),
    ];
    let packet = reply(7, "www.example", Family::V4, records);
    let found = vec![Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
    assert_eq!(read(&packet, 7, "WWW.Example.", Family::V4), Some(Ok(found)));
    let six = vec![("www.example", RData::AAAA(AAAA { address: 1 }))];
    let packet = reply(7, "www.example", Family::V6, six);
    let found = vec!["::1".parse().unwrap()];
    assert_eq!(read(&packet, 7, "www.example", Family::V6), Some(Ok(found)));
}

#[test]
fn aliases_in_a_circle_come_to_an_end() {
    let records = vec![
        ("a.example", RData::CNAME(CNAME(Name::new("b.example").unwrap()))),
        ("b.example", RData::CNAME(CNAME(Name::new("a.example").unwrap()))),
    ];
    let packet = reply(7, "a.example", Family::V4, records);
    let none = DnsError::NoAddress("a.example".into());
    assert_eq!(read(&packet, 7, "a.example", Family::V4), Some(Err(none)));
}

#[test]
fn an_answer_to_another_question_is_none() {
    let records = || vec![("www.example", RData::A(A { address: 1 }))];
    let packet = reply(7, "www.example", Family::V4, records());
    assert_eq!(read(&packet, 8, "www.example", Family::V4), None, "another number");
    assert_eq!(read(&packet, 7, "ww.example", Family::V4), None, "another name");
    assert_eq!(read(&packet, 7, "www.example", Family::V6), None, "another type");
    assert_eq!(answer(b"not a message", 7, "www.example", Family::V4), None);
    let mut echo = Packet::new_query(7);
    echo.questions = packet.questions;
    assert_eq!(read(&echo, 7, "www.example", Family::V4), None, "a question is no answer");
}

#[test]
fn what_a_server_refuses_is_told() {
    let mut packet = reply(7, "www.example", Family::V4, vec![]);
    let name = || "www.example".to_owned();
    assert_eq!(read(&packet, 7, &name(), Family::V4), Some(Err(DnsError::NoAddress(name()))));
    *packet.rcode_mut() = RCODE::NameError;
    assert_eq!(read(&packet, 7, &name(), Family::V4), Some(Err(DnsError::NoSuchName(name()))));
    *packet.rcode_mut() = RCODE::ServerFailure;
    let refused = DnsError::Refused("ServerFailure".into(), name());
    assert_eq!(read(&packet, 7, &name(), Family::V4), Some(Err(refused)));
    *packet.rcode_mut() = RCODE::NoError;
    packet.set_flags(PacketFlag::TRUNCATION);
    assert_eq!(read(&packet, 7, &name(), Family::V4), Some(Err(DnsError::Truncated(name()))));
}
