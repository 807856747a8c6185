"""RabbitMQ with its MQTT plug-in, in Erlang."""

import os
import subprocess
from pathlib import Path

from tools.peers.brokers.traits import Traits
from tools.peers.daemon import Daemon, held_port
from tools.setup.brokers import known

_CONFIGURATION = """\
listeners.tcp = none
mqtt.listeners.tcp.1 = 127.0.0.1:%d
mqtt.allow_anonymous = true
anonymous_login_user = guest
anonymous_login_pass = guest
log.console = true
log.console.level = warning
"""
# Tests must not depend on the machine's load and disks; and os_mon would start programs.
_QUIET = [word for name in ("cpu_sup", "memsup", "disksup") for word in ("-os_mon", f"start_{name}", "false")]


class Rabbitmq(Daemon, Traits):
    name = "rabbitmq"
    qos_2 = False  # grants QoS 1, and answers a PUBLISH of QoS 2 by PUBACK; at level 5 it says so in CONNACK
    shared = False  # grants the subscription, and delivers nothing
    resumes_in_order = False  # it delivers before it has noticed that the last connection is closed
    survives_early_kill = False  # it then has the session, without what was subscribed
    replaces_at_once = False  # until that has ended it answers 0x83

    @classmethod
    def unavailable(cls):
        return known(cls.name).get("reason", "")

    def __init__(self, folder):
        super().__init__(folder)
        record = known(self.name)
        (self.folder / "rabbitmq.conf").write_text(_CONFIGURATION % self.port)
        (self.folder / "enabled_plugins").write_text("[rabbitmq_mqtt].\n")
        beam = Path(record["argv"][0])
        names = held_port(self)
        self._name_server = None
        self._names = [str(beam.with_name("epmd")), "-port", str(names), "-relaxed_command_check"]
        self.environ = self._environment(record, beam.parent)
        self.argv = [str(beam), "-sbwt", "none", "-sbwtdcpu", "none", "-sbwtdio", "none"]
        self.argv += ["--", "-root", record["root"], "-bindir", str(beam.parent), "-progname", "erl"]
        self.argv += ["--", "-home", str(self.folder), "--", "-noinput", "-s", "rabbit", "boot"]
        self.argv += ["-boot", f"{record['root']}/bin/start_sasl", "-epmd_port", str(names), *_QUIET]
        self.argv += ["-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"]
        self.argv += ["-kernel", "prevent_overlapping_partitions", "false"]
        self.argv += ["-kernel", "inet_dist_use_interface", "{127,0,0,1}"]

    def _environment(self, record, programs):
        chosen = {
            "NODENAME": "rabbit@localhost",
            "DIST_PORT": held_port(self),
            "HOME": Path(record["plugins"]).parent,
            "PLUGINS_DIR": record["plugins"],
            "MNESIA_BASE": self.folder / "data",
            "LOG_BASE": self.folder,
            "LOGS": "-",
            "CONFIG_FILE": self.folder / "rabbitmq.conf",
            "ENABLED_PLUGINS_FILE": self.folder / "enabled_plugins",
            "ADVANCED_CONFIG_FILE": self.folder / "none",
            "CONF_ENV_FILE": self.folder / "none",
        }
        erlang = {"BINDIR": programs, "ROOTDIR": record["root"], "EMU": "beam", "PROGNAME": "erl"}
        erlang["ERL_LIBS"] = ":".join([record["plugins"], *record["libraries"]])
        ours = {"PATH": os.environ["PATH"], "HOME": self.folder, "LANG": "C.UTF-8", "ERL_EPMD_ADDRESS": "127.0.0.1"}
        named = {f"RABBITMQ_{name}": value for name, value in chosen.items()}
        return {name: str(value) for name, value in {**ours, **erlang, **named}.items()}

    def start(self):
        self._name_server = subprocess.Popen(self._names, env=self.environ, stderr=subprocess.DEVNULL)
        return super().start()

    def _end(self, how):
        try:
            super()._end(how)
        finally:
            if self._name_server:
                self._name_server.kill()
                self._name_server.wait()
                self._name_server = None
