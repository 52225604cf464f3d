# The same pattern for every command: a private environment, then the job.
# Needs Python >= 3.11, make and PyPI; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
# Most modules of the libraries are never imported; those that are get compiled when they are.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.PHONY: demo test lint format docs package bench lowest audit clean

demo: $(VENV)/.installed
	$(BIN)/proptrain demo --out report.html

# One process more than most machines here have cores: the cluster's tests mostly wait. Tests of a file
# share what one of them compiles or fits; in the order of files, the cluster's longest begins early.
test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pages, into site/. A broken link or a name that is not there is an error.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# sdist and wheel, into dist/, and the wheel tried out in an empty environment elsewhere.
package: $(VENV)/.installed-dev
	$(BIN)/python tools/check_package.py --out dist

# Hours on a machine that has nothing else to do; peers are given its cores too. What is in the file
# is not measured again: remove it to begin anew.
bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks --out benchmarks/times.jsonl --plot benchmarks/growth.svg
	$(BIN)/proptrain bench --show benchmarks/times.jsonl

# The lowest versions that pyproject.toml allows, in an environment of their own. Old packages warn
# about newer ones that they are used with; that is not ours to mend, so warnings are no errors here.
lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(LOWEST)/numba $(LOWEST)/bin/python -m pytest \
		-W default -n 2 tests/contract tests/unit

# Known holes in the installed packages. Fails as well if the advisories cannot be reached, for then
# nothing was checked; ALLOW_UNCHECKED=1 says so and goes on.
audit: $(VENV)/.installed-dev $(VENV)-audit/.installed
	$(VENV)-audit/bin/python tools/audit_packages.py $(if $(ALLOW_UNCHECKED),--go-on) \
		$(wildcard $(VENV)/lib/python3*/site-packages)

clean:
	rm -rf $(VENV) $(LOWEST) $(VENV)-audit report.html dist site

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "proptrain needs Python >= 3.11; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[bench]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints-lowest.txt -e '.[dev]'
	@touch $@

$(VENV)-audit/.installed:
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit && \
		touch $@ || echo "pip-audit cannot be installed here."
