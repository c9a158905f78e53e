//! From the name of a device to its queues.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clearway_dev::device::{ETHERNET_LEN, MAX_IP_PACKET, MIN_MTU, mac_of_name, max_frame};
use clearway_dev::{DevError, DpdkSpec, FramePool, Mac};
use clearway_pkt::Offloads;

use crate::queue::DpdkQueue;
use crate::steer::Steer;
use crate::sys::{self, Config, Device, Info, Ready, RxQueue, TxQueue, ability};
use crate::{eal, explain};

/// Queues that an end of memif has at most.
const MEMIF_QUEUES: usize = 256;

/// Where an end of memif is met when nothing is said: so its driver has it.
const MEMIF_SOCKET: &str = "/run/memif.sock";

/// The MTU of a device that says none.
const USUAL_MTU: usize = 1_500;

/// Bytes of a frame that fit one mbuf: a usual frame with room to spare. Longer ones are chains
/// where the driver takes chains.
const DATA_ROOM: usize = 2_048;

/// Mbufs of a queue besides those that lie in its rings: bursts on their way, and what the threads'
/// caches keep back.
const SPARE_BUFFERS: u32 = 4_096;

/// One queue of a device on its way to the thread that will use it.
pub struct DpdkFd {
    pub(crate) port: String,
    pub(crate) name: String,
    pub(crate) core: usize,
    // Goes before the device, because frames may lie in it.
    pub(crate) steer: Option<Arc<Steer>>,
    pub(crate) rx: Option<RxQueue>,
    pub(crate) tx: Arc<[Mutex<TxQueue>]>,
    pub(crate) device: Arc<Device>,
    pub(crate) mtu: usize,
    pub(crate) mac: Mac,
    pub(crate) offloads: Offloads,
    /// The longest frame that goes into one mbuf.
    pub(crate) data_room: usize,
    pub(crate) interrupts: bool,
}

impl DpdkFd {
    /// The device, with the frames that it receives in `pool`, for the thread that calls this.
    pub fn into_queue(self, pool: FramePool) -> DpdkQueue {
        DpdkQueue::new(self, pool)
    }

    /// The port's name without its options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The longest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Our Ethernet address.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// What the device does for us.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Whether the device itself brings each flow to one queue (RSS).
    pub fn is_spread_by_device(&self) -> bool {
        self.steer.as_ref().is_some_and(|steer| steer.is_spread_by_device())
    }
}

/// What several cores do with a device together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// Each flow belongs to one core, whatever queue it comes on. Every core gets its end of the
    /// port, also when the device has fewer queues.
    Flows,
    /// Each core has a queue of its own and what comes on it. A device that has fewer queues gives
    /// fewer.
    Queues,
}

/// Opens the device that `spec` names for so many cores. Starts DPDK when it does not run yet.
pub fn open(spec: &DpdkSpec, cores: usize, share: Share) -> Result<Vec<DpdkFd>, DevError> {
    let port = spec.to_string();
    explain::check(spec)?;
    clear_way(spec)?;
    eal::ensure(&port, spec.is_pci())?;
    let is_memif = spec.device.starts_with("net_memif");
    let queues = match spec.arg("queues").map(str::parse::<usize>) {
        // How many queues two ends of memif share is decided by the end that connects, and its
        // driver reads another queue's memory in place of one that the peer does not have. So there
        // is one, unless somebody says that both ends have more.
        None if is_memif && share == Share::Flows => 1,
        Some(Ok(said)) if is_memif => said.clamp(1, MEMIF_QUEUES),
        _ => cores,
    };
    let found = probe(spec, queues)?;
    let info = found.info().map_err(|error| explain::not_found(spec, error))?;
    let mtu = choose_mtu(spec, &info)?;
    let (mac, is_devices_own) = choose_mac(spec, &info);
    if spec.is_pci() && spec.mac.is_some() {
        // A card that cannot change it takes all frames instead.
        let _ = found.set_mac(mac.0);
    }
    let wanted = u16::try_from(queues)
        .unwrap_or(u16::MAX)
        .min(info.max_rx_queues)
        .min(info.max_tx_queues)
        .max(1);
    let config = configure(spec, &info, mtu, wanted, !is_devices_own);
    if let Some(socket) = met_at(spec) {
        // The words came through a check that lets no zero byte pass.
        found.meets_peers_at(&CString::new(socket).unwrap_or_default());
    }
    let (device, ready) =
        found.open(&config).map_err(|(error, call)| explain::not_set_up(spec, &call, error))?;
    // A driver whose way of spreading is not known to be ours is helped by software, as if it had
    // none.
    let has_rss =
        ready.got & ability::RSS != 0 && device.set_rss(info.reta_size, ready.rx_queues).is_ok();
    let _ = sys::take_log();
    let mut fds = queues_of(spec, cores, &device, &ready, &config, mac);
    if share == Share::Queues {
        fds.retain(|fd| fd.rx.is_some());
    } else if cores > 1 {
        let spread_by_device = has_rss && usize::from(ready.rx_queues) == cores;
        let steer = Steer::new(device.number(), cores, spread_by_device);
        let steer = Arc::new(
            steer.map_err(|error| explain::not_set_up(spec, "the boxes between cores", error))?,
        );
        fds.iter_mut().for_each(|fd| fd.steer = Some(Arc::clone(&steer)));
    }
    Ok(fds)
}

