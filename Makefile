# All commands for developers and CI. Downloads and one-time builds (Kubernetes, Python packages, cargo-deny) are
# cached outside of the tree, in $(CACHE).

SHELL := /bin/bash
CACHE := $(or $(KOPF_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/kopf,$(HOME)/.cache/kopf))
TOOLS := $(CACHE)/tools
CARGO_DENY_VERSION := 0.20.2
MDBOOK_VERSION := 0.5.4
CARGO_FUZZ_VERSION := 0.13.1

.DEFAULT_GOAL := help
.PHONY: help demo test e2e lint advisories docs wheel fmt fuzz bench bench-instructions bench-million chaos conformance extended features languages release release-check need-cargo need-cargo-deny need-mdbook

help: ## Show this list
	@echo "make demo   runs an operator on a sandbox, step by step, until Ctrl-C (ONCE=1 exits after the last step)"
	@echo "make test   runs all tests that need no cluster: of the API, of operators, of examples, of the Python package"
	@echo "            (needs Python 3.11+)"
	@echo "make e2e    runs the same tests, kubectl and the Python client on a real Kubernetes"
	@echo "            (needs Go and Python 3.9+; the first run builds Kubernetes: about 10 minutes)"
	@echo "make lint   checks formatting, clippy, dependencies, directions between crates, import cycles, links, forbidden text"
	@echo "            (the first run builds cargo-deny: a few minutes)"
	@echo "make advisories  checks dependencies for known vulnerabilities (downloads their newest database)"
	@echo "make docs   builds the guide into target/book, with the documentation of the crates and of the Python API,"
	@echo "            and checks the links of all Markdown files (the first run builds mdBook: a few minutes)"
	@echo "make chaos  kills an operator repeatedly under injected faults for a few minutes, and checks for lost work"
	@echo "            (SEED=… repeats a run, LENGTH=… sets its seconds)"
	@echo "make conformance  runs Kubernetes' own specs that need no nodes on sandboxes"
	@echo "            (needs Go and Python 3.10+; the first run takes about 30 minutes, later ones 15; ONLY=… selects specs"
	@echo "            by a regular expression; SERVER=control-plane runs them on a real Kubernetes; OTHERS=1 runs"
	@echo "            integration tests of controller-runtime and kube-rs instead)"
	@echo "make extended  runs the checks that take too long for every change: 200 kills of a sandbox, larger bounds of the model,"
	@echo "            1,000 schedules of replicas, new projects in both languages, 20 seeds of chaos, kopf ui in a headless browser,"
	@echo "            probes during outages of a real API server (OUTAGE=… sets their seconds)"
	@echo "            (SEEDS=… and LENGTH=… set the number of seeds and their seconds; about 45 minutes)"
	@echo "make fuzz   sends mutated requests to the sandbox: bodies, patches, selectors, CEL, schemas; a minute each"
	@echo "            (SECONDS_EACH=… sets the time; guided by coverage with a nightly toolchain, otherwise without)"
	@echo "make languages  runs the example tests in Go and Java on a sandbox (skipped without go or mvn)"
	@echo "make wheel  builds the Python package for this machine into target/wheels/python, and tests it in a new environment"
	@echo "make fmt    formats the code"
	@echo "make features  compiles the crates with each feature alone, and with the oldest supported Rust"
	@echo "make release  builds everything that is published into dist/: wheels, the command, images, crates, bills of"
	@echo "            materials, checksums (needs Python 3.11+, buildah, mmdebstrap and the Rust targets that it names;"
	@echo "            ARCHES=x86_64 builds for one architecture, PARTS=… some parts; about half an hour per architecture)"
	@echo "make release-check  proves the files of dist/, each by using it as its users do, and compiles the packaged crates"
	@echo "            (PARTS=… selects checks; about half an hour)"
	@echo "make bench  compares the sandbox with kube-apiserver and etcd, and an operator with the original and kube-rs"
	@echo "            (needs Go and Python 3.10+; the first run takes about 30 minutes, later ones 15)"
	@echo "make bench-instructions  counts instructions and allocations per object, event, review and call of a timer"
	@echo "            (needs Valgrind; fails if a figure exceeds the recorded one by 3 %; RECORD=1 records them)"
	@echo "make bench-million  measures an operator with 10,000, 100,000 and a million objects on a sandbox"
	@echo "            (about half an hour and 10 GB; SIZES=1000,5000 sets the numbers)"
	@echo
	@echo "Cache outside of the tree: $(CACHE)"

