use super::*;

fn spec(id: &str, secret: Option<&str>) -> NamespaceSpec {
    NamespaceSpec {
        id: id.into(),
        secret: secret.map(|s| Secret(s.into())),
        table: Table(1),
        interface: None,
        limits: crate::NamespaceLimits::default(),
    }
}

#[test]
fn only_the_whole_secret_is_let_in() {
    let mut all = Namespaces::default();
    all.add(spec("server", Some("1234"))).unwrap();
    let server = all.find("server").unwrap();
    assert!(server.admits(Some(&Secret("1234".into()))));
    for wrong in ["", "1", "12345", "1235", "0234", "1234 "] {
        assert!(!server.admits(Some(&Secret(wrong.into()))), "{wrong}");
    }
    assert!(!server.admits(None));
    assert!(all.find(DEFAULT).unwrap().admits(None));
}

#[test]
fn a_secret_is_never_printed() {
    let text = format!("{:?}", spec("a", Some("topsecret")));
    assert!(!text.contains("topsecret"), "{text}");
}

#[test]
fn names_become_files_and_are_checked() {
    let mut all = Namespaces::default();
    for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ü"] {
        assert_eq!(all.add(spec(bad, None)), Err(NamespaceError::BadId(bad.into())));
    }
    assert_eq!(all.add(spec("a", Some(""))), Err(NamespaceError::BadSecret));
    all.add(spec("a", None)).unwrap();
    assert_eq!(all.add(spec("a", None)), Err(NamespaceError::Exists("a".into())));
}

#[test]
fn numbers_are_not_used_again() {
    let mut all = Namespaces::default();
    let first = all.add(spec("a", None)).unwrap();
    all.remove("a").unwrap();
    let second = all.add(spec("a", None)).unwrap();
    assert_ne!(first, second);
    assert!(all.by_number(first).is_none());
}
