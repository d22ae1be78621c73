# The front door: `make help`. Needs cargo and a C compiler, fetches and builds everything else.

CARGO ?= cargo
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR

DATA ?= data
COSCAN = $(CARGO_TARGET_DIR)/release/coscan

# For the whole workspace, as the tests are built: a part of it would have fewer features of its dependencies, and they
# would be compiled again.
BUILD = $(CARGO) build --locked --release --workspace --bin coscan
BUILD_EXTENSION = $(CARGO) build --locked --release -p coscan-postgres

# TPC-H scale factor 1 cut into 100 chunks. At 100 MB/s a query alone is bound by I/O; sixteen streams that share it well
# are bound by the CPU.
DEMO_TABLE = --data $(DATA)/tpch-sf1 --scale-factor 1 --chunks 100
DEMO_LIMITS = --read-limit 100MB --buffer-percent 20

# The side-by-side: SF (of lineitem), SEEDS, ENGINES (separated by commas), VENV (one with the other engines), and
# whatever else `python3 -m bench --help` knows in BENCH.
bench_options = --coscan $(COSCAN) --data $(DATA) --seeds $(SEEDS) $(if $(SF),--scale-factor $(SF)) \
	$(if $(ENGINES),--engines $(ENGINES)) $(if $(VENV),--venv $(VENV)) $(BENCH)

.DEFAULT_GOAL := help
.PHONY: help demo test test-memcheck check model-check bench bench-decisions postgres postgres-demo postgres-test postgres-regress \
	postgres-bench serve-test serve-demo tier-test doc tools

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

demo: SEEDS ?= 3
demo: tools ## Run the workload of the 2007 paper under every policy (19 minutes, most of them for the build)
	$(BUILD)
	@mkdir -p $(DATA)
	$(COSCAN) bench paper $(DEMO_TABLE) $(DEMO_LIMITS) --seeds $(SEEDS) --svg $(DATA)/loads.svg

# The crates of the workspace with overflow checks and debug assertions, and everything compiled in less time: see
# .cargo/checked.toml.
CHECKED = --config .cargo/checked.toml --locked --release --workspace

# What runs programs of others takes the program, the extension and the library for Python that were built before, two at a time,
# the longest first.
BESIDE_OTHERS = serve-test python postgres-test engines-test readers-test serve-page-test model-check
BUILT = BUILD=true BUILD_EXTENSION=true BUILD_OPTIONS="--config $(CURDIR)/.cargo/checked.toml --locked --release"

# Clippy's compiler takes the place of rustc for the workspace's crates, and fails on its lints: a pass of clippy of its own
# would compile all dependencies once more, as metadata, and so would `cargo doc`. packaging/rustdoc.py makes the
# documentation together with its examples.
test: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
test: export CLIPPY_ARGS = -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
test: lints ## Everything that must pass: check, tests, docs
	$(CARGO) fmt --all --check
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=line built documents programs
	@if command -v python3 >/dev/null; then CARGO=$(CARGO) python3 packaging/run_tests.py && \
		RUSTDOC=$(CURDIR)/packaging/rustdoc.py $(CARGO) test $(CHECKED) --doc; else \
		$(CARGO) test $(CHECKED) && $(MAKE) --no-print-directory doc model-check; fi
	@! command -v python3 >/dev/null || python3 -m unittest discover --start-directory bench/tests --top-level-directory .
	@! command -v python3 >/dev/null || python3 -m unittest discover --start-directory packaging/tests
	@if command -v python3 >/dev/null; then $(MAKE) --no-print-directory --jobs 2 --output-sync=target $(BESIDE_OTHERS) $(BUILT); else \
		echo "left out, the PostgreSQL extension, comparisons with other engines and readers, coscan serve, its page and the Python" \
			"package: python3 is missing"; [ "$$COSCAN_REQUIRE_ALL" != 1 ]; fi

