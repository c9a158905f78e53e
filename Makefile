# Clearway: the few commands that a newcomer needs. Everything else is `cargo xtask --help`.

# rustup puts cargo here; a shell that was not restarted since does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

# The compiler's allocator asks for huge pages: many times faster where a fresh page is dear, as on some virtual machines.
export MALLOC_CONF ?= thp:always,metadata_thp:always

# Debian 12 packages that building, `make test` and `make demo` use. Only missing ones are installed.
PACKAGES := \
	build-essential pkg-config ca-certificates curl \
	iproute2 iputils-ping procps ethtool jq openssh-client \
	wrk iperf3 nmap tcpdump tshark valgrind python3 \
	libdpdk-dev dpdk-dev liburing-dev libssl-dev openssl \
	qemu-system-x86 busybox-static

# Only tests use these: the lab's page is looked at in a browser, and some programs run over the host (tests/apps).
TEST_PACKAGES := prometheus chromium python3-yaml python3-psutil net-tools fonts-dejavu-core mandoc strace bpftrace systemd \
	nginx redis-server redis-tools socat bind9-dnsutils dnsmasq memcached libmemcached-tools bird2 golang-go musl-tools

# The programs that are tried over Clearway and over the kernel (tests/apps). None of them is started by being installed.
APPS_PACKAGES := $(TEST_PACKAGES) \
	dovecot-imapd mariadb-server mariadb-client postfix squid caddy etcd-server etcd-client \
	wget apache2 apache2-utils lighttpd haproxy postgresql postgresql-contrib mosquitto mosquitto-clients \
	openssh-server rsync vsftpd lftp git unbound chrony ntpsec-ntpdig iperf netcat-openbsd openssl \
	nodejs python3-uvloop openjdk-17-jdk-headless libnetty-java tcl dpkg-dev libpython3.11-testsuite

.DEFAULT_GOAL := help
.PHONY: help setup install book publish-check deb deb-test container container-test test fuzz coverage apps systems soak demo demo-http demo-bulk demo-frames demo-ecmp baselines lab sweep-frames sweep-xdp sweep-http sweep-loss

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install missing Debian packages, Rust where it is missing or too old (RUST=keep: say so instead), and the tools of the gates
	@scripts/setup.sh $(if $(filter setup test,$(or $(MAKECMDGOALS),help)),--tools) $(PACKAGES)

# Where `make install` puts things; DESTDIR goes before all of it, as packages want it.
PREFIX ?= /usr/local
BINARY := target/release/clearway

