/* Modules that are loaded while the program runs, with RTLD_DEEPBIND as PHP loads its extensions: their sockets are as the program's. The module is this file, too. */
#include "common.h"

#include <dlfcn.h>

#ifdef MODULE

/* An exchange by functions that the module finds. */
int exchange(const struct sockaddr *at, socklen_t len)
{
	struct sockaddr_storage name;
	socklen_t name_len = sizeof(name);
	char text[16];
	int fd = socket(at->sa_family, SOCK_STREAM, 0), from = socket(at->sa_family, SOCK_STREAM, 0);

	if (bind(fd, at, len) || listen(fd, 5) || getsockname(fd, (struct sockaddr *)&name, &name_len))
		return -errno;
	if (connect(from, (struct sockaddr *)&name, len))
		return -errno;
	int one = accept(fd, NULL, NULL);
	ssize_t sent = write(from, "hello", 5), got = read(one, text, 5);
	close(one);
	close(from);
	close(fd);
	return sent + got;
}

/* What the module sees of its own that the program has, too. */
int whose = 2;

int whose_is_it(void)
{
	return whose;
}

#else

int main(int argc, char **argv)
{
	static const int flags[] = {RTLD_NOW, RTLD_LAZY | RTLD_GLOBAL, RTLD_NOW | RTLD_DEEPBIND, RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND};

	if (argc < 2)
		return 2;
	self_from(argv[1]);
	for (size_t at = 0; at < sizeof(flags) / sizeof(*flags); at++) {
		/* By its name alone: it lies where the program's RUNPATH leads. */
		void *module = dlopen("module.so", flags[at]);
		if (!module) {
			printf("%#x: %s\n", flags[at], dlerror());
			continue;
		}
		int (*exchange)(const struct sockaddr *, socklen_t) = (int (*)(const struct sockaddr *, socklen_t))dlsym(module, "exchange");
		int (*whose)(void) = (int (*)(void))dlsym(module, "whose_is_it");
		printf("%#x: exchanged %d, its own %d", flags[at], exchange((struct sockaddr *)&self, self_len), whose());
		printf(", closed %d\n", dlclose(module));
	}
	printf("not there: %d\n", dlopen("nothing.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
	printf("the program: %d\n", dlopen(NULL, RTLD_NOW) != NULL);
	return 0;
}

#endif
