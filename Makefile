# Every target sets up what it needs first; a second run finds it in the cache.
PYTHON ?= python3
VENV := .venv/bin
JOBS ?= 6
ARGS ?=
SETUP = @PYTHONPATH="$(CURDIR)/tools" $(PYTHON) -m tools.setup
INFLIGHT = @$(VENV)/inflight

.DEFAULT_GOAL := help
.PHONY: help setup setup-boards setup-pipeline setup-tests test test-everywhere mutants conformance crash worlds fuzz \
	test-home-assistant test-object-storage test-brokers histories soak bench bench-heap demo sensor flash deploy library monitor \
	test-pico-w test-esp32 figures-pico-w test-pipeline bench-pipeline lint release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## virtual environment, interpreters and broker, without root
	$(SETUP)

setup-boards:  ## what the commands for boards need, no more: also on macOS
	$(SETUP) boards

setup-pipeline: setup  ## Spark as well, and Java where there is none
	$(SETUP) pipeline

setup-tests: setup-pipeline  ## what only tests need, too: Chromium, promtool, the newest MicroPython, esp-web-tools, firmware images
	$(SETUP) tests web-tools firmware

test: setup-tests  ## each file on the runtimes that it names (ARGS="-k journal" for a part; INFLIGHT_TOOLS=1 adds maintainers' tools)
	$(VENV)/python -m pytest -n $(JOBS) $(ARGS)

test-everywhere: setup-tests  ## each file on the other runtimes: the emulated ARM processor and the newest MicroPython among them
	INFLIGHT_EVERYWHERE=1 $(VENV)/python -m pytest -n $(JOBS) -m long $(ARGS)

mutants: setup-tests  ## which test sees which broken promise (ARGS="--files host_tests/lib", ARGS=a-mutant)
	@$(VENV)/python -m tools.mutants $(ARGS)

conformance: setup  ## which test proves which statement of MQTT 5, 3.1.1 and 3.1
	@$(VENV)/python -m tools.conformance -n $(JOBS) $(ARGS)

SEEDED = $(if $(SEED),--seed $(SEED))

crash: setup  ## power cuts and flash faults in random scripts (CUTS=100000 SEED=)
	INFLIGHT_TOOLS=1 INFLIGHT_ALL_CUTS=1 $(VENV)/python -m pytest -q -n $(JOBS) host_tests/lib/test_journal_power_cuts.py host_tests/lib/test_power_cuts.py \
		host_tests/device/lib/test_journal_faults.py host_tests/device/lib/test_journal_failures.py \
		host_tests/device/lib/test_journal_damage.py host_tests/crash/test_kept.py
	@$(VENV)/python -m tools.crash $(if $(CUTS),--cuts $(CUTS)) $(SEEDED) $(ARGS)

worlds: setup  ## all states of small worlds: every order of arrival, every power cut (ARGS="--world received")
	@$(VENV)/python -m tools.worlds $(ARGS)

fuzz: setup  ## hostile input for decoder, session, mount and commands (INPUTS=1000000 SEED=)
	$(SETUP) fuzz
	@$(VENV)/python -m tools.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(SEEDED) $(ARGS)

test-home-assistant: setup-tests  ## devices at a running Home Assistant, which it installs (620 MB)
	$(SETUP) home-assistant
	INFLIGHT_HOME_ASSISTANT=1 $(VENV)/python -m pytest -n 0 host_tests/firmware/test_home_assistant*.py $(ARGS)

test-object-storage: setup-tests  ## landing files, tables and report in a stand-in for S3 (moto), which it installs (140 MB)
	$(SETUP) object-storage
	$(VENV)/python -m pytest -n $(JOBS) host_tests/tools/fleet/transfer $(ARGS)

test-brokers: setup  ## the same exchanges with mosquitto, amqtt, aedes and RabbitMQ, which it installs
	$(SETUP) brokers
	INFLIGHT_BROKERS=1 $(VENV)/python -m pytest -n $(JOBS) host_tests/brokers $(ARGS)

soak: setup  ## bad networks and a day of virtual time (DEVICES=1000 MINUTES=5 SEED=)
	@$(VENV)/python -m tools.soak $(if $(DEVICES),--devices $(DEVICES)) $(if $(MINUTES),--minutes $(MINUTES)) $(SEEDED) $(ARGS)

bench: setup  ## what the client costs, on 32-bit MicroPython (PEERS=folder of others' checkouts)
	@$(VENV)/python -m tools.bench.benchmark $(if $(PEERS),--peers "$(PEERS)") $(ARGS)

bench-heap: setup  ## what the application and each of its options cost a board's heap (ARGS=--modules)
	@$(VENV)/python -m tools.bench.application.heap $(ARGS)

demo: setup-pipeline  ## a fleet under power cuts, through collector and Spark to a report (DEVICES=20 DURATION=30 QOS=1,2)
	@$(VENV)/python -m tools.demo $(if $(DEVICES),--devices $(DEVICES)) $(if $(DURATION),--duration $(DURATION)) \
		$(if $(QOS),--qos "$(QOS)") $(SEEDED) $(ARGS)

sensor: setup  ## this machine as a sensor, or as several (CONFIG=config.json DEVICE=attic-1)
	@$(VENV)/python -m tools.demo.sensor $(if $(CONFIG),--config "$(CONFIG)") $(if $(DEVICE),--device "$(DEVICE)")

