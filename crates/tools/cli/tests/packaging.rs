//! What the Debian package brings along: units that systemd accepts, and that allow what a host
//! does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netns::{Netns, root};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sha2::{Digest as _, Sha256};

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "common/netns.rs"]
mod netns;
#[path = "common/preload.rs"]
mod preload;

const SERVICES: [&str; 2] = ["clearway.service", "clearway@.service"];

const SOCKETS: [&str; 2] = ["clearway.socket", "clearway@.socket"];

/// Only what hangs takes so long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A child that is killed with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file of the package that is in the tree.
fn packaged(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn what_the_debian_package_names_is_there_and_sh_reads_its_scripts() {
    let manifest = fs::read_to_string(packaged("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().unwrap();
    // What is below target/deb was put there by `make install`.
    let (staged, own): (Vec<_>, Vec<_>) =
        assets.iter().map(|asset| asset[0].as_str().unwrap()).partition(|p| p.contains("target/"));
    assert!(staged.iter().all(|path| path.starts_with("../../../target/deb/usr/")), "{staged:?}");
    assert_eq!(own, ["../../../packaging/clearway.toml"]);
    assert!(packaged(own[0]).is_file());
    assert_eq!(
        deb["conf-files"].as_array().unwrap()[0].as_str(),
        Some("/etc/clearway/clearway.toml")
    );
    let scripts = packaged(deb["maintainer-scripts"].as_str().unwrap());
    for script in ["postinst", "prerm", "postrm"] {
        let path = scripts.join(script);
        assert!(fs::read_to_string(&path).unwrap().contains("#DEBHELPER#"), "{script}");
        let read = Command::new("sh").arg("-n").arg(&path).status().unwrap();
        assert!(read.success(), "{script}");
    }
}

/// Tells what the archive holds under this name.
fn member(archive: &Path, name: &str) -> Vec<u8> {
    let output = Command::new("tar").arg("-xOf").arg(archive).arg(name).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn json(archive: &Path, name: &str) -> serde_json::Value {
    serde_json::from_slice(&member(archive, name)).unwrap()
}

/// Reads what a descriptor of the image's manifests names, and holds it to what is said of it.
fn blob(archive: &Path, of: &serde_json::Value) -> (String, Vec<u8>) {
    let digest = of["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let name = format!("blobs/sha256/{digest}");
    let bytes = member(archive, &name);
    let found = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((found.as_str(), bytes.len() as u64), (digest, of["size"].as_u64().unwrap()));
    (name, bytes)
}

#[test]
fn a_container_image_is_what_docker_and_the_oci_ask_for_and_the_same_each_time() {
    let folder = Folder::new("image");
    let root = folder.0.join("root");
    for (name, text) in [("usr/bin/clearway", "#!"), ("etc/passwd", "root:"), ("tmp/x", "")] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), text).unwrap();
    }
    fs::create_dir_all(root.join("run/clearway")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(root.join("usr/bin/clearway"), executable).unwrap();
    let make = |name: &str| {
        let archive = folder.0.join(name);
        let made = Command::new("python3")
            .arg("-B")
            .arg(packaged("../../../packaging/container/image.py"))
            .args([&root, &archive])
            .args(["--version", "1.2.3"])
            .env("SOURCE_DATE_EPOCH", "86400")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        archive
    };
    let archive = make("one.tar");
    fs::write(root.join("etc/passwd"), "root:").unwrap();
    assert!(fs::read(&archive).unwrap() == fs::read(make("two.tar")).unwrap());

    assert_eq!(json(&archive, "oci-layout")["imageLayoutVersion"], "1.0.0");
    let index = json(&archive, "index.json");
    let manifest: serde_json::Value =
        serde_json::from_slice(&blob(&archive, &index["manifests"][0]).1).unwrap();
    let (config_name, config) = blob(&archive, &manifest["config"]);
    let (layer_name, layer) = blob(&archive, &manifest["layers"][0]);
    // What `docker load` looks at names the same two.
    let docker = json(&archive, "manifest.json");
    assert_eq!(docker[0]["Config"], config_name);
    assert_eq!(docker[0]["Layers"], serde_json::json!([layer_name]));
    assert_eq!(docker[0]["RepoTags"], serde_json::json!(["clearway:1.2.3"]));
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["created"], "1970-01-02T00:00:00Z");

    let packed = folder.0.join("layer.tar.gz");
    fs::write(&packed, layer).unwrap();
    let plain = Command::new("gzip").arg("-dc").arg(&packed).output().unwrap().stdout;
    let found = Sha256::digest(&plain).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(config["rootfs"]["diff_ids"], serde_json::json!([format!("sha256:{found}")]));
    let listed = Command::new("tar").arg("--numeric-owner").arg("-tvf").arg(&packed).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let lines: Vec<String> = listed
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{} {} {}", words[0], words[1], words[5])
        })
        .collect();
    let wanted = [
        "drwxr-xr-x 0/0 etc/",
        "-rw-r--r-- 0/0 etc/passwd",
        "drwxr-xr-x 0/0 run/",
        "drwxr-xr-x 65532/65532 run/clearway/",
        "drwxrwxrwt 0/0 tmp/",
        "-rw-r--r-- 0/0 tmp/x",
        "drwxr-xr-x 0/0 usr/",
        "drwxr-xr-x 0/0 usr/bin/",
        "-rwxr-xr-x 0/0 usr/bin/clearway",
    ];
    assert_eq!(lines, wanted, "{listed}");
}

