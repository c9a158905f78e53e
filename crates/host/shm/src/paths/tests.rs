use super::*;

#[test]
fn root_is_the_system() {
    assert_eq!(runtime_folder(0, Some("/run/user/0".into())), Path::new("/run/clearway"));
}

#[test]
fn a_session_has_a_folder() {
    assert_eq!(
        runtime_folder(1000, Some("/run/user/1000".into())),
        Path::new("/run/user/1000/clearway")
    );
}

#[test]
fn without_a_session_the_user_has_a_folder_in_tmp() {
    assert_eq!(runtime_folder(1000, None), Path::new("/tmp/clearway-1000"));
    assert_eq!(runtime_folder(1000, Some("".into())), Path::new("/tmp/clearway-1000"));
}

#[test]
fn the_attach_sockets_of_namespaces_stand_beside_the_hosts() {
    let attach_socket = Path::new("/run/clearway/host.sock");
    assert_eq!(
        namespace_attach_socket(attach_socket, "server"),
        Path::new("/run/clearway/app_ns_sockets/server")
    );
}

#[test]
fn who_runs_no_host_finds_the_systems() {
    let folder = std::env::temp_dir().join(format!("cwpaths-{}", std::process::id()));
    let (own, system) = (folder.join("own.sock"), folder.join("system"));
    std::fs::create_dir_all(&system).unwrap();
    // An error names the place where its own would be.
    assert_eq!(own_or_systems(own.clone(), &system), own);
    std::fs::write(system.join(ATTACH_SOCKET), "").unwrap();
    assert_eq!(own_or_systems(own.clone(), &system), system.join(ATTACH_SOCKET));
    std::fs::write(&own, "").unwrap();
    assert_eq!(own_or_systems(own.clone(), &system), own);
    std::fs::remove_dir_all(&folder).unwrap();
}