SETTINGS = $(if $(CONFIG),--config "$(CONFIG)") $(if $(CA),--ca "$(CA)") $(if $(CERT),--cert "$(CERT)") \
	$(if $(KEY),--key "$(KEY)")

flash: setup-boards  ## MicroPython, application and settings onto a bare board ([BOARD=esp32 PORT=/dev/ttyUSB0 CONFIG=config.json ERASE=1 OTA=1 ROMFS=1])
	$(INFLIGHT) board flash $(if $(BOARD),--board "$(BOARD)") $(if $(FIRMWARE),--firmware "$(FIRMWARE)") \
		$(if $(SHA256),--sha256 "$(SHA256)") $(SETTINGS) $(if $(FLASH_MB),--flash-mb "$(FLASH_MB)") \
		$(if $(filter 1,$(OTA)),--ota) $(if $(filter 1,$(ROMFS)),--romfs) $(if $(PORT),--port "$(PORT)") \
		$(if $(filter 1,$(ERASE)),--erase) $(BROKER_HERE)

OWN = $(if $(PICOW_UF2),PICOW_UF2="$(PICOW_UF2)")
UPDATED = $(if $(LIVES),LIVES="$(LIVES)") $(if $(CUTS),CUTS="$(CUTS)")

test-pico-w: setup  ## all on an emulated Pico W with the real firmware: power cuts, TLS, faults, updates (PICOW_UF2= LIVES=3 CUTS=200)
	$(SETUP) firmware
	INFLIGHT_PICO_W=1 $(OWN) $(UPDATED) \
		$(VENV)/python -m pytest -n 2 host_tests/emulated_boards -k "not esp32" $(ARGS)

test-esp32: setup  ## the same on an emulated ESP32 (QEMU_ESP32="qemu-system-xtensa -L folder" [CHIP= MICROPYTHON= MINUTES=60 LIVES=3 CUTS=200])
	INFLIGHT_ESP32=1 $(if $(QEMU_ESP32),QEMU_ESP32="$(QEMU_ESP32)") $(if $(MINUTES),SOAK_MINUTES="$(MINUTES)") \
		$(UPDATED) $(if $(CHIP),INFLIGHT_ESP32_CHIP="$(CHIP)") \
		$(if $(MICROPYTHON),INFLIGHT_ESP32_MICROPYTHON="$(MICROPYTHON)") \
		$(VENV)/python -m pytest host_tests/emulated_boards -k esp32 $(ARGS)

figures-pico-w: setup  ## what a sensor costs a Pico W, on the emulated board (PICOW_UF2=firmware of one's own, ARGS=heap|wake|energy)
	$(SETUP) firmware
	@$(OWN) $(VENV)/python -m tools.emulators.pico_w.figures $(ARGS)

WAIT ?= 90
BROKER_HERE = $(if $(BROKER),--broker "$(BROKER)")

deploy: setup-boards  ## what changed onto a board (CONFIG=config.json [BOARD=pico_w PORT=/dev/ttyACM0 ROMFS=1 WAIT=90])
	$(INFLIGHT) board deploy $(if $(BOARD),--board "$(BOARD)") $(if $(PORT),--port "$(PORT)") $(SETTINGS) $(BROKER_HERE) \
		--wait $(WAIT) $(if $(filter 1,$(ROMFS)),--romfs)

library: setup-boards  ## the library compiled, for a board's mip: build/library (BOARD=pico_w adds machine code and the module board)
	$(INFLIGHT) board library $(if $(BOARD),--board "$(BOARD)")

monitor: setup-boards  ## a board's console and its messages, live (PORT=/dev/ttyACM0 CONFIG=config.json)
	$(INFLIGHT) board monitor $(if $(PORT),--port "$(PORT)") $(SETTINGS) $(BROKER_HERE)

test-pipeline: setup-tests  ## the pipeline's long tests too: a cluster, kills, power cuts, full disks (an hour)
	INFLIGHT_PIPELINE=1 $(VENV)/python -m pytest -n $(JOBS) host_tests/tools/fleet \
		host_tests/tools/maintainers/test_pipeline.py $(ARGS)

histories: setup-pipeline  ## collectors that come and go beside devices whose every fate is known (HISTORIES=1000 SEED=0)
	INFLIGHT_HISTORIES=$(or $(HISTORIES),1000) INFLIGHT_SEED=$(SEED) \
		$(VENV)/python -m pytest -q -n $(JOBS) host_tests/tools/fleet/query/test_histories.py $(ARGS)

bench-pipeline: setup-pipeline  ## what collector, Spark and console manage here, and what grows (MILLIONS=1,10 ARGS="--only console")
	@$(VENV)/python -m tools.bench.bench_pipeline $(if $(MILLIONS),--millions "$(MILLIONS)") $(ARGS)

lint: setup  ## ruff; types of the device code, against the stubs of its ports, and of the tools
	$(VENV)/ruff check .
	@$(VENV)/python -m tools.setup.typecheck

release: setup-boards  ## wheel, mip package, images and installer page of a version (VERSION=x.y.z ARGS=--without-images)
	@$(VENV)/python -m tools.release "$(VERSION)" $(ARGS)

clean:  ## the virtual environment and what tests leave behind; the cache stays
	rm -rf .venv .pytest_cache .ruff_cache build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