# Debian's packages of other projects' programs, each with a command or file of it. As root, those that are missing are installed.
# The checks say which others they miss.
CLIENTS = psql:postgresql-client java:default-jdk-headless mvn:maven
BROWSER = chromium:chromium
POSTGRESQL = /usr/lib/postgresql/15/bin/postgres:postgresql-15 /usr/include/postgresql/15/server/postgres.h:postgresql-server-dev-15
install = @packages=$$(for pair in $(1); do command -v $${pair%:*} >/dev/null || [ -e $${pair%:*} ] || echo $${pair\#*:}; done); \
	[ -z "$$packages" ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $$packages >/dev/null; }

.PHONY: programs
programs:
	$(call install,$(CLIENTS) $(BROWSER) $(POSTGRESQL))

# docs/unsafe.md says which unsafe blocks these tests reach, and which are left out.
test-memcheck: tools ## The engine's unsafe code under valgrind
	@command -v valgrind >/dev/null || { echo "valgrind is missing: install it (apt-get install valgrind)" >&2; exit 1; }
	$(CARGO) test --config .cargo/checked.toml --config 'target."cfg(unix)".runner = ["valgrind", "--quiet", "--error-exitcode=99"]' \
		--locked --release --workspace --lib -- io::aligned io::local io::page_cache

# Everything that `make test` runs, by one call of cargo: while a long chain of crates compiles, others fill the processors.
.PHONY: built
built:
	$(CARGO) build $(CHECKED) --all-targets

.PHONY: lints
lints: tools
	@command -v clippy-driver >/dev/null || { echo "Clippy is missing: install it (rustup component add clippy rustfmt)" >&2; exit 1; }

check: lints documents ## Formatting, lints, directions of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) test $(CHECKED) --test house
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings

.PHONY: documents
documents:
	@if command -v python3 >/dev/null; then $(MAKE) --no-print-directory audit packages words; else \
		echo "left out, dependencies' licences and known holes, packages, and words: python3 is missing"; [ "$$COSCAN_REQUIRE_ALL" != 1 ]; fi

.PHONY: packages
packages: ## What the crates' packages name is in them (5 seconds; compiling them: packaging/packages.py)
	@CARGO=$(CARGO) python3 packaging/packages.py

.PHONY: words
words: ## Words and headers that are hard to read, in comments and documents (3 seconds; by folder: packaging/words.py --count)
	@python3 packaging/words.py

.PHONY: audit
audit: ## Licences and sources of dependencies; with cargo-deny also their known holes
	@CARGO=$(CARGO) python3 packaging/dependencies.py

tier-test: tools ## Eight users, TPC-H, restores of 2 s and changes of tape of 1 s: docs/slow-media.md (4 minutes after the build)
	$(CARGO) test $(CHECKED) --test tier -- --ignored --nocapture at_full_times

# A package of its own, with a target directory of its own: see its Cargo.toml. Its lints are not those of the workspace.
model-check: tools ## The engine's protocols between threads, in every interleaving (a minute with the build)
	$(CARGO) fmt --manifest-path crates/engine/protocols/Cargo.toml --check
	RUSTC_WORKSPACE_WRAPPER= $(CARGO) test --locked --manifest-path crates/engine/protocols/Cargo.toml --target-dir $(CARGO_TARGET_DIR)/protocols

bench: SEEDS ?= 1
bench: tools ## coscan and other engines side by side, on one workload under the same limits (10 minutes after the build)
	@command -v python3 >/dev/null || { echo "python3 is missing: it drives the engines; install Python 3.10 or newer" >&2; exit 1; }
	$(BUILD)
	@mkdir -p $(DATA)
	python3 -m bench $(bench_options)

# STORES and what else `python3 -m bench.remote --help` knows in BENCH.
.PHONY: bench-remote
bench-remote: tools ## Queries over a slow object store, by coscan, fixed numbers of requests and plain DataFusion (10 minutes)
	@command -v python3 >/dev/null || { echo "python3 is missing: it is the store; install Python 3.10 or newer" >&2; exit 1; }
	$(BUILD)
	python3 -m bench.remote --coscan $(COSCAN) --data $(DATA)/remote $(if $(STORES),--stores $(STORES)) $(BENCH)

# What else `python3 -m bench.lake --help` knows in BENCH.
.PHONY: bench-lake
bench-lake: tools ## Streams of queries over lake tables, by coscan and other readers of the formats (15 minutes after the build)
	$(BUILD)
	CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m bench.lake --coscan $(COSCAN) --data $(DATA)/lake $(BENCH)

# A test that depends on the machine's speed fails here: docs/testing.md. PROCESSORS=0 runs on the first one only.
TIMES ?= 20
BESIDE ?= 8
.PHONY: test-busy
test-busy: tools ## All tests TIMES times beside BESIDE programs that keep the processors busy
	CARGO=$(CARGO) python3 packaging/run_tests.py --jobs 1 --times $(TIMES) --beside $(BESIDE) $(if $(PROCESSORS),--processors $(PROCESSORS))

# For the whole workspace, so that dependencies have the features they were built with for the program.
bench-decisions: tools ## Cost of a scheduling decision
	$(CARGO) bench --locked --workspace --bench decision

# COSCAN_REQUIRE_ALL=1 makes a server that is missing a failure.
postgres: tools ## Build the PostgreSQL extension (install: make -C crates/postgres/pg install)
	$(BUILD_EXTENSION)
	@$(MAKE) --no-print-directory -C crates/postgres/pg CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR))

