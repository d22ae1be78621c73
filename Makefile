# The front door: `make help`. Needs cargo and a C compiler, fetches and builds everything else.

CARGO ?= cargo
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR

DATA ?= data
SEEDS ?= 5
COSCAN = $(CARGO_TARGET_DIR)/release/coscan

# Tests have more dependencies than the program, and cargo compiles a crate anew when it is to have other
# features. Building a test along gives the program the tests' features: everything is compiled once.
BUILD = $(CARGO) build --locked --release --workspace --bin coscan --test architecture

# TPC-H scale factor 1 cut into 100 chunks. At 100 MB/s a query alone is bound by I/O; sixteen streams that share it well
# are bound by the CPU.
DEMO_TABLE = --data $(DATA)/tpch-sf1 --scale-factor 1 --chunks 100
DEMO_LIMITS = --read-limit 100MB --buffer-percent 20

.DEFAULT_GOAL := help
.PHONY: help demo test check bench doc tools

help: ## Show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: tools ## Run the workload of the 2007 paper under every policy (15 minutes, most of them for the build)
	$(BUILD)
	@mkdir -p $(DATA)
	$(COSCAN) bench paper $(DEMO_TABLE) $(DEMO_LIMITS) --seeds $(SEEDS) --svg $(DATA)/loads.svg

test: check ## Everything that must pass: check, tests, docs
	$(CARGO) test --locked --release --workspace
	@$(MAKE) --no-print-directory doc

check: tools ## Formatting, lints, directions of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings
	$(CARGO) test --locked --release --workspace --test architecture

bench: tools ## Cost of a scheduling decision, and a short run of the paper's workload
	$(CARGO) bench --locked -p coscan-core
	$(BUILD)
	@mkdir -p $(DATA)
	$(COSCAN) bench paper $(DEMO_TABLE) $(DEMO_LIMITS) --streams 8 --queries 2

doc: tools ## API documentation, without warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --release --workspace --no-deps

tools:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is missing ($${CC:-cc}): compression and TLS need one; install gcc or clang (apt-get install build-essential)" >&2; exit 1; }
