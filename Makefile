# Every target sets up what it needs first; a second run finds it in the cache.
PYTHON ?= python3
VENV := .venv/bin
JOBS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup test conformance demo figures sensor lint clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## virtual environment, interpreters and broker, without root
	@$(PYTHON) tools/setup.py

test: setup  ## the whole suite on every runtime (ARGS="-k journal" for a part)
	$(VENV)/python -m pytest -n $(JOBS) $(ARGS)

conformance: setup  ## which test proves which statement of MQTT 3.1.1 and 3.1
	@$(VENV)/python tools/conformance.py -n $(JOBS) --dist=loadgroup $(ARGS)

DEVICES ?= 20
DURATION ?= 30
QOS ?= 1,2

demo: setup  ## a fleet under power cuts (DEVICES=20 DURATION=30 QOS=1,2)
	@$(VENV)/python tools/demo.py --devices $(DEVICES) --duration $(DURATION) --qos "$(QOS)" $(ARGS)

figures: setup  ## what the client costs, on 32-bit MicroPython
	@$(VENV)/python tools/figures.py

sensor: setup  ## this machine as a sensor (CONFIG=config.json)
	@$(VENV)/python tools/sensor.py "$(CONFIG)"

lint: setup  ## ruff
	$(VENV)/ruff check .

clean:  ## the virtual environment and what tests leave behind; the cache stays
	rm -rf .venv .pytest_cache .ruff_cache build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