need-cargo:
	@command -v cargo >/dev/null || { \
		echo "error: 'cargo' not found: install Rust from https://rustup.rs" >&2; exit 1; }

need-cargo-deny: need-cargo
	@"$(TOOLS)/bin/cargo-deny" --version 2>/dev/null | grep -qx "cargo-deny $(CARGO_DENY_VERSION)" || { \
		echo "Installing cargo-deny $(CARGO_DENY_VERSION) into $(TOOLS), once (a few minutes)…"; \
		cargo install --quiet --locked --root "$(TOOLS)" cargo-deny@$(CARGO_DENY_VERSION); }

need-mdbook: need-cargo
	@"$(TOOLS)/bin/mdbook" --version 2>/dev/null | grep -qx "mdbook v$(MDBOOK_VERSION)" || { \
		echo "Installing mdBook $(MDBOOK_VERSION) into $(TOOLS), once (a few minutes)…"; \
		cargo install --quiet --locked --root "$(TOOLS)" --no-default-features --features search \
			mdbook@$(MDBOOK_VERSION); }

demo: need-cargo
	@echo "Building the kopf command (the first time, with all dependencies: about 2 minutes)…"
	@cargo run --quiet --bin kopf -- demo $(if $(ONCE),--once)

test: need-cargo
	@echo "All tests, with the API behaviour suite on the in-process sandbox…"
	@without=""; \
	"$${KOPF_TEST_PYTHON:-python3}" crates/kopf-python/library.py >/dev/null 2>&1 || { \
		without="--exclude kopf-python"; \
		echo "skipped: the tests of kopf-python in Rust, because python3 has no shared library (libpython3-dev)"; }; \
	echo "cargo test --workspace --no-fail-fast $$without"; \
	cargo test --workspace --no-fail-fast $$without
	@echo "The behaviour suite of operators with handlers in another thread…"
	KOPF_TEST_FRONT=foreign cargo test --workspace --test handling
	@echo "The API behaviour suite on the sandbox over TLS…"
	KOPF_TEST_API=sandbox-tls cargo test --workspace --test api
	@echo "The Python package and its examples (the first time, packages are installed)…"
	@KOPF_CACHE="$(CACHE)" python/test.sh

e2e: need-cargo
	@echo "The sandbox and a real Kubernetes: the API, operators, examples, kubectl, the Python client…"
	@KOPF_CACHE="$(CACHE)" tests/e2e/run.sh

lint: need-cargo-deny
	@echo "Formatting…"
	cargo fmt --all --check
	@echo "Clippy…"
	cargo clippy --workspace --all-targets -- -D warnings
	@echo "Dependencies: licences, sources, versions, bans (deny.toml)…"
	PATH="$(TOOLS)/bin:$$PATH" cargo deny --workspace check bans licenses sources
	@echo "Directions between crates, import cycles, links, forbidden text…"
	cargo run --quiet --package xtask -- check

advisories: need-cargo-deny
	@echo "Known vulnerabilities of dependencies, by the newest database…"
	PATH="$(TOOLS)/bin:$$PATH" cargo deny --workspace check advisories

docs: need-mdbook
	@echo "Links…"
	cargo run --quiet --package xtask -- links
	cargo run --quiet --package xtask -- guide
	@echo "The documentation of the crates…"
	cargo doc --quiet --workspace --no-deps --lib
	@echo "The guide…"
	docs/build.sh "$(TOOLS)/bin/mdbook" target/book
	@echo "Open target/book/index.html"

wheel: need-cargo
	@KOPF_CACHE="$(CACHE)" ARCHES="$$(uname -m)" LIBCS=gnu DIST="$(CURDIR)/target/wheels" release/build.sh python
	@KOPF_CACHE="$(CACHE)" DIST="$(CURDIR)/target/wheels" release/check.sh python

features: need-cargo
	@tests/release/features.sh

release: need-cargo
	@KOPF_CACHE="$(CACHE)" ARCHES="$(ARCHES)" release/build.sh $(PARTS)

release-check: need-cargo
	@KOPF_CACHE="$(CACHE)" release/check.sh $(PARTS)

