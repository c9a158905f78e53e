use super::*;

fn line(words: &[&str]) -> String {
    one_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

#[test]
fn arguments_with_spaces_stay_one_word() {
    assert_eq!(line(&["show", "version"]), "show version");
    assert_eq!(line(&["exec", "/tmp/a b"]), "exec \"/tmp/a b\"");
    assert_eq!(line(&["exec", "a\"b\\"]), "exec \"a\\\"b\\\\\"");
    assert_eq!(line(&["exec", ""]), "exec \"\"");
    assert_eq!(line(&["show version"]), "show version", "a whole line as one argument");
}

#[test]
fn the_control_socket_is_named_itself_or_by_the_hosts() {
    let at = |path: &str| Place { socket: Some(path.into()) }.path();
    assert_eq!(at("/x/host.sock"), Path::new("/x/host.ctl"));
    assert_eq!(at("/x/host.ctl"), Path::new("/x/host.ctl"));
}
