/* A peer of vhost or memif shares its memory as a file, and nobody can keep it from making that file shorter while we use it: the page is gone, and
 * whoever touches it, a driver mostly, gets SIGBUS. Here such a region is replaced by empty memory in the handler of the signal, and the peer is cut off.
 *
 * What is a peer's is known from its first moment: the drivers' calls of mmap, munmap and recvmsg are answered here first, as in gate.c, because the program
 * comes before all libraries where the dynamic linker looks for a name. A region is entered before the driver has its address and taken out before it
 * is unmapped. The handler only reads the table, and takes no lock. */

#define _GNU_SOURCE
#include "peers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_config.h>

/* Regions of all peers. A peer of memif has 256 at most, one of vhost ten: eight of memory, a log, and what is in flight. A peer whose region finds no
 * place is refused by its driver, to whom it cannot be mapped. */
#define REGIONS (256 * RTE_MAX_ETHPORTS)

enum { FREE, WRITTEN, USED };

struct region {
	/* One of the above in the lowest two bits; the rest counts how often the place was used. */
	atomic_uint_fast64_t state;
	uintptr_t at;
	size_t len;
	int prot;
	/* The connection over which it came, as a descriptor of our own and as the kernel's number of the socket. */
	int connection;
	ino_t peer;
	/* A bit for each port that meets peers at that socket. */
	uint64_t ports;
	/* Whether it was replaced. */
	atomic_bool gone;
};

_Static_assert(RTE_MAX_ETHPORTS <= 64, "a bit for each port");

static struct region regions[REGIONS];
/* No region was ever entered at or behind this place. */
static atomic_size_t end;

/* What a port meets its peers at, and what became of them. */
static struct {
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	atomic_uint cut_off;
} ports[RTE_MAX_ETHPORTS];

/* Held while the sockets above are read or written; not by the handler, which reads those of ports whose peers have memory here, and they are open. */
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;

/* Where the code of the drivers lies whose peers share memory. */
static struct {
	uintptr_t from, to;
} code[2];

static int is_driver(const void *caller)
{
	for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++)
		if ((uintptr_t)caller - code[i].from < code[i].to - code[i].from)
			return 1;
	return 0;
}

