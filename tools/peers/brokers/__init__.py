"""The brokers of the interoperability tests, and their deviations from the standard."""

import json
import os
import subprocess
from pathlib import Path

from tools.peers import mosquitto
from tools.peers.daemon import Daemon, held_port
from tools.setup.brokers import known


class Traits:
    """True: as the standard says. A subclass sets False where its broker deviates, with the reason. The tests in
    host_tests/brokers show each deviation; README.md there says how the client handles it."""

    level_3 = True  # accepts MQTT 3.1
    level_5 = True  # accepts MQTT 5
    qos_2 = True  # accepts and delivers QoS 2
    keeps_qos = True  # delivers at the QoS of the message, if the subscription's is not lower
    ordered = True  # delivers in the order of publishing
    resumes_in_order = True  # delivers unacknowledged messages first on the next connection
    replaces_at_once = True  # accepts a CONNECT while it still ends the last session of that client id
    prompt = True  # delivers to a connected subscriber at once
    answers_pubrel = True  # also for an unknown Message ID
    window = True  # limits the number of messages in flight to a client
    queues = True  # stores messages for an offline session
    clean_wipes = True  # clean session 1 ends the old session
    takes_over = True  # a second client with the same client id disconnects the first one
    keep_alive = True  # disconnects a silent client
    shared = True  # has shared subscriptions
    saves_clean_start = True  # keeps a session that began with Clean Start after an orderly stop
    survives_restart = True  # keeps sessions, messages and retained messages after an orderly stop
    survives_kill = True  # and after SIGKILL
    survives_early_kill = True  # also if that follows SUBACK at once


class Mosquitto(mosquitto.Mosquitto, Traits):
    """As `make setup` installs it."""

    saves_clean_start = False  # it saves a session of level 5 from the second connection on, that without Clean Start
    survives_kill = False  # messages since the last save (autosave_interval) are lost
    unavailable = staticmethod(mosquitto.unavailable)


class _Installed(Daemon, Traits):
    """One that `make test-brokers` installs."""

    @classmethod
    def unavailable(cls):
        return known(cls.name).get("reason", "")

    @property
    def record(self):
        return known(self.name)


class Aedes(_Installed):
    """In JavaScript, with its sessions in LevelDB."""

    name = "aedes"
    level_5 = False  # answers with a CONNACK of level 4 that says so
    ordered = False  # messages in quick succession may be reordered
    prompt = False  # about one in a hundred is delivered only after the subscriber has reconnected
    window = False
    survives_restart = survives_kill = False  # it acknowledges before it has stored the message

    def __init__(self, folder):
        super().__init__(folder)
        self.argv = [*self.record["argv"], str(self.port), str(self.folder / "sessions")]


class Amqtt(_Installed):
    """In Python."""

    name = "amqtt"
    level_5 = False  # does not answer
    level_3 = False  # closes the connection without an answer
    keeps_qos = False  # delivers at the QoS of the subscription, even if the message's is lower
    answers_pubrel = False  # not if the connection broke after PUBREC: the message stays in flight
    ordered = False  # if a connection breaks during handshakes, later messages may come first
    window = False
    queues = False
    clean_wipes = False  # the next CONNACK has session present = 1
    takes_over = False  # both connections stay
    keep_alive = False  # a silent client stays connected
    survives_restart = survives_kill = False  # everything is in RAM

    def __init__(self, folder):
        super().__init__(folder)
        configuration = self.folder / "amqtt.yaml"
        listener = {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}
        plugins = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
        configuration.write_text(json.dumps({"listeners": {"default": listener}, "plugins": plugins}))  # JSON is YAML
        self.argv = [*self.record["argv"], "-c", str(configuration)]


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


class Rabbitmq(_Installed):
    """With its MQTT plug-in, in Erlang."""

    name = "rabbitmq"
    qos_2 = False  # grants QoS 1, and answers a PUBLISH of QoS 2 by PUBACK; at level 5 it says so in CONNACK
    shared = False  # grants the subscription, and delivers nothing
    resumes_in_order = False  # it delivers before it has noticed that the last connection is closed
    survives_early_kill = False  # it then has the session, without what was subscribed
    replaces_at_once = False  # until that has ended it answers 0x83

    def __init__(self, folder):
        super().__init__(folder)
        record = self.record
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

    def stop(self):
        super().stop()
        self._stop_name_server()

    def off(self):
        alive = super().off()
        self._stop_name_server()
        return alive

    def _stop_name_server(self):
        if self._name_server:
            self._name_server.kill()
            self._name_server.wait()
            self._name_server = None


BROKERS = (Mosquitto, Amqtt, Aedes, Rabbitmq)
