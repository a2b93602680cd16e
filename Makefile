# Every target builds what it needs: a fresh clone wants only Python 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLUGINS := $(wildcard plugins/*/pyproject.toml)
STAMP := $(VENV)/.installed
WORKERS ?= 5

.PHONY: demo test races lint docs picture pictures bench bench-against peers soak fuzz mutants real-agents catalog schema schema-names \
	userlands slurm podman docker systemd place-kills editors acp-sdk acp-jupyter acp-emacs acp-neovim acp-marimo acp-tck acp-kills browser serve-ai serve-fuzz serve-load install-test datasette clean

demo: $(STAMP)
	@$(BIN)/python -m tests.demo

# Compiled first: thousands of programs are started, and none of them should compile agh for itself.
# Five workers keep two cores busy; with eight the suite takes longer.
test: $(STAMP)
	@$(BIN)/python -m compileall -q agh plugins
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q $(ARGS)

# The suite twice: with keepers that write their metadata late, and with processes that start and exit late.
races: $(STAMP)
	@$(BIN)/python -m compileall -q agh plugins
	for mode in metadata processes; do LATE=$$mode PYTHONPATH=$(CURDIR)/tests/support/late \
		$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q $(ARGS) || exit 1; done

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/python -m tools

picture: $(STAMP)
	$(BIN)/python -m tools.picture

# docs/pictures, light and dark; ARGS=list makes only those whose names begin so. The page needs Debian's chromium.
pictures: $(STAMP)
	$(BIN)/python -m pip install -q --group browser
	$(BIN)/python -m tools.pictures $(ARGS)

# AGH_SOAK_MINUTES (60) are shared out among the tests that try a fault again and again.
soak: $(STAMP)
	AGH_SOAK=full $(BIN)/python -m pytest -n 2 --dist worksteal -q -rP -m soak tests/faults tests/plugins/acp tests/sessions $(ARGS)
	AGH_SOAK=full $(BIN)/python -m pytest -n 2 --dist worksteal -q -rP tests/plugins/council/test_boundaries.py

# 100,000 spoiled messages and 2,000 spoiled handshakes; the suite has a share of them.
fuzz: $(STAMP)
	AGH_FUZZ=full $(BIN)/python -m pytest -n 2 -q -rP -o addopts="-ra --strict-markers" tests/faults/test_fuzz.py $(ARGS)

# Every deliberate breakage in tests/mutants must be caught by the tests it names.
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants $(ARGS)

# Writes docs/agents.md, from this run; build/agents has the frames of each product.
real-agents: $(STAMP)
	rm -rf build/agents
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -o addopts="-ra --strict-markers" tests/real_agents $(ARGS); \
		status=$$?; $(BIN)/python -m tests.real_agents.table; exit $$status

