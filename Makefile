# ldaptune. A machine with git and make is enough (Debian 12 or newer, as root); what is missing is installed on the
# way and named before. Settings of package registries are the machine's own and never in here.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.NOTPARALLEL:
.PHONY: help tune test lint lab lab-down docs bench cleanroom bed-up bed-down bed-clean bed-test setup setup-dev packages
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
# More arguments for the two commands, for instance: make tune TUNE_ARGS=--check
TUNE_ARGS ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=

# Ansible refuses to start without a UTF-8 locale; a bare system sets none.
export LC_ALL := C.UTF-8
# Named, because Ansible ignores an ansible.cfg it finds by itself in a directory others may write to.
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PIP_DISABLE_PIP_VERSION_CHECK := 1

help:
	@cat <<'END'
	make tune       tune the lab's slapd with the lab's profile and prove the gain
	make test       all checks and tests
	make lint       the checks alone
	make lab        start the lab: a slapd of our own on loopback
	make lab-down   stop the lab and remove its files
	make docs       write docs/levers.md from the lever table
	make bench      measure what the probe costs, beside a bare C loop and ldap3, and write docs/performance.md
	make bed-up     start three hosts with systemd, sshd and slapd and a load generator (tests/beds/README.md)
	make bed-down   end them; make bed-clean removes their Debian tree as well
	make bed-test   playbooks on those hosts: over ssh, through systemd, over a reboot
	make cleanroom  run make tune and make test in a bare Debian 12 tree
	END

tune: setup lab
	@mark=$$(mktemp)
	trap 'rm -f "$$mark"' EXIT
	status=0
	$(VENV)/bin/ansible-playbook tune.yml -l ldaphosts $(TUNE_ARGS) || status=$$?
	# A run that had nothing to change measures nothing, and so has no verdict.
	run=$$(find runs -name verdict.json -newer "$$mark" -printf '%T@ %h\n' 2>/dev/null | sort -n | tail -n 1 | cut -d' ' -f2-) || true
	if [ -n "$$run" ]; then
	    verdict=0
	    $(PY) bin/ldaptune-verdict "$$run" || verdict=$$?
	    [ "$$verdict" -eq 0 ] || exit "$$verdict"
	fi
	exit "$$status"

# The long tests come first (tests/conftest.py), and one test at a time goes to whichever worker is free.
test: setup-dev lint
	@$(PY) -m pytest -n 2 --dist load --maxschedchunk 1 --durations=15 -m 'not alone and not bed' $(PYTEST_ARGS)
	$(PY) -m pytest -m alone $(PYTEST_ARGS)

