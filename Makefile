# Everything a person or a CI job does here has one name. `make` alone lists the names.

SHELL := /bin/bash

# Where `make run` keeps its ledger and its token, and where it listens.
DATA_DIR ?= ./bowline-data
LISTEN   ?= 127.0.0.1:7420

# Cargo's own variable wins, so that a build directory elsewhere works for every target.
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help run test mutants fmt lint audit bench clean need-cargo

help: ## list what make can do here
	@echo "Bowline. Start with 'make run'; before a commit, 'make test'."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  variables of 'make run': DATA_DIR=$(DATA_DIR)  LISTEN=$(LISTEN)"

run: need-cargo ## build Bowline and serve it with a demonstration (DATA_DIR, LISTEN)
	cargo build --release --locked -p bowline
	@exec "$(TARGET_DIR)/release/bowline" serve --demo --data-dir "$(DATA_DIR)" --listen "$(LISTEN)"

test: need-cargo ## format check, clippy, every test on SQLite and on PostgreSQL
	@scripts/test.sh

mutants: need-cargo ## put small bugs into a sample of the code and see whether tests notice (SEED, SAMPLE, MINUTES)
	@scripts/mutants.sh

fmt: need-cargo ## format the code
	cargo fmt --all

lint: need-cargo ## clippy over everything, warnings denied
	cargo clippy --workspace --all-targets --locked -- -D warnings

audit: need-cargo ## licences, bans, sources and known vulnerabilities of the dependencies; writes sbom/
	@scripts/audit.sh

bench: need-cargo ## measure Bowline beside the raw ceiling of this machine
	@scripts/bench.sh

clean: need-cargo ## remove build results; the data directory stays
	cargo clean

need-cargo:
	@command -v cargo >/dev/null || { \
	  echo "cargo was not found. Bowline is built with the stable Rust toolchain."; \
	  echo "Install it with:  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
	  echo "then open a new shell, or run:  . \"\$$HOME/.cargo/env\""; \
	  exit 1; } >&2
	@command -v cc >/dev/null || { \
	  echo "A C compiler was not found; the bundled SQLite needs one."; \
	  echo "Install it with:  sudo apt-get install build-essential"; \
	  exit 1; } >&2