postgres-test: tools ## Tests of the PostgreSQL extension against a server of its own (4 minutes)
	$(BUILD_EXTENSION)
	@cd crates/postgres && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks

postgres-regress: tools ## PostgreSQL's own suites with every scan cooperative (15 minutes)
	$(BUILD_EXTENSION)
	@cd crates/postgres && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.regress

# TABLE4 takes the options of `python3 -m checks.table4 --help`, for instance --runs 5.
postgres-demo: tools ## The PostgreSQL experiment of the 2004 report, drawn (as root: limits memory and disk; 20 minutes)
	$(BUILD_EXTENSION)
	@mkdir -p $(DATA)
	@cd crates/postgres && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.table4 \
		--svg $(abspath $(DATA))/postgres.svg --json $(abspath $(DATA))/postgres.json $(TABLE4)

# COSTS names one of the three and its options: `python3 -m checks.costs --help` in crates/postgres.
COSTS ?= cached
postgres-bench: tools ## What the PostgreSQL extension costs: COSTS=cached, pgbench or many
	$(BUILD_EXTENSION)
	@cd crates/postgres && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.costs $(COSTS)

# Those of a line share an environment.
.PHONY: engines-test readers-test
engines-test: tools
	@$(MAKE) --no-print-directory --jobs 1 duckdb-test postgresql-answers-test cluster-test
readers-test: tools
	@$(MAKE) --no-print-directory --jobs 1 files-test lake-test

# DuckDB comes into an environment below the target directory. COSCAN_REQUIRE_ALL=1 makes it a failure if it does not.
.PHONY: duckdb-test
duckdb-test: tools ## Answers to random SQL and TPC-DS against DuckDB's (two minutes)
	$(BUILD)
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks duckdb

# As root, PostgreSQL is installed if it is missing; its server runs in a temporary folder. COSCAN_REQUIRE_ALL=1 as above.
.PHONY: postgresql-answers-test
postgresql-answers-test: tools ## Answers to random SQL against PostgreSQL's (one minute)
	$(BUILD)
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks postgresql

# CLUSTER takes the options of `python3 -m checks.cluster --help` in crates/sqlfuzz, for instance Served. COSCAN_REQUIRE_ALL=1 as above.
.PHONY: cluster-test
cluster-test: tools ## Statements on clusters of workers, which fail, against one process and DuckDB (two minutes)
	$(BUILD)
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.cluster $(CLUSTER)

