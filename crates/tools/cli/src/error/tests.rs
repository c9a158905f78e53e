use anyhow::{Context as _, anyhow};

use super::*;

fn io(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

#[test]
fn the_class_is_found_behind_what_was_put_before_it() {
    let port = DevError::new("tap:x", "cannot be opened", "Use sudo")
        .with_source(io(io::ErrorKind::PermissionDenied));
    let error = anyhow!(PortError::Device(port)).context("cannot begin");
    assert_eq!(code(&error), Code::PortDenied);
    assert_eq!(exit_code(&error), 1);

    let error = Err::<(), _>(io(io::ErrorKind::AddrInUse)).context("cannot listen").unwrap_err();
    assert!(told(&error).starts_with("error[E0006]: cannot listen: "), "{}", told(&error));
}

#[test]
fn a_coded_context_goes_before_what_the_system_said() {
    let error = anyhow!(io(io::ErrorKind::NotFound)).context(Coded::new(Code::NoHost, "nobody"));
    assert_eq!(code(&error), Code::NoHost);
}

#[test]
fn what_another_process_said_keeps_its_class() {
    let heard = Coded::heard("show x: ", "error[E0301]: there is none").if_wrong_use(true);
    let error = anyhow!(heard);
    assert_eq!(told(&error), "error[E0301]: show x: there is none");
    assert_eq!(exit_code(&error), 2);
    let error = anyhow!(Coded::heard("", "an older host"));
    assert_eq!(told(&error), "error[E0003]: an older host");
}

#[test]
fn wrong_use_has_an_exit_code_and_a_class() {
    let error = anyhow!(WrongUse("no".into()));
    assert_eq!((exit_code(&error), code(&error)), (2, Code::Senseless));
    assert_eq!(code(&anyhow!("something")), Code::Failed);
}
