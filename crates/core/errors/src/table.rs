//! The table. A number that was released stays what it is: new classes get new numbers, also when
//! an old one is not used any more.

use crate::Row;

macro_rules! codes {
    ($($name:ident = $number:literal: $title:literal, $means:literal, $causes:literal, $remedy:literal;)*) => {
        /// A class of errors.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = $title] $name = $number,)*
        }

        impl Code {
            /// All of them, by number.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            pub(crate) fn row(self) -> &'static Row {
                match self {
                    $(Code::$name => &Row {
                        name: stringify!($name),
                        title: $title,
                        means: $means,
                        causes: $causes,
                        remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

codes! {
// The command line, and failures of the machine whatever was asked for.
Usage = 1: "a command line that is not understood",
    "The words behind `clearway` are no command with its options: one is not known, is missing, or has a value that it cannot have.",
    "A slip of the keyboard, an option of another command, or an argument of the program that `run` starts without `--` before it.",
    "`clearway help`, and a command behind it, lists the options of that command with examples.";
Senseless = 2: "arguments that make no sense together",
    "Every word was understood, and what they ask for cannot be done in this combination, whatever the state of the machine.",
    "Two options that exclude each other, a name or number beyond what the sentence allows, or a file that is not what the option wants.",
    "The sentence names the argument and what would be allowed.";
Failed = 3: "a failure without a class of its own",
    "Something failed that is not so frequent that it has a class. The sentence says all that is known.",
    "It depends on the command; often another program or machine at the other end.",
    "Follow the sentence. `clearway doctor` looks for what is missing on this machine.";
NotThere = 4: "a file that is not there",
    "A file or folder that was named, or that the command needs, is not there.",
    "A relative path from another folder, a slip of the keyboard, or a part that was not built or installed.",
    "Look at the path in the sentence with `ls -l`.";
NoPermission = 5: "the system refuses permission",
    "The system does not allow this user what the command asked for.",
    "The command runs without root, or in a container without the capability that it needs; or a file belongs to somebody else.",
    "`clearway doctor` says which rights are there and what each is for. Use sudo, or give the program the capability (`clearway install --help`).";
AddressInUse = 6: "an address and port in use by another program",
    "Some program listens at that address and port already.",
    "An earlier instance that still runs, or another service with the same port.",
    "`ss -ltnp` of the kernel, or `clearway ss -ltnp` for programs of the host, says who it is. End it, or choose another port.";
Unreachable = 7: "the other end cannot be reached",
    "A connection was refused, reset or not answered in time.",
    "Nobody listens at that address and port, a firewall or a rule drops the packets, or a route is missing.",
    "Ask the other end whether it listens. `clearway ctl show errors` says which packets were dropped here and why, `clearway ctl show ip fib` the routes.";

// Settings.
SettingsUnreadable = 101: "settings that cannot be read",
    "The file that `--config` names cannot be read.",
    "It is not there, belongs to somebody else, or is no text in UTF-8.",
    "Look at the path in the sentence with `ls -l`. The package has an example in /etc/clearway/clearway.toml.";
SettingsSyntax = 102: "settings that are no TOML",
    "The file of settings breaks the rules of TOML at the line of the message, so nothing of it was taken.",
    "A text without quotation marks, a list without its brackets, or a key that stands twice.",
    "Mend that line; `clearway up -c FILE --check` reads the file without starting anything.";
SettingsUnknown = 103: "a key or section of the settings that is not known",
    "No setting is called like this. It is refused, and not passed over, so that a slip cannot leave a limit unset.",
    "A slip of the keyboard, a key in the wrong section, or settings of a newer version.",
    "The message names the nearest one. All are listed in docs/config.md.";
SettingsValue = 104: "a value of the settings that is not allowed",
    "The key is known, and cannot have this value.",
    "A number beyond its bounds, a text where a number belongs, or a word that is none of those that the key knows.",
    "The message says what is allowed; docs/config.md says it of every key.";
SettingsMissing = 105: "a list of the settings without the key that names the thing",
    "A [[ports]] without `port`, or a [[namespaces]] without `id`: there is nothing to make of it.",
    "A key that was commented out, or written below the next [[…]].",
    "Write the key that the message names.";
SettingsFixed = 106: "settings that cannot change while the host runs",
    "The settings were read again, and something in them differs that was decided when the host started. Nothing of the new settings was taken over, also not what could change.",
    "Cores, memory, ports or limits of tables were edited together with namespaces.",
    "Take the named keys back and reload, or start the host anew. docs/config.md says which keys may change.";

// The command language.
LineTooLong = 201: "a line of commands that is too long",
    "Lines and their words are bounded, whoever sends them.",
    "A file that holds something else than commands, or line ends that were lost.",
    "Write one command in a line.";
Unquoted = 202: "a quotation mark without its partner",
    "A text in quotation marks does not end in its line.",
    "An apostrophe in a name, or a shell that took one of the marks for itself.",
    "Close the mark, or write a backslash before it.";
UnknownWord = 203: "a word that cannot stand there",
    "The command language has no command with this word at this place.",
    "A slip of the keyboard, or a command of VPP that Clearway does not have.",
    "The message names the words that can stand there; `?` in the shell of `clearway ctl` shows them at any place, docs/commands.md all commands.";
NothingFollows = 204: "words behind the end of a command",
    "The command was complete before this word.",
    "Two commands in one line, or an argument that this command does not take.",
    "Leave the word out, or write the second command into a line of its own.";
Ambiguous = 205: "a short form that fits several words",
    "Words may be shortened as long as only one fits; here several do.",
    "A script that was written when there were fewer commands.",
    "Write some more letters; in scripts best the whole word.";
Incomplete = 206: "a command that is not complete",
    "The line ends where the command needs more.",
    "A line that was broken in two, or an argument that was forgotten.",
    "The message names what can follow.";
BadArgument = 207: "an argument that is not what it must be",
    "The command is known, and the argument at this place cannot be read as what it has to be: an address, a number, a name.",
    "A prefix without its length, a port above 65535, an address of the other family.",
    "The message says what is wanted; docs/commands.md lists each kind of argument.";
Refused = 208: "words of a command that do not go together",
    "Each word of the command can be read, and together they ask for something that cannot be.",
    "A router of another family than its prefix, ports of a protocol that has none, a limit below the least.",
    "The message says what is against it.";
ScriptUnreadable = 209: "a script that cannot be read",
    "The file of commands is not there, is closed to the user who runs the host, is larger than 1 MiB, or is no file.",
    "A relative path: the host looks from the folder that it was started in.",
    "Write an absolute path, and look at it with `ls -l`.";
ScriptsTooDeep = 210: "scripts that call each other too deeply",
    "A script runs a script that runs a script, more than eight deep.",
    "A script that runs itself.",
    "Put the commands of the inner scripts into one.";

// What a host has.
NoSuchThing = 301: "something that is not there",
    "The command names an interface, table, namespace, session, rule, worker or queue that the host does not have.",
    "Another number or name than the host gave it, or somebody took it away before.",
    "`show interface`, `show ip table`, `show app ns`, `show session`, `show acl` and `show threads` list what there is.";
Exists = 302: "something that is there already",
    "What the command would make is there, or its name is taken.",
    "A script that was carried out twice, or settings and script that make the same thing.",
    "Take the old one away first, or leave the command out.";
InUse = 303: "something that is in use",
    "It cannot be taken away or begun while something else depends on it.",
    "Interfaces, routes or namespaces in a table; a capture that goes on.",
    "Take away first what the message names.";
Full = 304: "as many as the limits allow",
    "Tables of the host have a size that is decided at its start, and one of them is full.",
    "More interfaces, addresses, routes, tables, rules or namespaces than the settings foresee.",
    "`show limits` says how full each is. Raise the limit in the section [limits] of the settings and start the host anew.";
BadAddress = 305: "an address that does not fit the interface",
    "The address cannot be one host's on that link.",
    "The address of a network, of a group, or a broadcast address; or IPv6 on an interface whose MTU is below 1280.",
    "Give an address of one host, with the length of its network's prefix.";
BadRouter = 306: "a router that is not on a link of ours",
    "A route leads to a router that no interface of the table reaches, or that is the host itself.",
    "The interface has no address in the router's network yet, or lies in another table.",
    "Give the interface its address first, or name the interface behind the router.";
BadMtu = 307: "an MTU that cannot be",
    "An MTU is 576 to 65535 bytes, and at least 1280 where there are IPv6 addresses (RFC 8200, section 5).",
    "A link's MTU that was meant with its headers, or a slip of the keyboard.",
    "Choose an MTU within these bounds.";
WrongKind = 308: "something that is of another kind",
    "The command is for another kind of interface, session or device.",
    "`delete tap` of a loopback interface, an Ethernet address for an interface without Ethernet, a reset of a session that is no connection.",
    "The message says of which kind it is.";
BadNamespace = 309: "a namespace that cannot be made",
    "The name or the secret is not allowed, or the socket at which its programs are let in cannot be made.",
    "A name with spaces or slashes, an empty secret, a folder that is closed to the host's user.",
    "Names are 1 to 64 letters, digits, `-`, `_` and `.`; secrets 1 to 256 bytes.";
BadFilter = 310: "a filter, rule or specification of faults that is not understood",
    "The words of a filter for packets, of a rule, or of faults for tests make no sense.",
    "Words of tcpdump that this filter does not know, or ports without a protocol that has them.",
    "Look up the words: docs/capture.md, docs/acl.md and docs/ports.md list them.";
Unwritable = 311: "a file that cannot be written",
    "The host, or this command, cannot write the file.",
    "Its folder is not there or closed to the user, or the disk is full. A host writes with the rights of the user who runs it.",
    "Name a file in a folder that this user may write.";
NotBuiltIn = 312: "something that this build or host does not have",
    "The command is known, and what it needs was left out, or cannot be switched off.",
    "A build without DPDK, or a command of VPP that is there only to be recognised.",
    "`clearway version` says what was built in.";
SystemRefuses = 313: "the system refuses what the host needs",
    "A call of the system, or a program that the host ran for it, failed.",
    "Missing rights, a limit for descriptors or locked memory, or a kernel without a feature.",
    "`clearway doctor` looks at rights, limits and features and says how to get them.";

// Ports.
PortMisuse = 401: "a port that makes no sense",
    "The words behind a port's name do not go together, or do not fit its kind.",
    "An option of another kind of port, or two that exclude each other.",
    "See docs/ports.md: it lists each kind of port with its options.";
PortDenied = 402: "no permission for a port",
    "The system does not let this user have the device.",
    "A TAP interface wants CAP_NET_ADMIN, or to be made beforehand for this user; XDP wants CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.",
    "Use sudo; or make the interface once with `ip tuntap add NAME mode tap user $USER`; or give the program the capability. `clearway doctor` says what is missing.";
PortBusy = 403: "a port in use by another program",
    "Another program has the device, and it takes only one.",
    "Another host, or a virtual machine, that has the same TAP interface or queue of a card.",
    "`ip -d link show NAME` and `fuser -v /dev/net/tun` say who has it; end that, or choose another name.";
PortAbsent = 404: "a port's device that is not there",
    "The interface, card or special file behind the port does not exist.",
    "/dev/net/tun in a container, a card that is bound to another driver, a slip in its name.",
    "`ip link` and `clearway doctor` list what is there. Where /dev/net/tun is missing: `mkdir -p /dev/net && mknod /dev/net/tun c 10 200`, as root.";
PortFailed = 405: "a port that cannot be opened, or failed",
    "The device was found, and refused to work, or ceased to.",
    "A driver without a feature, an interface that somebody took away, memory that cannot be locked.",
    "The message holds the system's word and a remedy.";
PortKept = 406: "an interface that this machine is reached over",
    "Taking the interface may cut this machine off, so it is not taken without being asked twice.",
    "It carries the default route, or the login from which the command was given.",
    "Name another interface, or insist with --force at the machine's own console.";

// A host's start.
HostRuns = 501: "a host runs there already",
    "Another host answers at the socket.",
    "An instance that was started before, by hand or by the service manager.",
    "`clearway ctl show version` asks it, `clearway ctl stop` stops it; a second host wants another --socket.";
SocketFailed = 502: "a socket of the host that cannot be made",
    "The host cannot make a socket at this path, for programs, commands or metrics, or cannot use one that the service manager gave it.",
    "The folder is not there or closed to this user, the path is longer than 107 bytes, or something else lies there; a socket unit of systemd names other sockets than the host's.",
    "Name a socket in a folder that this user may write, with --socket or in the section [control] of the settings; in a socket unit the same paths as for the host, ListenSequentialPacket= for programs and ListenStream= for commands.";
WorkerFailed = 503: "a worker that could not begin, or ended",
    "One of the host's threads that carry packets failed, and the host with it.",
    "A core that is not there or not allowed to this process, or a port that broke.",
    "The message says why. `clearway doctor` lists the cores that may be used.";

// Reaching a host.
NoHost = 601: "no host answers",
    "Nobody listens at the host's socket.",
    "No host runs, or it was started with another --socket or by another user.",
    "Start one with `clearway up`, or name its socket with --socket or $CLEARWAY_SOCKET.";
NotHeard = 602: "a host that does not hear this user",
    "A host runs there, and its socket is closed to this user.",
    "Commands are taken of root and of the user who runs the host; programs are let in by the socket's file mode.",
    "Use sudo, or that user. For programs: `socket-mode` in the section [control] of the settings.";
NoHostsSocket = 603: "what lies at the path is no host's socket",
    "The path that was named is a file, a folder or another program's socket.",
    "--socket names the settings or the log instead of the socket.",
    "`clearway up` prints its sockets when it is ready.";
HostSilent = 604: "a host that ended the conversation, or does not answer",
    "The connection to the host broke off, or no answer came in time.",
    "The host was stopped meanwhile, or a worker is stuck.",
    "Look at its log, and whether it runs: `clearway health`.";
NoEntry = 605: "a program that the host does not let in",
    "The host answered and refused: the namespace is not there, the secret is wrong, or the versions of library and host differ.",
    "A namespace that was taken away, a secret that was changed, a library of another build in LD_PRELOAD.",
    "`clearway ctl show app ns` lists namespaces and how many were refused at each; the host's log says why.";
NoRoom = 606: "a host that has no room for the program",
    "A limit for programs, processes, memory or descriptors is reached.",
    "More programs than the settings foresee, or programs that were not ended.",
    "`clearway ctl show limits` says which limit it is; the settings raise it, for namespaces also while the host runs.";
ClientSettings = 607: "settings of a program that are not understood",
    "A variable $CLEARWAY_… or the file of `run --config` holds something that cannot be.",
    "A slip of the keyboard, or a setting of VPP's library that has no meaning here.",
    "The message names the variable or the line, and what is allowed; docs/client.md lists them.";

// Starting programs.
NoLibrary = 701: "a part of Clearway that is not found",
    "The library that `run` puts into programs is not beside the command, or lies where the loader cannot take it from.",
    "A build of the command alone, or a folder with spaces or colons in its name.",
    "Build it with `cargo build --release -p clearway-preload`, install with `make install`, or name it with --preload.";
Unfit = 702: "a program into which the library cannot be put",
    "The program would run over the kernel, and --required forbids that.",
    "It is linked statically, written in Go, set-uid, or for another machine or C library.",
    "`--trap` takes over static programs, Go's and those with musl; docs/trap.md says which. Without --required it runs over the kernel.";
CannotRun = 703: "a program that cannot be started",
    "The system does not start the program.",
    "It is not there, not in $PATH, or not executable.",
    "Try it without `clearway run --` before it.";
}