lint: setup-dev
	@echo 'lint: yamllint, ansible-lint, ruff, mypy, vermin, ansible-doc'
	export PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
	yamllint --strict .
	ansible-lint -q
	ruff check -q
	mypy
	vermin -q -t=3.8- --no-tips --violations library module_utils
	ansible-doc -t module $(patsubst library/%.py,%,$(wildcard library/*.py)) > /dev/null
	for role in roles/*/; do
	    ansible-doc -t role -r roles "$$(basename "$$role")" | grep -q . || { echo "$$role has no argument_specs"; exit 1; }
	done

lab: setup
	@$(VENV)/bin/ansible-playbook playbooks/lab.yml

lab-down: setup
	@$(VENV)/bin/ansible-playbook playbooks/lab.yml -e lab_state=down

docs: setup
	@$(PY) docs/make_levers.py

bench: setup-dev
	@$(PY) tests/bench/bench.py --write docs/performance.md $(BENCH_ARGS)

# Some minutes; the bed must not be up already.
bed-test: setup-dev
	$(PY) -m pytest -m bed $(PYTEST_ARGS)

bed-up bed-down bed-clean: setup
	@$(PY) tests/beds/hosts/bed.py $(patsubst bed-%,%,$@)

cleanroom:
	@bash tests/cleanroom/run

setup: $(VENV)/.run
setup-dev: $(VENV)/.dev

$(VENV)/.run: requirements.txt constraints.txt | packages
	@python=; for name in python3 /usr/bin/python3; do
	    if $$name -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then python=$$name; break; fi
	done
	[ -n "$$python" ] || { echo "ldaptune's controller needs Python 3.11 or newer with venv" >&2; exit 1; }
	echo "Making $(VENV) with $$(grep -v '^#' requirements.txt | tr '\n' ' ')"
	$(PY) -c '' 2> /dev/null || $$python -m venv --clear $(VENV)
	$(PY) -m pip install -qq -r requirements.txt -c constraints.txt
	touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.run
	@echo "Adding to $(VENV) for the tests: $$(grep -v '^#' requirements-dev.txt | tr '\n' ' ')"
	$(PY) -m pip install -qq -r requirements-dev.txt -c constraints.txt
	# slapd's SASL PLAIN, ethtool for a device of the kernel's own, filesystems on loop devices: tests that need them.
	wanted=()
	ls /usr/lib/*/sasl2/libplain.so* > /dev/null 2>&1 || wanted+=(libsasl2-modules)
	PATH="$$PATH:/usr/sbin:/sbin" command -v ethtool > /dev/null || wanted+=(ethtool)
	PATH="$$PATH:/usr/sbin:/sbin" command -v mkfs.xfs > /dev/null || wanted+=(xfsprogs)
	PATH="$$PATH:/usr/sbin:/sbin" command -v mkfs.btrfs > /dev/null || wanted+=(btrfs-progs)
	if [ "$${#wanted[@]}" -gt 0 ] && command -v apt-get > /dev/null && [ "$$(id -u)" -eq 0 ]; then
	    echo "Installing with apt: $${wanted[*]}"
	    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$${wanted[@]}" > /dev/null
	fi
	touch $@

# What the system must give: Python 3.11 with venv, slapd and its tools. An installed slapd is never touched, whatever
# its configuration; one we install gets none and is not started.
packages:
	@python_works() { "$$1" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; }
	missing=()
	python_works python3 || python_works /usr/bin/python3 || missing+=(python3 python3-venv)
	export PATH="$$PATH:/usr/sbin:/sbin"
	slapd=no
	command -v slapd > /dev/null || { slapd=yes; missing+=(slapd); }
	command -v ldapsearch > /dev/null || missing+=(ldap-utils)
	[ "$${#missing[@]}" -gt 0 ] || exit 0
	echo "Installing with apt: $${missing[*]}"
	if ! command -v apt-get > /dev/null || [ "$$(id -u)" -ne 0 ]; then
	    echo "This needs root and apt. Install them by hand (slapd, slapadd, ldapsearch, Python 3.11 with venv) and try again." >&2
	    exit 1
	fi
	if [ "$$slapd" = yes ]; then
	    if [ -e /etc/ldap/slapd.d ] || [ -e /etc/ldap/slapd.conf ]; then
	        echo "slapd is not installed, but a configuration of it is in /etc/ldap: installing would bring that server back." >&2
	        echo "Install slapd yourself, or move the configuration away, and try again." >&2
	        exit 1
	    fi
	    echo "slapd slapd/no_configuration boolean true" | debconf-set-selections
	    if [ ! -e /usr/sbin/policy-rc.d ]; then
	        # Debian's way to keep a package from starting its service; only while we install.
	        printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
	        chmod 755 /usr/sbin/policy-rc.d
	        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	    fi
	fi
	export DEBIAN_FRONTEND=noninteractive
	install() { apt-get install -q -y --no-install-recommends "$${missing[@]}" > "$$log" 2>&1; }
	log=$$(mktemp)
	install || { apt-get update -q >> "$$log" 2>&1 && install; } || { cat "$$log" >&2; exit 1; }
	rm -f "$$log"