# Go builds the S3 server, which takes ten minutes the first time.
.PHONY: s3-test
s3-test: tools ## Queries over a real S3 server with TLS, which stands still, dies and gets other objects (half a minute)
	$(BUILD)
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.s3

# Writers and readers from Python come into an environment below the target directory. FILES takes the options of
# `python3 -m checks.files --help` in crates/sqlfuzz, for instance --seeds 0..10000.
.PHONY: files-test
files-test: tools ## Answers over Parquet files of other writers, also with changed footers, against other readers' (two minutes)
	$(BUILD)
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.files $(FILES)

# LAKE takes the options of `python3 -m checks.lake --help` in crates/sqlfuzz, for instance --seeds 0..10000. As root, PostgreSQL,
# a JDK and Maven are installed if they are missing: catalogs of tables are in a database, and behind Apache's own server.
.PHONY: lake-test
lake-test: tools ## Answers over drawn tables of lake formats of other writers, and over their catalogs (two minutes)
	$(BUILD)
	$(call install,$(POSTGRESQL) $(CLIENTS))
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.lake $(LAKE)
	@cd crates/sqlfuzz && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.lake.catalogs

# As root, clients that are missing are installed: psql, and a JDK with Maven for pgJDBC. Those from Python come into an
# environment below the target directory. COSCAN_REQUIRE_ALL=1 makes what is still missing a failure.
serve-test: tools ## Tests of coscan serve with real clients and hostile ones (two minutes)
	$(BUILD)
	$(call install,$(CLIENTS))
	@cd crates/server && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks

# SERVE_LOAD takes the options of `python3 -m checks.load --help` in crates/server, for instance --minutes 30.
.PHONY: serve-load
serve-load: tools ## Sixty-four clients on coscan serve with faults: clients killed, files replaced, a store that stalls (10 minutes)
	$(BUILD)
	@cd crates/server && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.load $(SERVE_LOAD)

# SERVE_DEMO takes the options of `python3 -m checks.demo --help` in crates/server, for instance --clients 8.
serve-demo: tools ## A server over TPC-H with the clients of a dashboard, with sharing and without (3 minutes after the build)
	$(BUILD)
	@mkdir -p $(DATA)
	$(COSCAN) generate tpch --scale-factor 1 --tables lineitem --out $(DATA)/serve-demo
	@cd crates/server && CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) python3 -m checks.demo \
		--data $(abspath $(DATA))/serve-demo $(SERVE_DEMO)

doc: tools ## API documentation, without warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --release --workspace --no-deps

# What cargo gets for the wheel, which is built in the profile of the program.
BUILD_OPTIONS ?= --locked --release

# The package's environment and its wheel are below the target directory. PYTEST goes to pytest.
.PHONY: python
python: tools ## The Python package: its wheel, types, tests and examples (four minutes after the build)
	@if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR)) BUILD_OPTIONS="$(BUILD_OPTIONS)" python3 python/build.py $(PYTEST); else \
		echo "left out, the Python package: Python 3.11 or newer is missing"; [ "$$COSCAN_REQUIRE_ALL" != 1 ]; fi

# COSCAN_REQUIRE_ALL=1 makes a browser that is missing a failure. SHOTS=FOLDER keeps pictures.
PAGE_VENV = $(CARGO_TARGET_DIR)/page-venv
.PHONY: serve-page-test
serve-page-test: tools ## The live page of coscan serve in headless Chromium (3 minutes)
	$(BUILD)
	@test -x $(PAGE_VENV)/bin/python || { python3 -m venv $(PAGE_VENV) && $(PAGE_VENV)/bin/pip install --quiet playwright; }
	$(call install,$(BROWSER))
	@$(PAGE_VENV)/bin/python crates/server/checks/page.py --coscan $(COSCAN) $(if $(SHOTS),--shots $(SHOTS))

tools:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is missing ($${CC:-cc}): compression and TLS need one; install gcc or clang (apt-get install build-essential)" >&2; exit 1; }
