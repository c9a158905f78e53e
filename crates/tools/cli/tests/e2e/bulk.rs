//! Large transfers that have to arrive as they left, over a good link and over a bad one.

use serde_json::Value;

use crate::world::{KERNEL_V4, KERNEL_V6, OURS_V4, OURS_V6, TAP, World, root};

const FAULT: &str = "loss=2%,reorder=5%,dup=1%";

// Runs a client of the kernel's against our server, and looks at its result.
fn kernel_client(world: &World, address: &str, args: &[&str]) {
    let mut all = vec!["bulk", "client", "--kernel", "-s", address, "--sha256", "--json"];
    all.extend(args);
    let out = world.text(env!("CARGO_BIN_EXE_clearway"), &all);
    let result: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&result["verified"], &result["error"]), (&true.into(), &Value::Null), "{result}");
}

fn bulk_server(world: &World, args: &[&str]) -> crate::world::Server {
    let (port, v4, v6) = (format!("tap:{TAP}"), format!("{OURS_V4}/24"), format!("{OURS_V6}/64"));
    let mut all = vec!["bulk", "server", "--port", &port, "-a", &v4, "-a", &v6, "--json"];
    all.extend(args);
    world.clearway(&all)
}

#[test]
fn bytes_arrive_as_they_left_in_both_directions_and_families() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = bulk_server(&world, &[]);
    for address in [OURS_V4, OURS_V6] {
        kernel_client(&world, address, &["--bytes", "64M"]);
        kernel_client(&world, address, &["--bytes", "64M", "--down"]);
    }
    server.summary();
}

#[test]
fn bytes_arrive_as_they_left_over_a_bad_link() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = bulk_server(&world, &["--fault", FAULT]);
    kernel_client(&world, OURS_V4, &["--bytes", "64M"]);
    kernel_client(&world, OURS_V6, &["--bytes", "16M", "--down"]);
    let summary = server.summary();
    assert!(summary["below"]["retransmits"].as_u64().unwrap() > 0, "the link was bad: {summary}");
}

#[test]
fn our_client_talks_to_a_server_over_the_kernels_sockets() {
    if !root() {
        return;
    }
    let world = World::new();
    let server = world.clearway(&["bulk", "server", "--kernel", "--json"]);
    let (port, v4, v6) = (format!("tap:{TAP}"), format!("{OURS_V4}/24"), format!("{OURS_V6}/64"));
    for address in [KERNEL_V4, KERNEL_V6] {
        for extra in
            [&["--bytes", "32M"][..], &["--bytes", "32M", "--down"], &["--time", "0.5", "-P", "4"]]
        {
            let mut args = vec![
                "bulk", "client", "--port", &port, "-a", &v4, "-a", &v6, "-s", address, "--sha256",
                "--json",
            ];
            args.extend(extra);
            let out = world.text(env!("CARGO_BIN_EXE_clearway"), &args);
            let result: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
            assert_eq!(result["verified"], true, "{result}");
        }
    }
    server.summary();
}

#[test]
fn a_server_that_is_not_there_is_told_of_with_exit_code_1() {
    if !root() {
        return;
    }
    let world = World::new();
    let (port, v4) = (format!("tap:{TAP}"), format!("{OURS_V4}/24"));
    let args = ["bulk", "client", "--port", &port, "-a", &v4, "-s", KERNEL_V4, "--bytes", "1M"];
    let output = world.run(env!("CARGO_BIN_EXE_clearway"), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused"), "{output:?}");
}

#[test]
fn curl_up_and_down_have_equal_digests() {
    if !root() {
        return;
    }
    let world = World::new();
    let file = world.folder.join("bytes");
    let (path, url) = (file.to_str().unwrap().to_string(), format!("http://{OURS_V4}"));
    for (fault, bytes) in [(None, 64 << 20), (Some(FAULT), 8 << 20)] {
        let mut args = vec!["--sink"];
        args.extend(fault.iter().flat_map(|spec| ["--fault", spec]));
        let server = world.serve(&args);
        world.text(
            "curl",
            &["-s", "--max-time", "60", "-o", &path, &format!("{url}/random/{bytes}?seed=5")],
        );
        let sum = world.text("sha256sum", &[&path]);
        let answer =
            world.text("curl", &["-s", "--max-time", "60", "-T", &path, &format!("{url}/up")]);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["bytes"], bytes);
        assert_eq!(answer["sha256"].as_str(), sum.split(' ').next());
        server.summary();
    }
}