fmt: need-cargo
	cargo fmt --all

chaos: need-cargo
	@echo "Building…"
	@cargo build --quiet --workspace --bin kopf-chaos
	@cargo run --quiet --bin kopf-chaos -- $(if $(SEED),--seed $(SEED)) \
		$(if $(LENGTH),--seconds $(LENGTH))

bench-instructions: need-cargo
	@command -v valgrind >/dev/null || { echo "error: 'valgrind' not found: install its package" >&2; exit 1; }
	@echo "Building with optimisation…"
	@cargo build --quiet --release --workspace --bin kopf-benches --bin bench-counted
	@cargo run --quiet --release --bin kopf-benches -- instructions $(if $(RECORD),--record)

bench-million: need-cargo
	@echo "Building with optimisation…"
	@cargo build --quiet --release --workspace --bin kopf --bin kopf-benches --bin bench-operator --bin bench-updates
	@cargo run --quiet --release --bin kopf-benches -- million $(if $(SIZES),--sizes $(SIZES))

conformance: need-cargo
	@echo "Building the kopf command…"
	@cargo build --quiet --workspace --bin kopf
	@KOPF_CACHE="$(CACHE)" KOPF="$${CARGO_TARGET_DIR:-target}/debug/kopf" OTHERS="$(OTHERS)" tests/conformance/run.sh \
		--server $(or $(SERVER),sandbox) $(if $(ONLY),--only '$(ONLY)')

extended: need-cargo languages
	@echo "200 kills of a sandbox…"
	KOPF_TEST_KILLS=$(or $(KILLS),200) cargo test --release --workspace --test it durability::
	@echo "Model checking with larger bounds…"
	KOPF_MODEL_DEPTH=deep cargo test --release --workspace --test model -- --nocapture
	@echo "A simulation of replicas with 1,000 seeds…"
	KOPF_SIMULATION_SEEDS=1000 cargo test --release --workspace --test replicas
	@echo "Operators with one bug each, and their twins, explored…"
	cargo test --workspace --test zoo -- --include-ignored --test-threads 2
	@echo "The example operators in both languages, explored (a quarter of an hour)…"
	@cargo build --quiet --workspace --bins
	@venv="$$(KOPF_CACHE="$(CACHE)" python/build.sh | tail -n1)" && PYTHONPATH="$$PWD/python" \
		tests/explore/examples.py "$${CARGO_TARGET_DIR:-target}/debug/kopf" "$${CARGO_TARGET_DIR:-target}/debug" \
		"$$venv/bin/python"
	@echo "A project whose only dependency is kopf…"
	@tests/outside/check.sh
	@echo "New projects in both languages, built and tested…"
	@venv="$$(KOPF_CACHE="$(CACHE)" python/build.sh | tail -n1)" && \
		PYTHONPATH="$$PWD/python" tests/scaffold.sh "$$venv/bin/python"
	@echo "Helm charts, compared with the manifests and installed on a sandbox…"
	@cargo build --quiet --workspace --bin 17-admission --bin kopf
	@venv="$$(KOPF_CACHE="$(CACHE)" python/build.sh | tail -n1)" && PYTHONPATH="$$PWD/python" KOPF_CACHE="$(CACHE)" \
		tests/helm.sh "$${CARGO_TARGET_DIR:-target}/debug/17-admission" "$$venv/bin/python" \
		"$${CARGO_TARGET_DIR:-target}/debug/kopf"
	@echo "The alerts, fired and kept silent by promtool (needs Go; the first run builds it)…"
	@KOPF_CACHE="$(CACHE)" tests/alerts.sh
	@echo "100 exits of Python operators during work…"
	@KOPF_CACHE="$(CACHE)" KOPF_TEST_EXITS=$(or $(EXITS),102) python/test.sh \
		python/tests/test_behaviour_process.py -k exits_during_work
	@echo "Liveness of operators while a real API server is frozen and gone…"
	@cargo build --quiet --workspace --bin 06-peering
	@venv="$$(KOPF_CACHE="$(CACHE)" python/build.sh | tail -n1)" && KOPF_CACHE="$(CACHE)" \
		tests/e2e/outage.sh $(or $(OUTAGE),120) "$${CARGO_TARGET_DIR:-target}/debug/06-peering" "$$venv/bin/python"
	@echo "The steps of docs/start/getting-started*.md…"
	@tests/guide/getting-started.sh
	@echo "Instructions and allocations of operators, compared with the recorded ones (needs Valgrind)…"
	@$(MAKE) --no-print-directory bench-instructions
	@echo "Chaos…"
	@cargo build --quiet --workspace --bin kopf-chaos
	@for number in $$(seq $(or $(SEEDS),20)); do \
		seed=$$RANDOM$$RANDOM; echo "Seed $$seed ($$number of $(or $(SEEDS),20))"; \
		cargo run --quiet --bin kopf-chaos -- --seed $$seed --seconds $(or $(LENGTH),100) || exit 1; \
	done
	@echo "kopf ui in a headless browser (needs Chromium)…"
	@cargo build --quiet --release --workspace --bin kopf
	@tests/browser/run.py "$${CARGO_TARGET_DIR:-target}/release/kopf"
	@echo "The page of kopf explore in a headless browser…"
	@tests/explore/page.py "$${CARGO_TARGET_DIR:-target}/release/kopf"

