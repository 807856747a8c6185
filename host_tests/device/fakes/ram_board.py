"""A board without hardware: what is to happen are attributes, what was called is recorded."""

from codes import IDLE, ONLINE, POWER_ON


class Board:
    """`path`: of its configuration. joins: the status after join(); a list: after each. clock: what sync_time()
    returns; a list: in turn, the last one for ever. `readings`: of its sensors. memory: what it remembers."""

    NAME = "ram"
    ATTENDED = False
    JOURNAL_KB = 64
    identity = "a1b2c3d4e5f6"
    wifi = ONLINE
    joins = IDLE
    clock = True
    cause = POWER_ON
    memory = None
    switched_off = stopped = 0

    def __init__(self, path="config.json"):
        self.path = path
        self.readings = [("temperature", "Cel", 21.5)]
        self.joined, self.set_up, self.asked, self.fed, self.log, self.slept = [], [], [], [], [], []
        self.within = []  # of sync_time()

    def device_id(self):
        return self.identity

    def config_path(self):
        return str(self.path)

    def sensors(self):
        yield from self.readings

    # --- the network ---

    def network(self, fields=None):
        return self

    def status(self):
        return self.wifi

    def setup(self, config):
        self.set_up.append((config.hostname, config.wifi_country, config.wifi_ip))

    def join(self, timeout_ms, ssid=None, key=None):
        self.joined.append((ssid, key, timeout_ms))
        self.wifi = self.joins.pop(0) if isinstance(self.joins, list) else self.joins
        return self.wifi

    def off(self, ms=0):
        self.wifi = IDLE
        self.switched_off += 1

    def rssi(self):
        return -67

    def sync_time(self, host=None, within=None):
        self.asked.append(host)
        self.within.append(within)
        if isinstance(self.clock, list):
            return self.clock.pop(0) if len(self.clock) > 1 else self.clock[0]
        return self.clock

    # --- power ---

    def remember(self, data):
        assert len(data) <= 24, "no board keeps more"
        self.memory = data or None

    def recall(self):
        return self.memory

    def reset_cause(self):
        return self.cause

    def sleep(self, ms, deep=False):
        self.slept.append((ms, deep))

    def watchdog(self, ms):
        self.fed.append(ms)

    def stop_watchdog(self):
        self.stopped += 1

    def accepted(self, seq, qos, topic):
        self.log.append((seq, qos, topic))