# Every package of the bundled list of agents, as npm and PyPI have it; one of each is installed and started.
catalog: $(STAMP)
	$(BIN)/python -m pip install -q --group catalog
	$(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/real_packages/test_catalog.py $(ARGS)

# The newest schema of ACP, from npm: whether every frame that agh and its echo agent send is valid, and whether
# docs/acp.md has a word for every name. The frames are those of tests/interop and of the live sessions.
SDK := build/acp/package/schema/v1

schema: $(STAMP) $(SDK)
	$(BIN)/python -m pip install -q --group schema
	$(BIN)/python -m tests.support.acp_schema compare $(SDK)
	ACP_SCHEMA=$(CURDIR)/$(SDK) $(BIN)/python -m pytest -q -n 2 tests/interop $(ARGS)
	rm -rf build/acp/frames && mkdir -p build/acp/frames
	ACP_RECORD=$(CURDIR)/build/acp/frames PYTHONPATH=$(CURDIR)/tests/support/acp_record \
		$(BIN)/python -m pytest -q -n 2 $(or $(FLOWS),tests/sessions) $(ARGS)
	$(BIN)/python -m tests.support.acp_schema check $(SDK) build/acp/frames

schema-names: $(STAMP) $(SDK)
	$(BIN)/python -m tests.support.acp_schema names $(SDK) > tests/interop/acp_names.json

.PHONY: $(SDK)
$(SDK):
	rm -rf build/acp/package && mkdir -p build/acp
	cd build/acp && tar xzf "$$(npm pack --silent @agentclientprotocol/sdk@latest)"

# Two busyboxes for the tests of places, from Debian's packages and sources.
userlands:
	.ci/userlands

# Real engines and daemons, started for the tests; as root, with Debian's packages. See docs/places.md.
PLACES := $(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/real_places

slurm: $(STAMP) userlands
	$(PLACES)/test_slurm*.py $(ARGS)

podman docker: $(STAMP) userlands
	$(PLACES)/test_containers.py -k $@ $(ARGS)

# In a container of podman that runs systemd.
systemd: $(STAMP)
	$(BIN)/python -m tests.real_places.systemd $(PLACES)/test_systemd.py $(ARGS)

# Kills of client, keeper and leash in busybox containers: make place-kills ROUNDS=100
place-kills: $(STAMP) userlands
	AGH_KILLS=$(or $(ROUNDS),100) $(PLACES)/test_kills.py -rP $(ARGS)

# With the Node that acpx wants: under an older one npm would choose an acpx as old as that.
peers:
	mkdir -p build/peers && cd build/peers && npm install --no-fund --no-audit node@24 && \
		PATH="$$PWD/node_modules/.bin:$$PATH" npm install --no-fund --no-audit acpx@latest

# What others see of `agh acp`: acpx and the TypeScript SDK from npm, the Python SDK, Jupyter's client, and the
# newest schema of ACP.
EDITORS := $(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/plugins/acp/outside

editors: $(STAMP) $(SDK) peers acp-sdk acp-jupyter
	$(BIN)/python -m pip install -q --group schema
	ACP_SCHEMA=$(CURDIR)/$(SDK) $(BIN)/python -m pytest -q -n 2 tests/plugins/acp $(ARGS)
	$(EDITORS)/test_acpx.py $(ARGS)

# The clients of both SDKs, on stdio, over WebSocket and over HTTP, and the bridge that marimo needs.
acp-sdk: $(STAMP)
	npm install --silent --no-audit --no-fund --prefix $(VENV)/acp-sdk @agentclientprotocol/sdk@latest zod ws stdio-to-ws
	$(BIN)/python -m pip install -q 'agent-client-protocol[http]>=0.12,<0.13'
	$(EDITORS)/test_typescript.py $(addprefix tests/plugins/acp/outside/,test_python_web.py test_bridge.py) $(ARGS)

acp-jupyter: $(STAMP)
	$(PYTHON) -m venv $(VENV)/jupyter && $(VENV)/jupyter/bin/python -m pip install -q jupyter-ai-acp-client
	$(EDITORS)/test_jupyter.py $(ARGS)

# acp.el, the library of agent-shell, in Debian's emacs: make acp-emacs ACP_EL=DIRECTORY
acp-emacs: $(STAMP)
	@test -e "$(ACP_EL)/acp.el" || { echo "Name a checkout of github.com/xenodium/acp.el: make $@ ACP_EL=DIRECTORY"; exit 2; }
	@command -v emacs >/dev/null || { echo "Install Emacs: apt-get install emacs-nox"; exit 2; }
	ACP_EL=$(abspath $(ACP_EL)) $(EDITORS)/test_emacs.py $(ARGS)

# codecompanion.nvim in Neovim: make acp-neovim CODECOMPANION=DIRECTORY PLENARY=DIRECTORY NVIM=PROGRAM
NVIM ?= nvim
acp-neovim: $(STAMP)
	@test -d "$(CODECOMPANION)/lua/codecompanion" -a -d "$(PLENARY)/lua/plenary" || { echo "Name checkouts of \
	github.com/olimorris/codecompanion.nvim and github.com/nvim-lua/plenary.nvim: make $@ CODECOMPANION=DIRECTORY \
	PLENARY=DIRECTORY"; exit 2; }
	@"$(NVIM)" --clean --headless +'lua vim.cmd(vim.fn.has("nvim-0.11") == 1 and "qa" or "cq")' 2>/dev/null || { echo \
	"codecompanion.nvim needs Neovim 0.11 or newer, which Debian 12 does not have: make $@ NVIM=PROGRAM …"; exit 2; }
	NVIM=$(NVIM) CODECOMPANION=$(abspath $(CODECOMPANION)) PLENARY=$(abspath $(PLENARY)) $(EDITORS)/test_neovim.py $(ARGS)

# marimo's page in Debian's chromium, over the bridge that agh's settings for marimo name.
acp-marimo: $(STAMP)
	@command -v chromium >/dev/null || { echo "Install Chromium: apt-get install chromium"; exit 2; }
	npm install --silent --no-audit --no-fund --prefix $(VENV)/acp-sdk stdio-to-ws
	$(PYTHON) -m venv $(VENV)/marimo && $(VENV)/marimo/bin/python -m pip install -q marimo
	$(BIN)/python -m pip install -q --group browser
	$(EDITORS)/test_marimo.py $(ARGS)

# acp-tck, an independent test suite for agents, run from its sources: make acp-tck ACP_TCK=DIRECTORY
acp-tck: $(STAMP)
	@test -d "$(ACP_TCK)/src/tck/v1" || { echo "Name a checkout of github.com/agentclientprotocol/acp-tck: make $@ ACP_TCK=DIRECTORY"; exit 2; }
	$(PYTHON) -m venv $(VENV)/tck && $(VENV)/tck/bin/python -m pip install -q jsonschema pytest
	ACP_TCK=$(abspath $(ACP_TCK)) $(EDITORS)/test_tck.py $(ARGS)

# Random kills of editor, `agh acp`, keeper and agent: make acp-kills ROUNDS=1000
acp-kills: $(STAMP)
	AGH_KILLS=$(or $(ROUNDS),1000) $(BIN)/python -m pytest -q -n 3 -rP tests/plugins/acp/test_kills.py $(ARGS)

# What a browser (Debian's chromium), the npm package `ai`, schemathesis and many followers see of `agh serve`.
OUTSIDE := $(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/plugins/serve/outside

browser: $(STAMP)
	$(BIN)/python -m pip install -q --group browser
	$(OUTSIDE)/test_browser.py $(ARGS)

serve-ai: $(STAMP)
	npm install --silent --no-audit --no-fund --prefix $(VENV)/ai ai5@npm:ai@5 ai6@npm:ai@6
	$(OUTSIDE)/test_ai_reader.py $(ARGS)

serve-fuzz: $(STAMP)
	$(PYTHON) -m venv $(VENV)/schemathesis && $(VENV)/schemathesis/bin/python -m pip install -q schemathesis
	$(OUTSIDE)/test_schemathesis.py --timeout 300 $(ARGS)

serve-load: $(STAMP)
	$(OUTSIDE)/test_load.py --timeout 300 $(ARGS)

# Datasette shows what `agh db build` made.
datasette: $(STAMP)
	$(PYTHON) -m venv $(VENV)/datasette && $(VENV)/datasette/bin/python -m pip install -q datasette
	$(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/interop/outside/test_datasette.py $(ARGS)

# A real notification daemon (python-dbusmock, on a bus of its own) gets what agh sends to the desktop.
desktop: $(STAMP)
	$(BIN)/python -m pip install -q --no-deps --target $(VENV)/dbusmock python-dbusmock
	$(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/interop/outside/test_desktop.py $(ARGS)

# Every documented way to install agh, in fresh environments, from an index on this machine.
install-test: $(STAMP)
	$(PYTHON) -m venv $(VENV)/install && $(VENV)/install/bin/python -m pip install -q --upgrade pip
	$(VENV)/install/bin/python -m pip install -q --group install
	$(BIN)/python -m pytest -q -o addopts="-ra --strict-markers" tests/install/full --timeout 600 $(ARGS)

bench: $(STAMP)
	$(BIN)/python -m tests.bench --json docs/bench.json $(ARGS)
	$(BIN)/python -m tests.bench.table docs/bench.json docs/benchmarks.md

# Row by row in turn with another checkout: make bench-against TREE=../agh-before
bench-against: $(STAMP)
	$(BIN)/python -m tests.bench.against $(TREE) $(ARGS)

# Without setuptools, which nothing here needs: its .pth file makes `agh list` take 49 ms instead of 43.
$(STAMP): pyproject.toml $(PLUGINS)
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[all]' --group dev
	@$(BIN)/python -m pip uninstall -q -y setuptools
	@$(BIN)/python -m compileall -q agh plugins
	@touch $@

clean:
	rm -rf $(VENV)