FUZZ_TARGETS := json yaml protobuf patch apply selectors cel schema

fuzz: need-cargo
	@if cargo +nightly --version >/dev/null 2>&1; then \
		"$(TOOLS)/bin/cargo-fuzz" --version 2>/dev/null | grep -qx "cargo-fuzz $(CARGO_FUZZ_VERSION)" || { \
			echo "Installing cargo-fuzz $(CARGO_FUZZ_VERSION) into $(TOOLS), once (a minute)…"; \
			cargo install --quiet --locked --root "$(TOOLS)" cargo-fuzz@$(CARGO_FUZZ_VERSION) || exit 1; }; \
		for target in $(FUZZ_TARGETS); do \
			echo "Fuzzing $$target for $(or $(SECONDS_EACH),60) seconds…"; \
			mkdir -p "$(CACHE)/fuzz/$$target"; \
			PATH="$(TOOLS)/bin:$$PATH" cargo +nightly fuzz run --features libfuzzer $$target \
				"$(CACHE)/fuzz/$$target" "fuzz/corpus/$$target" -- \
				-dict=fuzz/dictionaries/$$target.dict -max_total_time=$(or $(SECONDS_EACH),60) -max_len=4096 -timeout=10 -verbosity=0 || exit 1; \
		done; \
	else \
		echo "No nightly toolchain: mutations of the corpora without coverage…"; \
		for target in $(FUZZ_TARGETS); do \
			cargo run --quiet --release --manifest-path fuzz/Cargo.toml --bin smoke -- \
				$$target $(or $(SECONDS_EACH),60) || exit 1; \
		done; \
	fi

languages: need-cargo
	@echo "Building the kopf command…"
	@cargo build --quiet --workspace --bin kopf
	@kopf="$${CARGO_TARGET_DIR:-$(CURDIR)/target}/debug/kopf"; \
	if command -v go >/dev/null; then \
		echo "Go…"; \
		(cd examples/go && "$$kopf" sandbox --simulate all -- go test -count=1 ./...) || exit 1; \
	else echo "skipped: go is not installed"; fi; \
	if command -v mvn >/dev/null; then \
		echo "Java…"; \
		(cd examples/java && "$$kopf" sandbox --simulate all -- mvn --batch-mode --quiet test) || exit 1; \
	else echo "skipped: mvn is not installed"; fi

bench: need-cargo
	@echo "Building with optimisation (the first time, about 10 minutes)…"
	@cargo build --quiet --release --workspace --lib --bin kopf --bin kopf-benches --bin bench-entry \
		--bin bench-mimalloc --bin bench-operator --bin bench-raw --bin bench-reviews --bin bench-timers
	@# A separate workspace, built into the same folder.
	@cargo build --quiet --release --manifest-path benches/implementations/kube-rs/Cargo.toml \
		--target-dir "$${CARGO_TARGET_DIR:-target}"
	@echo "Measuring (about 15 minutes; other load distorts the figures)…"
	@# 1,000 watchers need 1,000 connections.
	@ulimit -n "$$(ulimit -Hn)" && KOPF_CACHE="$(CACHE)" cargo run --quiet --release --bin kopf-benches
