//! The guest: Debian's kernel for virtual machines, and a first file system with busybox and
//! iperf3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::archive::Archive;
use crate::skip::or_skip;

/// What the guest's kernel needs for virtio-net, in the order in which it has to be loaded.
const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];

const BUSYBOX: &str = "/bin/busybox";
const IPERF: &str = "/usr/bin/iperf3";

/// What a machine boots from.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
}

/// The image, made when it is not there yet; None when the machine has not what it takes, which was
/// said then.
pub(crate) fn image() -> Option<Image> {
    static MADE: Mutex<Option<Image>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        match make() {
            Ok(image) => *made = Some(image),
            Err(why_not) => {
                or_skip(false, &why_not);
            }
        }
    }
    made.clone()
}

fn make() -> Result<Image, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the guest is an x86-64 machine, and this is none".into());
    }
    for (program, package) in [
        ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
        (BUSYBOX, "busybox-static"),
        (IPERF, "iperf3"),
    ] {
        if !Path::new(program).exists() {
            return Err(format!(
                "there is no {program}. Install it: apt-get install {package} (make setup does)"
            ));
        }
    }
    let files = kernel_package()?;
    let kernel = only(&files.join("boot"), "vmlinuz-")?;
    let modules = only(&files.join("lib/modules"), "")?;
    let initrd = folder().join("initrd");
    // In one step, for another run may be about to boot from it.
    let unfinished = folder().join(format!("initrd-{}", std::process::id()));
    fs::write(&unfinished, first_files(&modules)?)
        .map_err(|error| format!("{}: {error}", unfinished.display()))?;
    fs::rename(&unfinished, &initrd).map_err(|error| format!("{}: {error}", initrd.display()))?;
    Ok(Image { kernel, initrd })
}

/// Where what was fetched once is kept.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The unpacked package of the kernel, fetched from Debian when it is not there yet.
fn kernel_package() -> Result<PathBuf, String> {
    let done = folder().join("kernel");
    if done.is_dir() {
        return Ok(done);
    }
    let work = folder().join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).unwrap();
    let fetched = fetch_kernel(&work).or_else(|_| {
        // The lists of packages may be missing, or older than what is offered.
        said(Command::new("apt-get").args(["update", "-qq"]))?;
        fetch_kernel(&work)
    });
    if fetched.is_ok() {
        // Another run may have been quicker; its kernel is as good.
        let _ = fs::rename(work.join("files"), &done);
    }
    let _ = fs::remove_dir_all(&work);
    fetched.map(|()| done)
}

fn fetch_kernel(work: &Path) -> Result<(), String> {
    let depends = said(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
    let package =
        depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let package = package.ok_or("apt knows no linux-image-cloud-amd64")?;
    said(
        Command::new("apt-get")
            .args(["download", &format!("linux-image-{package}")])
            .current_dir(work),
    )?;
    let file = only(work, "linux-image-")?;
    said(Command::new("dpkg").arg("-x").args([&file, &work.join("files")])).map(drop)
}

/// Runs a program to its end; its output, or a sentence.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The only entry of a folder whose name begins so.
fn only(folder: &Path, prefix: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let fits = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(fits).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        others => Err(format!("{} holds {} of {prefix}…, not one", folder.display(), others.len())),
    }
}

fn first_files(modules: &Path) -> Result<Vec<u8>, String> {
    let mut archive = Archive::new();
    for folder in ["bin", "dev", "proc", "sys", "tmp"] {
        archive.folder(Path::new(folder));
    }
    archive.file(Path::new("init"), include_bytes!("init.sh"));
    archive.file(Path::new("bin/busybox"), &read(Path::new(BUSYBOX))?);
    archive.file(Path::new("bin/iperf3"), &read(Path::new(IPERF))?);
    for library in libraries(IPERF)? {
        archive.file(&library, &read(&library)?);
    }
    archive.file(Path::new("modules/order"), MODULES.join("\n").as_bytes());
    for module in MODULES {
        let name = format!("{module}.ko");
        let path = find(&modules.join("kernel"), &name)
            .ok_or(format!("the kernel's package has no {name}"))?;
        archive.file(&Path::new("modules").join(&name), &read(&path)?);
    }
    Ok(archive.finish())
}

/// The libraries that a program is linked to, and what loads them.
fn libraries(program: &str) -> Result<Vec<PathBuf>, String> {
    let list = said(Command::new("ldd").arg(program))?;
    Ok(list.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let here = entries.iter().find(|path| path.ends_with(name)).cloned();
    here.or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| find(path, name)))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
