# Clearway: the few commands that a newcomer needs. Everything else is `cargo xtask --help`.

# rustup puts cargo here; a shell that was not restarted since does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

# Debian 12 packages that building, `make test` and `make demo` use. Only missing ones are installed.
PACKAGES := \
	build-essential pkg-config ca-certificates curl \
	iproute2 iputils-ping procps ethtool jq \
	wrk iperf3 nmap tcpdump valgrind

.DEFAULT_GOAL := help
.PHONY: help setup test demo

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install missing Debian packages and check cargo
	@scripts/setup.sh $(PACKAGES)

test: setup ## Run every gate: format, lints, layers, tests, simulation, documents
	@cargo xtask ci --keep-going

demo: setup ## Build, then serve HTTP to the Linux kernel over a TAP device and measure it
	cargo build --release
	@if [ -x scripts/demo.sh ]; then exec scripts/demo.sh; \
	else echo "make demo: scripts/demo.sh is not in this tree" >&2; exit 1; fi
