/* What a program is told that asks for the interfaces, by every way that there is; only of those whose name or address the command line says. */
#include "common.h"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netpacket/packet.h>

static const char *wanted;

/* What Linux says of every link, and programs take for granted. */
static const int always[] = {IFLA_ADDRESS, IFLA_BROADCAST, IFLA_IFNAME, IFLA_MTU, IFLA_QDISC, IFLA_STATS, IFLA_TXQLEN, IFLA_OPERSTATE, IFLA_LINKMODE, IFLA_STATS64,
			     IFLA_GROUP, IFLA_PROMISCUITY, IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES, IFLA_CARRIER};

static const char *text_of(const struct sockaddr *addr)
{
	static char text[64];

	if (!addr)
		return "none";
	if (addr->sa_family == AF_PACKET)
		snprintf(text, sizeof(text), "packet, hatype %d", ((struct sockaddr_ll *)addr)->sll_hatype);
	else
		inet_ntop(addr->sa_family, addr->sa_family == AF_INET ? (void *)&((struct sockaddr_in *)addr)->sin_addr : (void *)&((struct sockaddr_in6 *)addr)->sin6_addr, text, sizeof(text));
	return text;
}

static void by_getifaddrs(void)
{
	struct ifaddrs *list, *one;
	int others = 0;

	if (getifaddrs(&list))
		die("getifaddrs");
	for (one = list; one; one = one->ifa_next) {
		if (strcmp(one->ifa_name, wanted)) {
			others = 1;
			continue;
		}
		printf("%s: %s", one->ifa_name, text_of(one->ifa_addr));
		printf(" mask %s%s%s%s\n", text_of(one->ifa_netmask), one->ifa_flags & IFF_UP ? " up" : "", one->ifa_flags & IFF_LOOPBACK ? " loopback" : "",
		       one->ifa_data ? " counted" : "");
	}
	printf("others: %d\n", others);
	freeifaddrs(list);
}

static void by_ioctl(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq asked = {};
	struct ifreq many[64];
	struct ifconf conf = {.ifc_len = sizeof(many), .ifc_req = many};

	strcpy(asked.ifr_name, wanted);
	printf("index: %s\n", ioctl(fd, SIOCGIFINDEX, &asked) ? strerrorname_np(errno) : asked.ifr_ifindex == if_nametoindex(wanted) ? "as if_nametoindex" : "another");
	memset(asked.ifr_name, 0, sizeof(asked.ifr_name));
	printf("name: %s\n", ioctl(fd, SIOCGIFNAME, &asked) ? strerrorname_np(errno) : asked.ifr_name);
	printf("address: %s\n", ioctl(fd, SIOCGIFADDR, &asked) ? strerrorname_np(errno) : text_of(&asked.ifr_addr));
	printf("netmask: %s\n", ioctl(fd, SIOCGIFNETMASK, &asked) ? strerrorname_np(errno) : text_of(&asked.ifr_netmask));
	printf("mtu: %s\n", ioctl(fd, SIOCGIFMTU, &asked) ? strerrorname_np(errno) : asked.ifr_mtu == 65535 || asked.ifr_mtu == 65536 ? "a loopback's" : "small");
	printf("flags: %d\n", ioctl(fd, SIOCGIFFLAGS, &asked) ? -1 : asked.ifr_flags & (IFF_UP | IFF_LOOPBACK));
	if (ioctl(fd, SIOCGIFCONF, &conf))
		die("SIOCGIFCONF");
	for (int i = 0; i < conf.ifc_len / (int)sizeof(many[0]); i++)
		if (!strcmp(many[i].ifr_name, wanted)) {
			printf("among all: %s", text_of(&many[i].ifr_addr));
			printf(", netmask %s\n", ioctl(fd, SIOCGIFNETMASK, &many[i]) ? strerrorname_np(errno) : text_of(&many[i].ifr_netmask));
		}
	strcpy(asked.ifr_name, "nothing");
	printf("of no name: %s\n", ioctl(fd, SIOCGIFADDR, &asked) ? strerrorname_np(errno) : "there");
	close(fd);
}

static void by_names(void)
{
	struct if_nameindex *list = if_nameindex();
	char name[IF_NAMESIZE];
	unsigned index = if_nametoindex(wanted);

	printf("and back: %s\n", if_indextoname(index, name) ? name : strerrorname_np(errno));
	printf("no name: %u %s\n", if_nametoindex("nothing"), strerrorname_np(errno));
	for (int i = 0; list[i].if_index; i++)
		if (!strcmp(list[i].if_name, wanted))
			printf("listed: %s\n", list[i].if_index == index ? "with its index" : "with another");
	if_freenameindex(list);
}

