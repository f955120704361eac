# The single list of commands: people and CI call nothing else.
# What is downloaded or built once (the real Kubernetes, the Python packages, cargo-deny) is kept outside
# of the tree, in $(CACHE).

SHELL := /bin/bash
CACHE := $(or $(KOPF_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/kopf,$(HOME)/.cache/kopf))
TOOLS := $(CACHE)/tools
CARGO_DENY_VERSION := 0.20.2

.DEFAULT_GOAL := help
.PHONY: help demo test e2e lint wheel fmt bench chaos conformance extended need-cargo need-cargo-deny

help: ## Show this list
	@echo "make demo   shows an operator at work on a sandbox, and stays up to be played with, until Ctrl-C"
	@echo "            (with ONCE=1, it ends when all is told)"
	@echo "make test   runs all tests which need no cluster: of the API, of operators, of examples, of the Python package"
	@echo "            (needs Python 3.11+)"
	@echo "make e2e    runs the same, kubectl and the Python client on a real Kubernetes as well"
	@echo "            (needs Go and Python 3.9+; the first time, Kubernetes is built: some ten minutes)"
	@echo "make lint   checks formatting, clippy, dependencies, directions between crates, import circles, forbidden text"
	@echo "            (the first time, cargo-deny is built: some minutes)"
	@echo "make chaos  kills an operator again and again amid faults, for some minutes, and looks for what is lost"
	@echo "            (SEED=… repeats a run, LENGTH=… is its length in seconds)"
	@echo "make conformance  runs Kubernetes' own specs that need no nodes on sandboxes"
	@echo "            (needs Go and Python 3.10+; the first time about 30 minutes, then 15; ONLY=… selects specs by a regular"
	@echo "            expression; SERVER=control-plane runs them on a real Kubernetes; OTHERS=1 runs integration tests of"
	@echo "            controller-runtime and kube-rs instead)"
	@echo "make extended  runs the checks that take too long for every change: 200 kills of a sandbox, larger bounds of the model,"
	@echo "            20 seeds of chaos"
	@echo "            (SEEDS=… and LENGTH=… change the number of seeds and their seconds; about 45 minutes)"
	@echo "make wheel  builds the Python package into target/wheels, and tries it in a new environment"
	@echo "make fmt    formats the code"
	@echo "make bench  measures the sandbox next to kube-apiserver and etcd, and an operator next to the original"
	@echo "            and to kube-rs (needs Go and Python 3.10+; the first time some 30 minutes, then 15)"
	@echo
	@echo "Kept between runs, outside of the tree: $(CACHE)"

need-cargo:
	@command -v cargo >/dev/null || { \
		echo "error: 'cargo' is not found: install Rust from https://rustup.rs" >&2; exit 1; }

need-cargo-deny: need-cargo
	@"$(TOOLS)/bin/cargo-deny" --version 2>/dev/null | grep -qx "cargo-deny $(CARGO_DENY_VERSION)" || { \
		echo "Installing cargo-deny $(CARGO_DENY_VERSION) into $(TOOLS): it takes some minutes, once…"; \
		cargo install --quiet --locked --root "$(TOOLS)" cargo-deny@$(CARGO_DENY_VERSION); }

demo: need-cargo
	@echo "Building the kopf command (the first time, with all it depends on: some two minutes)…"
	@cargo run --quiet --bin kopf -- demo $(if $(ONCE),--once)

test: need-cargo
	@echo "All tests; the API behaviour suite runs against the sandbox in process…"
	cargo test --workspace --no-fail-fast
	@echo "The behaviour suite of operators with a front in another thread…"
	KOPF_TEST_FRONT=foreign cargo test --package kopf-tests --test handling
	@echo "The API behaviour suite against the sandbox over TLS…"
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
	@echo "Directions between crates, import circles, forbidden text…"
	cargo run --quiet --package xtask -- check

wheel: need-cargo
	@echo "Licence texts of the linked crates…"
	@cargo run --quiet --package xtask -- notices kopf-python > THIRD-PARTY.txt
	@echo "Building the wheel with optimisation (some minutes)…"
	@KOPF_CACHE="$(CACHE)" python/wheel.sh

fmt: need-cargo
	cargo fmt --all

chaos: need-cargo
	@echo "Building…"
	@cargo build --quiet --package kopf-chaos
	@cargo run --quiet --package kopf-chaos -- $(if $(SEED),--seed $(SEED)) \
		$(if $(LENGTH),--seconds $(LENGTH))

conformance: need-cargo
	@echo "Building the kopf command…"
	@cargo build --quiet --package kopf-cli
	@KOPF_CACHE="$(CACHE)" KOPF="$${CARGO_TARGET_DIR:-target}/debug/kopf" OTHERS="$(OTHERS)" tests/conformance/run.sh \
		--server $(or $(SERVER),sandbox) $(if $(ONLY),--only '$(ONLY)')

extended: need-cargo
	@echo "A sandbox that is killed 200 times…"
	KOPF_TEST_KILLS=$(or $(KILLS),200) cargo test --release --package kopf-sandbox --test durability
	@echo "Model checking with larger bounds…"
	KOPF_MODEL_DEPTH=deep cargo test --release --package kopf-core --test model -- --nocapture
	@echo "Chaos…"
	@cargo build --quiet --package kopf-chaos
	@for number in $$(seq $(or $(SEEDS),20)); do \
		seed=$$RANDOM$$RANDOM; echo "Seed $$seed ($$number of $(or $(SEEDS),20))"; \
		cargo run --quiet --package kopf-chaos -- --seed $$seed --seconds $(or $(LENGTH),100) || exit 1; \
	done

bench: need-cargo
	@echo "Building with optimisation (some ten minutes, once)…"
	@cargo build --quiet --release --package kopf-cli --package kopf-benches --package kopf-python
	@# Not in our workspace, but beside our programs.
	@cargo build --quiet --release --manifest-path benches/contestants/kube-rs/Cargo.toml \
		--target-dir "$${CARGO_TARGET_DIR:-target}"
	@echo "Measuring: some 15 minutes, and any other load spoils it…"
	@# A thousand watchers are a thousand connections.
	@ulimit -n "$$(ulimit -Hn)" && KOPF_CACHE="$(CACHE)" cargo run --quiet --release --bin kopf-benches