install: ## Build, then install the program, its libraries, manual pages and completions below PREFIX=/usr/local
	cargo build --release
	cargo build --release -p clearway-preload -p clearway-inproc
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/clearway
	install -D -m 644 target/release/libclearway_preload.so $(DESTDIR)$(PREFIX)/lib/libclearway_preload.so
	install -m 755 target/release/clearway-trap $(DESTDIR)$(PREFIX)/bin/clearway-trap
	install -m 644 target/release/libclearway_inproc.so $(DESTDIR)$(PREFIX)/lib/libclearway_inproc.so
	install -m 755 target/release/libclearway.so $(DESTDIR)$(PREFIX)/lib/libclearway.so
	install -m 644 target/release/libclearway.a $(DESTDIR)$(PREFIX)/lib/libclearway.a
	install -D -m 644 crates/api/capi/clearway.h $(DESTDIR)$(PREFIX)/include/clearway.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's,^prefix=.*,prefix=$(PREFIX),' packaging/clearway.pc >$(DESTDIR)$(PREFIX)/lib/pkgconfig/clearway.pc
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in clearway.service clearway.socket clearway@.service clearway@.socket; do sed 's,/usr/bin/,$(PREFIX)/bin/,' packaging/systemd/$$unit >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; done
	$(BINARY) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BINARY) completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/clearway
	install -D -m 644 packaging/grafana/clearway.json $(DESTDIR)$(PREFIX)/share/clearway/grafana/clearway.json
	install -D -m 644 packaging/prometheus/clearway-alerts.yml $(DESTDIR)$(PREFIX)/share/clearway/prometheus/clearway-alerts.yml
	install -d $(DESTDIR)$(PREFIX)/share/clearway/bpftrace
	for script in packaging/bpftrace/*.bt; do sed 's,/usr/bin/,$(PREFIX)/bin/,' $$script >$(DESTDIR)$(PREFIX)/share/clearway/bpftrace/$$(basename $$script); done
	install -d $(DESTDIR)$(PREFIX)/share/doc/clearway/examples
	install -m 644 packaging/clearway.toml crates/api/capi/examples/*.c crates/api/clearway/examples/*.rs $(DESTDIR)$(PREFIX)/share/doc/clearway/examples/

book: setup ## Build the documentation as a book, target/book/index.html, with mdBook
	@scripts/setup.sh --tool mdbook
	mdbook build
	@# What lies outside of docs/ is no page of the book: those links lead to the files themselves.
	@sed -i -E 's,href="\.\./(ARCHITECTURE|CONTRIBUTING)\.html,href="../../\1.md,g; s,href="\.\./crates/,href="../../crates/,g' target/book/*.html

publish-check: setup ## Pack every public crate as a registry gets it, and build each from its package; uploads nothing
	cargo publish --workspace --dry-run

# What the package is made of: the same files that `make install` puts there.
deb: setup ## Build a Debian package, target/debian/clearway_*.deb, with cargo-deb
	@scripts/setup.sh --tool cargo-deb
	rm -rf target/deb
	$(MAKE) --no-print-directory install DESTDIR=$(CURDIR)/target/deb PREFIX=/usr
	strip --strip-unneeded target/deb/usr/bin/* target/deb/usr/lib/*.so
	strip --strip-debug target/deb/usr/lib/*.a
	cargo deb --quiet --no-build --no-strip -p clearway-cli -o target/debian/

deb-test: PACKAGES += debootstrap
deb-test: deb ## Install the package in a bare Debian 12 made by debootstrap, use it, remove it, and look for traces (root)
	@scripts/deb-test.sh target/debian/clearway_*.deb

container: setup ## Build a container image, target/clearway-VERSION.tar, without a daemon: docker load, podman load, skopeo
	@packaging/container/build.sh

container-test: PACKAGES += runc umoci skopeo
container-test: container ## Run the image with runc and no capability over a TAP device, with a program beside it (root)
	@packaging/container/test.sh target/clearway-*.tar

# The variable is said so that what macros are made of is the same for each of the gates' builds. Left alone, cargo makes it without debug
# information where nothing else that is built uses it, and then all that stands on a macro is built once more.
test: PACKAGES += $(TEST_PACKAGES)
test: setup ## Run every gate: format, lints, layers, tests, simulation, documents
	@CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG=line-tables-only cargo xtask ci --keep-going

fuzz: setup ## Run each fuzz target for MINUTES=20, JOBS=2 at a time (ARGS="frame peer"); a table at the end
	@scripts/setup.sh --tool cargo-fuzz
	@scripts/fuzz.sh $(ARGS)

coverage: setup ## Which lines of the protocol core no test reaches, by llvm-cov: a table, and target/coverage/uncovered.txt (SEEDS=2000)
	@scripts/coverage.sh

apps: PACKAGES += $(APPS_PACKAGES)
apps: setup ## Build, then run programs of Debian over Clearway and the kernel, and write docs/compatibility.md (root; ARGS="--only nginx")
	cargo build --release
	cargo build --release -p clearway-preload -p clearway-inproc
	@exec tests/apps/run --record $(ARGS)

systems: PACKAGES += debootstrap
systems: setup ## Build, then test what is loaded into programs with the C libraries of Debian 13 and Ubuntu 22.04 (root; SUITES="trixie jammy")
	@scripts/systems.sh $(SUITES)

soak: PACKAGES += $(APPS_PACKAGES)
soak: setup ## Build, then load nginx, redis, Go's HTTP (trapped) and very many programs for MINUTES=30 each, over Clearway and the kernel (root)
	cargo build --release
	cargo build --release -p clearway-preload -p clearway-inproc
	@exec tests/apps/run --long --only soak --minutes $(or $(MINUTES),30) $(ARGS)

demo: setup ## Build, then run unmodified iperf3 over Clearway's loopback beside the kernel's loopback
	cargo build --release
	@exec scripts/demo.sh

demo-http: setup ## Build, then serve HTTP to the Linux kernel over a TAP device and measure it (root)
	cargo build --release
	@exec scripts/demo-http.sh

demo-bulk: setup ## Build, then measure one stream over a TAP device beside the kernel's veth, slices alternating (root)
	cargo build --release
	@exec scripts/demo-bulk.sh

demo-frames: setup ## Build, then reflect frames over shared memory beside DPDK's testpmd
	cargo build --release
	@exec scripts/demo-frames.sh

demo-ecmp: PACKAGES += bird2 $(if $(findstring --frr,$(ARGS)),frr)
demo-ecmp: setup ## Build, then add, drain and kill hosts behind a router with BIRD under load, and show what broke (root; ARGS="--frr", ARGS="--plain")
	cargo build --release
	cargo build --release -p clearway-preload
	@exec examples/ecmp/run $(ARGS)

sweep-frames: setup ## The same for six sizes, memif and vhost-user, one queue and two (ARGS="--quick --json FILE")
	cargo build --release
	@exec scripts/sweep-frames.sh $(ARGS)

sweep-xdp: setup ## Build, then reflect frames over a veth pair, our AF_XDP beside DPDK's (root; ARGS="--quick")
	cargo build --release
	@exec scripts/sweep-xdp.sh $(ARGS)

sweep-loss: setup ## One stream over bad links, Clearway with Linux beside Linux with Linux (root; ARGS="--quick --json FILE --svg DIR")
	cargo build --release
	@exec scripts/sweep-loss.py $(ARGS)

sweep-http: setup ## Build, then serve HTTP over every kind of port, with huge pages and without (root; ARGS="--quick --json FILE")
	cargo build --release
	@exec scripts/sweep-http.sh $(ARGS)

baselines: setup ## Build the servers over other stacks that Clearway is compared with, into target/baselines
	@baselines/build.sh

lab: setup ## Build everything and measure all scenarios beside the kernel and other stacks: a quiet machine, an hour or two (root)
	cargo build --release
	cargo build --release -p clearway-preload -p clearway-inproc
	-@baselines/build.sh
	@target/release/clearway lab all