fn queues_of(
    spec: &DpdkSpec,
    cores: usize,
    device: &Arc<Device>,
    ready: &Ready,
    config: &Config,
    mac: Mac,
) -> Vec<DpdkFd> {
    let (rx, tx) = Device::queues(device, ready);
    let tx: Arc<[Mutex<TxQueue>]> = tx.into_iter().map(Mutex::new).collect();
    let offloads = offloads_of(ready.got);
    let mut rx = rx.into_iter();
    let fd = |core: usize| DpdkFd {
        port: spec.to_string(),
        name: format!("dpdk:{}", spec.device),
        core,
        rx: rx.next(),
        steer: None,
        tx: Arc::clone(&tx),
        device: Arc::clone(device),
        mtu: usize::from(ready.mtu),
        mac,
        offloads,
        data_room: config.data_room as usize,
        interrupts: ready.got & ability::RX_INTERRUPT != 0,
    };
    (0..cores).map(fd).collect()
}

fn offloads_of(got: u32) -> Offloads {
    let has = |ability: u32| got & ability != 0;
    Offloads {
        tx_checksum: has(ability::TX_CHECKSUM),
        trusted_link: false,
        tso4: has(ability::TX_TSO),
        tso6: has(ability::TX_TSO),
        uso: has(ability::TX_USO),
        max_segmented_frame: if has(ability::TX_TSO) {
            (MAX_IP_PACKET + ETHERNET_LEN) as u32
        } else {
            0
        },
    }
}

fn configure(spec: &DpdkSpec, info: &Info, mtu: usize, queues: u16, promiscuous: bool) -> Config {
    let frame = max_frame(mtu, true).next_multiple_of(64);
    // Without chains a frame has to fit one buffer.
    let chains = info.can & ability::RX_CHAINS != 0 && info.can & ability::TX_CHAINS != 0;
    let data_room = if chains { DATA_ROOM } else { frame.max(DATA_ROOM) };
    let mut want = ability::RX_CHAINS | ability::TX_CHAINS | ability::RSS | ability::RX_INTERRUPT;
    if spec.offload && info.driver() == "net_tap" {
        // It counts the Ethernet header to the MTU when it cuts, and so refuses full segments for
        // ever; the stack makes them itself.
        want |= ability::TX_CHECKSUM | ability::RX_CHECKSUM;
    } else if spec.offload {
        want |= ability::TX_CHECKSUM
            | ability::TX_TSO
            | ability::TX_USO
            | ability::RX_CHECKSUM
            | ability::RX_LRO;
    }
    Config {
        queues,
        mtu: mtu as u16,
        want,
        data_room: data_room as u32,
        buffers: SPARE_BUFFERS,
        promiscuous: u8::from(promiscuous),
        may_wait: u8::from(
            spec.device.starts_with("net_memif") && spec.arg("role") != Some("server"),
        ),
    }
}

fn probe(spec: &DpdkSpec, queues: usize) -> Result<sys::Found, DevError> {
    let name = if spec.is_pci() { explain::pci_address(&spec.device) } else { spec.device.clone() };
    let mut devargs = name.clone();
    // memif's driver has no such word; it is for us.
    let ours = |word: &&str| spec.device.starts_with("net_memif") && word.starts_with("queues=");
    for word in spec.args.split(',').filter(|word| !word.is_empty() && !ours(word)) {
        devargs = format!("{devargs},{word}");
    }
    if let Some(word) =
        queue_word(&spec.device).filter(|word| queues > 1 && spec.arg(word).is_none())
    {
        devargs = format!("{devargs},{word}={queues}");
    }
    // The words came through a check that lets no zero byte pass; a device without a name is not
    // found.
    let text = |text: String| CString::new(text).unwrap_or_default();
    sys::probe(&text(devargs), &text(name)).map_err(|error| explain::not_found(spec, error))
}