#[test]
fn the_program_puts_itself_and_its_library_into_a_folder_where_both_work() {
    preload::build();
    let folder = Folder::new("installed");
    let install = |into: &Path| {
        Command::new(env!("CARGO_BIN_EXE_clearway")).arg("install").arg(into).output().unwrap()
    };
    // The loader takes no path with spaces: a library there would be of no use.
    assert_eq!(install(&folder.0.join("a volume")).status.code(), Some(2));
    assert!(!folder.0.join("a volume").exists());

    let into = folder.0.join("volume/bin");
    let said = install(&into);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.starts_with(&format!("{}\n", into.join("clearway").display())), "{said}");
    let maps = Command::new(into.join("clearway"))
        .args(["run", "--", "cat", "/proc/self/maps"])
        .env("CLEARWAY_SOCKET", folder.0.join("nobody"))
        .output()
        .unwrap();
    assert!(maps.status.success(), "{}", String::from_utf8_lossy(&maps.stderr));
    let library = into.join("libclearway_preload.so");
    let maps = String::from_utf8(maps.stdout).unwrap();
    assert!(maps.contains(library.to_str().unwrap()), "{maps}");

    // Installed again, it takes the old one's name and leaves the old one to who has it open.
    let old = fs::File::open(&library).unwrap();
    assert!(install(&into).status.success());
    let number = |data: fs::Metadata| std::os::unix::fs::MetadataExt::ino(&data);
    assert_ne!(number(old.metadata().unwrap()), number(fs::metadata(&library).unwrap()));
    let files = fs::read_dir(&into).unwrap().map(|file| file.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    let known = |name: &String| name.starts_with("clearway") || name.ends_with(".so");
    assert!(files.contains("clearway") && files.iter().all(known), "{files:?}");

    // From there onto itself: nothing is lost.
    let again = Command::new(into.join("clearway")).arg("install").arg(&into).output().unwrap();
    assert!(again.status.success());
    assert!(fs::metadata(into.join("clearway")).unwrap().len() > 0);
}

fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/systemd").join(name);
    fs::read_to_string(path).unwrap()
}

fn analyze(args: &[&str]) -> (bool, String) {
    let output = Command::new("systemd-analyze")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("systemd-analyze");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), format!("{out}{err}"))
}

/// The units as they would be installed, but for the path of the program, which is not installed
/// here.
fn units() -> Folder {
    let folder = Folder::new("units");
    for name in SERVICES.iter().chain(&SOCKETS) {
        let text = unit(name).replace("/usr/bin/clearway", env!("CARGO_BIN_EXE_clearway"));
        fs::write(folder.0.join(name), text).unwrap();
    }
    folder
}

#[test]
fn systemd_accepts_the_units_and_rates_them_as_the_page_says() {
    let folder = units();
    let place = |name: &str| folder.0.join(name.replace('@', "@lab"));
    for name in SERVICES.iter().chain(&SOCKETS) {
        fs::rename(folder.0.join(name), place(name)).unwrap();
    }
    for name in SERVICES.iter().chain(&SOCKETS) {
        let (fine, said) = analyze(&["verify", "--man=no", place(name).to_str().unwrap()]);
        // What it says of other people's units is their matter: it reads those that ours name.
        let of_others = |line: &&str| {
            line.split_once(".service:").is_some_and(|(unit, _)| !unit.contains("clearway"))
        };
        let of_ours: Vec<_> = said.lines().filter(|line| !of_others(line)).collect();
        assert!(fine && of_ours.is_empty(), "{name}: {said}");
    }
    for name in SERVICES {
        let path = place(name);
        let path = path.to_str().unwrap();
        let (_, said) = analyze(&["security", "--offline=true", "--no-pager", path]);
        let rating = said
            .lines()
            .rev()
            .find_map(|line| line.split_once("exposure level for "))
            .expect("a rating")
            .1;
        let rating: f64 = rating.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(rating <= 1.5, "{name} is rated {rating}:\n{said}");
    }
}