/* The file by which Java finds out whether there is IPv6. */
static void by_file(void)
{
	FILE *file = fopen("/proc/net/if_inet6", "r");
	char address[40], name[32];
	unsigned index, len, scope, flags;

	while (file && fscanf(file, "%39s %x %x %x %x %31s", address, &index, &len, &scope, &flags, name) == 6)
		if (!strcmp(name, wanted))
			printf("in the file: %s/%u, scope %x, flags %x, %s\n", address, len, scope, flags, index == if_nametoindex(wanted) ? "with its index" : "with another");
	if (file)
		fclose(file);
}

/* Sends something that comes back by the interface. */
static void passes(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq asked = {};
	struct sockaddr_in to;

	strcpy(asked.ifr_name, wanted);
	if (ioctl(fd, SIOCGIFADDR, &asked))
		return;
	memcpy(&to, &asked.ifr_addr, sizeof(to));
	to.sin_port = htons(9);
	for (int i = 0; i < 3; i++)
		sendto(fd, "1234567890", 10, 0, (void *)&to, sizeof(to));
	usleep(100000);
	close(fd);
}

/* Packets and bytes received and sent: more than the last time? */
static void counted(const char *what, const void *counts, int width)
{
	static uint64_t before[2][4];

	printf(", %s", what);
	for (int i = 0; i < 4; i++) {
		uint64_t count = width == 8 ? ((const uint64_t *)counts)[i] : ((const uint32_t *)counts)[i];

		printf(" %s", count > before[width == 8][i] ? "more" : "no more");
		before[width == 8][i] = count;
	}
}

/* A dump, read as careful programs do: how long is it, and then all of it. */
/* Whether a message says beside that it is the kernel's, and of no group: avahi believes no other. */
static int is_credible(struct msghdr *message)
{
	int credible = 0;

	for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one)) {
		struct ucred *sender = (void *)CMSG_DATA(one);

		if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_CREDENTIALS)
			credible |= sender->pid == 0 && sender->uid == 0 && sender->gid == 0 ? 1 : 4;
		if (one->cmsg_level == SOL_NETLINK && one->cmsg_type == NETLINK_PKTINFO)
			credible |= ((struct nl_pktinfo *)CMSG_DATA(one))->group ? 4 : 2;
	}
	return credible == 3;
}

static void by_netlink(int kind, int family, unsigned of)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), over = 0;
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg body;
		char pad[16];
	} question = {.head = {.nlmsg_len = NLMSG_LENGTH(16), .nlmsg_type = kind, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 42}, .body = {.ifa_family = family, .ifa_index = of}};
	struct sockaddr_nl to = {.nl_family = AF_NETLINK}, own, from;
	socklen_t own_len = sizeof(own);
	unsigned index = if_nametoindex(wanted), others = 0, on = 1;

	question.head.nlmsg_len = NLMSG_LENGTH(kind == RTM_GETADDR ? sizeof(struct ifaddrmsg) : 16);
	/* The kernel looks at what is asked for since 4.20, if it is told to. */
	if (of && setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on)))
		die("NETLINK_GET_STRICT_CHK");
	on = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) || setsockopt(fd, SOL_NETLINK, NETLINK_PKTINFO, &on, sizeof(on)))
		die("SO_PASSCRED");
	if (sendto(fd, &question, question.head.nlmsg_len, 0, (void *)&to, sizeof(to)) < 0)
		die("sendto");
	getsockname(fd, (void *)&own, &own_len);
	while (!over) {
		struct iovec part = {};
		char control[256];
		struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t len = recvmsg(fd, &message, MSG_PEEK | MSG_TRUNC);

		part = (struct iovec){malloc(len), len};
		message.msg_controllen = sizeof(control);
		if (len < 0 || recvmsg(fd, &message, 0) != len || from.nl_pid)
			die("recvmsg");
		if (!is_credible(&message))
			printf("who sent it is not told\n");
		for (struct nlmsghdr *head = part.iov_base; NLMSG_OK(head, len); head = NLMSG_NEXT(head, len)) {
			struct ifaddrmsg *of_address = NLMSG_DATA(head);
			struct ifinfomsg *of_link = NLMSG_DATA(head);

			if (head->nlmsg_seq != 42 || head->nlmsg_pid != own.nl_pid)
				printf("not ours: %u %u\n", head->nlmsg_seq, head->nlmsg_pid);
			over |= head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR;
			if (head->nlmsg_type == NLMSG_ERROR)
				printf("an error: %d\n", ((struct nlmsgerr *)NLMSG_DATA(head))->error);
			others += head->nlmsg_type == RTM_NEWADDR && of_address->ifa_index != index;
			if (head->nlmsg_type == RTM_NEWADDR && of_address->ifa_index == index)
				for (struct rtattr *at = IFA_RTA(of_address), *end = (void *)((char *)head + head->nlmsg_len); at < end; at = (void *)((char *)at + RTA_ALIGN(at->rta_len)))
					if (at->rta_type == IFA_ADDRESS) {
						char text[64];

						printf("an address: %s/%d\n", inet_ntop(of_address->ifa_family, RTA_DATA(at), text, sizeof(text)), of_address->ifa_prefixlen);
					}
			if (head->nlmsg_type == RTM_NEWLINK && of_link->ifi_index == index) {
				const void *known[64] = {};

				printf("a link: type %d%s", of_link->ifi_type, of_link->ifi_flags & IFF_UP ? " up" : "");
				for (struct rtattr *at = IFLA_RTA(of_link), *end = (void *)((char *)head + head->nlmsg_len); at < end; at = (void *)((char *)at + RTA_ALIGN(at->rta_len)))
					if (at->rta_type < 64)
						known[at->rta_type] = RTA_DATA(at);
				printf(", without:");
				for (int i = 0; i < (int)(sizeof(always) / sizeof(*always)); i++)
					if (!known[always[i]])
						printf(" %d", always[i]);
				if (known[IFLA_STATS64] && known[IFLA_STATS]) {
					counted("in 64 bits", known[IFLA_STATS64], 8);
					counted("in 32 bits", known[IFLA_STATS], 4);
				}
				printf("\n");
			}
		}
		free(part.iov_base);
	}
	if (of)
		printf("of others: %u, then %s\n", others, recv(fd, &own, sizeof(own), MSG_DONTWAIT) < 0 ? strerrorname_np(errno) : "more");
	close(fd);
}