/* The socket that a driver has last read in this thread. It maps what a message brings before it reads the next one. */
static _Thread_local int last_read = -1;

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	static ssize_t (*_Atomic receive)(int, struct msghdr *, int);

	if (receive == NULL)
		receive = (ssize_t (*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
	if (receive == NULL) {
		errno = ENOSYS;
		return -1;
	}
	if (is_driver(__builtin_return_address(0)))
		last_read = socket;
	return receive(socket, message, flags);
}

/* The path or the abstract name of a connection: that of the end that listens. */
static void name_of(int connection, char *name, size_t room)
{
	struct sockaddr_un address;
	socklen_t len = sizeof(address);
	size_t skip;

	memset(&address, 0, sizeof(address));
	if (getsockname(connection, (struct sockaddr *)&address, &len) < 0 || len <= offsetof(struct sockaddr_un, sun_path)) {
		memset(&address, 0, sizeof(address));
		len = sizeof(address);
		if (getpeername(connection, (struct sockaddr *)&address, &len) < 0)
			len = 0;
	}
	skip = address.sun_path[0] == '\0';
	snprintf(name, room, "%.*s", (int)(sizeof(address.sun_path) - skip), address.sun_path + skip);
}

static uint64_t ports_at(const char *socket)
{
	uint64_t found = 0;

	pthread_mutex_lock(&names);
	for (size_t port = 0; port < RTE_MAX_ETHPORTS; port++)
		if (ports[port].socket[0] != '\0' && strcmp(ports[port].socket, socket) == 0)
			found |= UINT64_C(1) << port;
	pthread_mutex_unlock(&names);
	return found;
}

static struct region *claim(void)
{
	for (size_t i = 0; i < REGIONS; i++) {
		uint_fast64_t state = atomic_load(&regions[i].state);
		size_t seen = atomic_load(&end);
		if ((state & 3) != FREE || !atomic_compare_exchange_strong(&regions[i].state, &state, state + WRITTEN))
			continue;
		while (seen <= i && !atomic_compare_exchange_weak(&end, &seen, i + 1))
			;
		return &regions[i];
	}
	return NULL;
}

static void give_back(struct region *region)
{
	/* The next round of the place. */
	atomic_store(&region->state, (atomic_load(&region->state) | 3) + 1);
}

static void enter(struct region *region, void *at, size_t len, int prot)
{
	char name[sizeof(ports[0].socket)];
	struct stat about;

	region->at = (uintptr_t)at;
	region->len = len;
	region->prot = prot;
	region->connection = fcntl(last_read, F_DUPFD_CLOEXEC, 0);
	region->peer = fstat(region->connection, &about) == 0 ? about.st_ino : 0;
	name_of(region->connection, name, sizeof(name));
	region->ports = ports_at(name);
	atomic_store(&region->gone, 0);
	atomic_store(&region->state, atomic_load(&region->state) + USED - WRITTEN);
}

/* The drivers use it under this name. Everybody else's mappings pass through. */
void *mmap64(void *wanted, size_t len, int prot, int flags, int fd, off64_t offset)
{
	struct region *region = NULL;
	void *at;

	if (fd >= 0 && (flags & MAP_TYPE) == MAP_SHARED && is_driver(__builtin_return_address(0))) {
		region = claim();
		if (region == NULL) {
			errno = ENOMEM;
			return MAP_FAILED;
		}
	}
	at = (void *)syscall(SYS_mmap, wanted, len, prot, flags, fd, offset);
	if (region != NULL && at != MAP_FAILED)
		enter(region, at, len, prot);
	else if (region != NULL)
		give_back(region);
	return at;
}

int munmap(void *at, size_t len)
{
	size_t count = is_driver(__builtin_return_address(0)) ? atomic_load(&end) : 0;

	for (size_t i = 0; i < count; i++) {
		if ((atomic_load(&regions[i].state) & 3) != USED || regions[i].at != (uintptr_t)at)
			continue;
		if (regions[i].connection >= 0)
			close(regions[i].connection);
		give_back(&regions[i]);
		break;
	}
	return (int)syscall(SYS_munmap, at, len);
}

/* From here to the handler itself: nothing but what a handler of signals may do. */

static struct region *region_at(uintptr_t at)
{
	size_t count = atomic_load(&end);

	for (size_t i = 0; i < count; i++) {
		uint_fast64_t state = atomic_load(&regions[i].state);
		if ((state & 3) == USED && at - regions[i].at < regions[i].len && atomic_load(&regions[i].state) == state)
			return &regions[i];
	}
	return NULL;
}

/* Whether this is the first region that its peer took back. */
static int is_first(const struct region *region)
{
	size_t count = atomic_load(&end);

	for (size_t i = 0; i < count; i++)
		if (&regions[i] != region && (atomic_load(&regions[i].state) & 3) == USED && regions[i].peer == region->peer &&
		    atomic_load(&regions[i].gone))
			return 0;
	return 1;
}

static void tell(const char *socket)
{
	static const char before[] = "clearway: a peer at ";
	static const char after[] = " took back memory that it shares with us, and is cut off. If it is a virtual machine, look at "
				    "what became of the file behind its memory. Further ones are only counted (peers_cut_off)\n";
	struct iovec text[] = {
		{ (void *)(uintptr_t)before, sizeof(before) - 1 },
		{ (void *)(uintptr_t)socket, strlen(socket) },
		{ (void *)(uintptr_t)after, sizeof(after) - 1 },
	};
	ssize_t written = writev(STDERR_FILENO, text, sizeof(text) / sizeof(text[0]));

	(void)written;
}

static void cut_off(struct region *region)
{
	/* The driver's own thread hears that the connection is at its end, and lets go of everything that came over it. */
	(void)shutdown(region->connection, SHUT_RDWR);
	if (atomic_exchange(&region->gone, 1) || !is_first(region))
		return;
	for (size_t port = 0; port < RTE_MAX_ETHPORTS; port++)
		if ((region->ports >> port & 1) != 0 && atomic_fetch_add(&ports[port].cut_off, 1) == 0)
			tell(ports[port].socket);
}

static struct sigaction before_us;

static void on_bus_error(int number, siginfo_t *about, void *context)
{
	struct region *region = about->si_code == BUS_ADRERR ? region_at((uintptr_t)about->si_addr) : NULL;
	int error = errno;

	(void)number, (void)context;
	/* All of it at once: what is left of the peer's memory would only take us here again. */
	if (region != NULL && syscall(SYS_mmap, region->at, region->len, region->prot, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != -1) {
		cut_off(region);
	} else {
		/* Not for us. What faulted does so again on return; what was sent has to be sent again. */
		(void)sigaction(SIGBUS, &before_us, NULL);
		if (about->si_code <= 0)
			(void)raise(SIGBUS);
	}
	errno = error;
}

static int note_code(struct dl_phdr_info *object, size_t size, void *count)
{
	size_t *known = count;

	(void)size;
	if (strstr(object->dlpi_name, "/librte_vhost.so") == NULL && strstr(object->dlpi_name, "/librte_net_memif.so") == NULL)
		return 0;
	for (size_t i = 0; i < object->dlpi_phnum && *known < sizeof(code) / sizeof(code[0]); i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0)
			continue;
		code[*known].from = object->dlpi_addr + part->p_vaddr;
		code[*known].to = code[*known].from + part->p_memsz;
		(*known)++;
	}
	return 0;
}

int peers_start(void)
{
	struct sigaction ours = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	size_t known = 0;

	dl_iterate_phdr(note_code, &known);
	sigemptyset(&ours.sa_mask);
	return sigaction(SIGBUS, &ours, &before_us) < 0 ? -errno : 0;
}

void peers_open(uint16_t port, const char *socket)
{
	pthread_mutex_lock(&names);
	snprintf(ports[port].socket, sizeof(ports[port].socket), "%s", socket ? socket : "");
	atomic_store(&ports[port].cut_off, 0);
	pthread_mutex_unlock(&names);
}

void peers_close(uint16_t port)
{
	peers_open(port, NULL);
}

uint32_t peers_cut_off(uint16_t port)
{
	return atomic_load(&ports[port].cut_off);
}
