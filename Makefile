# What to do with a fresh clone: make demo, make test. Each target says what is missing, in one line.

.PHONY: help demo test wheel deb web artifact docs figures bench lint fuzz fuzz-build ci

help:
	@echo 'make demo    build, compare every layer on the built-in workload, write a report into out/demo/'
	@echo 'make test    every test that takes seconds; the last lines name those that were skipped'
	@echo 'make wheel   the Python package with the command and the web page, into out/wheels/'
	@echo 'make deb     the command as a package of Debian, into out/deb/'
	@echo 'make web     the page that runs the simulator in a browser, into out/web/'
	@echo 'make artifact  the studies frozen: sources, wheel, hashes of traces, every figure, into out/artifact/ (hours; SMRKIT_QUICK=1: minutes)'
	@echo 'make docs    the documentation as a site, into out/docs/'
	@echo 'make figures the figures of the documentation, drawn anew from runs, into docs/figures/'
	@echo 'make bench   the speed measurements'
	@echo 'make lint    formatting, clippy and spelling'
	@echo 'make fuzz    fuzz every target for a short while (FUZZ_SECONDS in all, 60)'
	@echo 'make ci      all that the continuous integration does (some 25 minutes on two cores, with its builds)'

demo:
	@scripts/need build
	@scripts/demo

test:
	@scripts/need build frames
	@scripts/test

wheel:
	@scripts/need build python
	@scripts/wheel

deb:
	@scripts/need build deb
	@scripts/deb

web:
	@scripts/need build web
	@scripts/web

artifact:
	@scripts/need build python
	@scripts/artifact

docs:
	@scripts/need build python docs
	@scripts/docs

figures:
	@scripts/need build frames
	cargo build --locked --release --package smrkit-cli
	@scripts/figures

bench:
	@scripts/need build
	@if [ -x scripts/bench ]; then scripts/bench; else cargo bench --locked --workspace; fi

lint:
	@scripts/need build lint
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@if [ -x out/venv/bin/typos ]; then out/venv/bin/typos; else echo 'skipped: spelling, for lack of typos'; fi

fuzz: fuzz-build
	@scripts/fuzz

fuzz-build:
	@scripts/need build fuzz
	@scripts/fuzz build

ci:
	@.ci/run