/// How a driver is told the number of queues that its devices shall have at most, where they have
/// one when nothing is said.
fn queue_word(device: &str) -> Option<&'static str> {
    let words = [
        ("net_vhost", "queues"),
        ("net_virtio_user", "queues"),
        ("net_af_packet", "qpairs"),
        ("net_af_xdp", "queue_count"),
    ];
    words.into_iter().find(|(driver, _)| device.starts_with(driver)).map(|(_, word)| word)
}

fn choose_mtu(spec: &DpdkSpec, info: &Info) -> Result<usize, DevError> {
    // Some drivers say no bound; 16 bits are DPDK's own.
    let most = if info.max_mtu == 0 { usize::from(u16::MAX) } else { usize::from(info.max_mtu) };
    let least = usize::from(info.min_mtu).max(MIN_MTU.min(most));
    match spec.mtu {
        Some(wanted) if wanted > most || wanted < least => {
            let what = format!(
                "its driver {} takes an MTU from {least} to {most}, not {wanted}",
                info.driver()
            );
            Err(DevError::new(spec.to_string(), what, "Give another mtu=, or leave it out"))
        }
        Some(wanted) => Ok(wanted),
        None => Ok(USUAL_MTU.min(most).max(least)),
    }
}

/// Our address, and whether it is the one that the device has.
fn choose_mac(spec: &DpdkSpec, info: &Info) -> (Mac, bool) {
    let own = Mac(info.mac);
    // A card's address is its own, also when we look at it through the kernel. The others make one
    // up, the same for all of them or another at each start, or it is the kernel's: at the other
    // end of net_tap's interface stands the kernel with that address, and on an interface that has
    // no card behind it the kernel's own IPv6 address would be derived from the same address as
    // ours.
    let card = |name: &str| Path::new("/sys/class/net").join(name).join("device").exists();
    let real = spec.is_pci()
        || (spec.device.starts_with("net_af_") && spec.arg("iface").is_some_and(card));
    let usable = own != Mac::ZERO && !own.is_multicast();
    let mac = match spec.mac {
        Some(mac) => mac,
        None if real && usable => own,
        None => mac_of_name(&spec.to_string()),
    };
    (mac, mac == own)
}

/// Removes the socket that a killed program of ours left behind, and says so in words when another
/// program listens there or the folder is missing.
fn clear_way(spec: &DpdkSpec) -> Result<(), DevError> {
    let Some(path) = listens_at(spec) else { return Ok(()) };
    let port = spec.to_string();
    let path = Path::new(path);
    if let Some(folder) =
        path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        let what = format!("there is no folder {} for its socket", folder.display());
        return Err(DevError::new(port, what, "Make it, or choose another path"));
    }
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    let not_ours = |what: String, remedy: &str| Err(DevError::new(&port, what, remedy));
    if !there.file_type().is_socket() {
        return not_ours(
            format!("{} is there and is no socket", path.display()),
            "Choose another path",
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => not_ours(
            format!("another program listens at {}", path.display()),
            "Stop that program, or choose another path",
        ),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| {
                let what = format!(
                    "a program that is gone left {} behind, and it cannot be removed",
                    path.display()
                );
                DevError::new(&port, what, "Remove it, or choose another path").with_source(error)
            })
        }
        // It went by itself, or may not be asked; the driver will say what it thinks of it.
        Err(_) => Ok(()),
    }
}

/// The socket, a path or an abstract name, at which the device meets a peer whose memory it maps,
/// if it does.
fn met_at(spec: &DpdkSpec) -> Option<&str> {
    if spec.device.starts_with("net_memif") {
        // The memory is that of the end that connects; its own driver seals it.
        let ours = spec.arg("role") != Some("server");
        return if ours { None } else { Some(spec.arg("socket").unwrap_or(MEMIF_SOCKET)) };
    }
    spec.arg("iface").filter(|_| spec.device.starts_with("net_vhost"))
}

/// The path of the socket on which the device waits for its peer, if it does.
fn listens_at(spec: &DpdkSpec) -> Option<&str> {
    let is = |key: &str, value: &str| spec.arg(key) == Some(value);
    if spec.device.starts_with("net_memif") {
        // Unless told otherwise, the socket has no place in the file system.
        return spec.arg("socket").filter(|_| is("role", "server") && is("socket-abstract", "no"));
    }
    if spec.device.starts_with("net_vhost") {
        return spec.arg("iface").filter(|_| !is("client", "1"));
    }
    spec.arg("path").filter(|_| spec.device.starts_with("net_virtio_user") && is("server", "1"))
}