/* A question about one link, by its index or, if that is 0, by a name; what is answered, the acknowledgement, and that nothing is left. */
static void by_netlink_alone(unsigned index, const char *name)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr head;
		struct ifinfomsg body;
		struct rtattr at;
		char name[32];
	} question = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK, .nlmsg_seq = 43}, .body.ifi_index = index};
	struct sockaddr_nl own;
	socklen_t own_len = sizeof(own);
	char answer[8192];

	if (name) {
		question.at = (struct rtattr){.rta_len = RTA_LENGTH(strlen(name) + 1), .rta_type = IFLA_IFNAME};
		strcpy(question.name, name);
		question.head.nlmsg_len += RTA_ALIGN(question.at.rta_len);
	}
	if (send(fd, &question, question.head.nlmsg_len, 0) != (ssize_t)question.head.nlmsg_len)
		die("send");
	getsockname(fd, (void *)&own, &own_len);
	printf("%s alone:", name ? name : "by index");
	for (;;) {
		ssize_t whole = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT), len = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
		struct nlmsghdr *head = (void *)answer;
		struct ifinfomsg *link = NLMSG_DATA(head);

		if (len < 0)
			break;
		printf(" %s, of %s length, to %s:", head->nlmsg_seq == 43 ? "answered" : "of another", whole == len && (head->nlmsg_len == len) ? "its" : "another",
		       head->nlmsg_pid == own.nl_pid ? "us" : "another");
		if (head->nlmsg_type == RTM_NEWLINK)
			printf(" a link of type %d%s,%s the index, flags %x, %s", link->ifi_type, link->ifi_flags & IFF_UP ? " up" : "", link->ifi_index == (int)if_nametoindex(wanted) ? "" : " not",
			       head->nlmsg_flags, (char *)RTA_DATA(IFLA_RTA(link)));
		else if (head->nlmsg_type == NLMSG_ERROR)
			printf(" acknowledged, %d", ((struct nlmsgerr *)NLMSG_DATA(head))->error);
	}
	printf("; then %s\n", strerrorname_np(errno));
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	wanted = argv[1];
	alarm(TIME_LIMIT_S);
	by_getifaddrs();
	by_ioctl();
	by_names();
	by_file();
	passes();
	by_netlink(RTM_GETLINK, AF_UNSPEC, 0);
	passes();
	by_netlink(RTM_GETLINK, AF_UNSPEC, 0);
	by_netlink(RTM_GETADDR, AF_INET, 0);
	by_netlink(RTM_GETADDR, AF_UNSPEC, 0);
	by_netlink(RTM_GETADDR, AF_UNSPEC, if_nametoindex(wanted));
	by_netlink_alone(if_nametoindex(wanted), NULL);
	by_netlink_alone(0, wanted);
	by_netlink_alone(0, "nothing");
	by_netlink_alone(777777, NULL);
	return 0;
}
