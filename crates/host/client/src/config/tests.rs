use super::file::{Wrong, parse};
use super::*;

fn wrong(text: &str) -> (usize, String) {
    let Wrong { line, why } = parse(text, &mut AppConfig::default()).unwrap_err();
    (line, why)
}

#[test]
fn the_documents_file_is_read_as_it_stands() {
    let text = "vcl {\n  rx-fifo-size 4000000\n  tx-fifo-size 4000000\n  namespace-id server\n  namespace-secret 1234\n\
                app-scope-global\n  app-socket-api /var/run/vpp/app_ns_sockets/server\n}\n";
    let mut config = AppConfig::default();
    parse(text, &mut config).unwrap();
    let expected = AppConfig {
        socket: Some("/var/run/vpp/app_ns_sockets/server".into()),
        namespace: "server".into(),
        secret: Some(Secret("1234".into())),
        rx_fifo: 4_000_000,
        tx_fifo: 4_000_000,
        ..AppConfig::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn it_may_stand_in_one_line() {
    let mut config = AppConfig::default();
    parse("vcl{namespace-id client wildcard kernel kernel 10.0.0.0/8 kernel ::1}", &mut config)
        .unwrap();
    assert_eq!((config.namespace.as_str(), config.wildcard), ("client", Wildcard::Kernel));
    assert_eq!(
        config.kernel,
        vec![("10.0.0.0".parse().unwrap(), 8), ("::1".parse().unwrap(), 128)]
    );
}

#[test]
fn cut_through_is_asked_for_by_the_local_scope_and_by_a_variable() {
    let parsed = |text| {
        let mut config = AppConfig::default();
        parse(text, &mut config).map(|()| config.cut_through).unwrap()
    };
    assert!(parsed("vcl { app-scope-local app-scope-global }"));
    assert!(!parsed("vcl { app-scope-global }"));
    let said = |value: &'static str| {
        AppConfig::from_variables(|name| (name == "CLEARWAY_CUT_THROUGH").then(|| value.into()))
            .map(|c| c.cut_through)
    };
    assert!(said("1").unwrap() && !said("0").unwrap());
    assert!(said("yes").unwrap_err().to_string().contains("CLEARWAY_CUT_THROUGH=yes: 1 or 0"));
}

#[test]
fn whose_interfaces_are_shown_is_said_by_the_file_and_by_a_variable() {
    let mut config = AppConfig::default();
    assert_eq!(config.interfaces, ShownInterfaces::Both);
    parse("vcl { interfaces kernel }", &mut config).unwrap();
    assert_eq!(config.interfaces, ShownInterfaces::Kernel);
    assert!(wrong("vcl { interfaces none }").1.contains("both, clearway or kernel"));
    let said = |value: &'static str| {
        AppConfig::from_variables(|name| (name == "CLEARWAY_INTERFACES").then(|| value.into()))
            .map(|c| c.interfaces)
    };
    assert_eq!(said("clearway").unwrap(), ShownInterfaces::Clearway);
    assert!(
        said("all")
            .unwrap_err()
            .to_string()
            .contains("CLEARWAY_INTERFACES=all: both, clearway or kernel")
    );
}

#[test]
fn comments_are_passed_over() {
    let mut config = AppConfig::default();
    parse(
        "# for the server\nvcl { # begins\n# namespace-id client\nnamespace-id server }",
        &mut config,
    )
    .unwrap();
    assert_eq!(config.namespace, "server");
}

#[test]
fn an_unknown_word_is_shown_with_its_line_and_the_nearest_one() {
    assert_eq!(
        wrong("vcl {\n rx-fifo-sise 5\n}"),
        (2, "`rx-fifo-sise` is not known; `rx-fifo-size` is".into())
    );
    let (line, why) = wrong("vcl {\n\n preallocated-fifo-pairs 5\n}");
    assert_eq!(line, 3);
    assert!(
        why.starts_with("`preallocated-fifo-pairs` is not known; these are: rx-fifo-size, "),
        "{why}"
    );
}

#[test]
fn what_is_missing_is_said() {
    assert_eq!(wrong("vcl { namespace-id }"), (1, "after `namespace-id` comes a name".into()));
    assert_eq!(
        wrong("vcl {\nrx-fifo-size big }"),
        (2, "after `rx-fifo-size` comes a number of bytes, not `big`".into())
    );
    assert_eq!(wrong("vcl {\napp-scope-global\n"), (2, "`}` is missing".into()));
    assert_eq!(wrong(""), (1, "the file begins with `vcl {`".into()));
    assert_eq!(wrong("vcl namespace-id x"), (1, "after `vcl` comes `{`".into()));
    assert_eq!(
        wrong("vcl {\n}\nsession {}"),
        (3, "`session` stands behind the end of `vcl { … }`".into())
    );
    assert_eq!(wrong("vcl { kernel 10.0.0.0/33 }").0, 1);
}

fn from(variables: &[(&str, &str)]) -> Result<AppConfig, ConfigError> {
    AppConfig::from_variables(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(*value))
    })
}

#[test]
fn variables_go_before_the_file() {
    let folder = std::env::temp_dir().join(format!("clearway-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("vcl.conf");
    std::fs::write(&path, "vcl { namespace-id server namespace-secret 1 }").unwrap();
    let path = path.to_str().unwrap();
    let config =
        from(&[("VCL_CONFIG", path), ("CLEARWAY_NS", "client"), ("CLEARWAY_SPIN_US", "7")])
            .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(config.namespace, "client");
    assert_eq!(config.secret, Some(Secret("1".into())));
    assert_eq!(config.spin_us, Some(7));
    assert!(config.explicit && !config.required);
}

#[test]
fn an_empty_environment_asks_for_nothing() {
    assert_eq!(from(&[("CLEARWAY_NS", "")]).unwrap(), AppConfig::default());
}

#[test]
fn wrong_variables_are_named() {
    let error = from(&[("CLEARWAY_REQUIRED", "yes")]).unwrap_err();
    assert_eq!(error.to_string(), "CLEARWAY_REQUIRED=yes: 1 or 0");
    let error = from(&[("CLEARWAY_CONFIG", "/no/such/file")]).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
}

#[test]
fn a_attach_socket_that_exists_is_taken_as_it_is() {
    let config = AppConfig { socket: Some("/".into()), ..AppConfig::default() };
    assert_eq!(config.attach_socket(), Path::new("/"));
}