/// The system calls of a set and of the sets that it names.
fn allowed(set: &str) -> BTreeSet<String> {
    let (fine, said) = analyze(&["syscall-filter", "--no-pager", set]);
    assert!(fine, "{said}");
    let lines = said
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .flat_map(
            |line| if line.starts_with('@') { allowed(line) } else { [line.to_owned()].into() },
        )
        .collect()
}

#[test]
fn the_units_allow_every_system_call_and_socket_of_a_host_with_a_tap_device() {
    if !root() {
        return;
    }
    preload::build();
    let folder = Folder::new("unit-calls");
    let netns = Netns::new("cwunit");
    let (socket, calls) = (folder.0.join("host.sock"), folder.0.join("calls"));
    let settings = folder.0.join("host.toml");
    let text = "[cores]\nworkers = \"0\"\n[[ports]]\nport = \"tap:cw0\"\nname = \"tap0\"\naddresses = [\"10.98.0.2/24\"]\n\
                [[namespaces]]\nid = \"a\"\nsecret = \"b\"\ninterface = \"tap0\"\n";
    fs::write(&settings, text).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (calls_path, settings, socket_path) = (path(&calls), path(&settings), path(&socket));
    let host = env!("CARGO_BIN_EXE_clearway");
    let args =
        ["-f", "-C", "-o", &calls_path, host, "up", "-c", &settings, "--socket", &socket_path];
    let strace =
        netns.command("strace", &args).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut strace = Running(strace);
    let ctl = |words: &[&str]| {
        let output = Command::new(host)
            .arg("ctl")
            .args(words)
            .env("CLEARWAY_SOCKET", &socket)
            .output()
            .unwrap();
        output.status.success()
    };
    let begun = Instant::now();
    while !ctl(&["show", "version"]) {
        assert!(begun.elapsed() < TIME_LIMIT, "the host is not ready");
        std::thread::sleep(Duration::from_millis(20));
    }
    netns.ip("addr add 10.98.0.1/24 dev cw0");
    // The kernel drops what is sent before it has seen that the link is up.
    while !netns.run("ping", &["-c", "1", "-W", "5", "10.98.0.2"]).status.success() {
        assert!(begun.elapsed() < TIME_LIMIT, "the host does not answer");
    }
    // A program of the host's: it is let in, is told that nobody listens, and goes.
    let program = ["run", "--ns", "a", "--secret", "b", "--", "true"];
    assert!(
        Command::new(host)
            .args(program)
            .env("CLEARWAY_SOCKET", &socket)
            .status()
            .unwrap()
            .success()
    );
    // strace passes nothing on: the host is its child.
    let children = format!("/proc/{0}/task/{0}/children", strace.0.id());
    let child = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(child), Signal::SIGTERM).unwrap();
    assert!(strace.0.wait().unwrap().success());
    let traced = fs::read_to_string(&calls).unwrap();
    let (each, counted) = traced.split_once("% time").expect("a summary behind the calls");
    let names = counted.lines().skip(2).filter_map(|line| line.split_whitespace().last());
    let made: BTreeSet<String> = names
        .filter(|name| !name.starts_with('-') && *name != "total")
        .map(str::to_owned)
        .collect();
    assert!(made.contains("epoll_wait") || made.contains("epoll_pwait"), "{counted}");
    let filter: Vec<String> = unit(SERVICES[0])
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter=").map(str::to_owned))
        .collect();
    assert_eq!(filter, ["@system-service", "~@privileged"]);
    let allowed = &allowed("@system-service") - &allowed("@privileged");
    let refused: Vec<&String> = made.difference(&allowed).collect();
    assert!(refused.is_empty(), "the units refuse {refused:?}");
    let families: BTreeSet<&str> = each
        .lines()
        .filter_map(|line| line.split_once(" socket(AF_").or(line.split_once(" socketpair(AF_")))
        .filter_map(|(_, rest)| rest.split_once(','))
        .map(|(family, _)| family)
        .collect();
    let unit = unit(SERVICES[0]);
    let let_through: BTreeSet<&str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("RestrictAddressFamilies="))
        .flat_map(|families| families.split(' '))
        .filter_map(|family| family.strip_prefix("AF_"))
        .collect();
    assert!(families.contains("UNIX"), "the traced sockets are missing: {families:?}");
    assert!(families.is_subset(&let_through), "{families:?} of {let_through:?}");
}
