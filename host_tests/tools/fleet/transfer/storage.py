"""A stand-in for S3 on loopback, behind a network that can be cut; commands as processes."""

import threading

from host_tests.tools.fleet.collect.collecting import Program
from tools.peers.daemon import Daemon
from tools.peers.network import Network
from tools.setup import object_storage

BUCKET = "fleet"
_KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
_HERE = {"AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true"}


class Moto(Daemon):
    """moto as a server. free: so many requests need no credentials, and all others do; None: none does."""

    name = "moto"

    def __init__(self, folder, free=None):
        super().__init__(folder)
        self.argv = [*map(str, object_storage.command()), "-H", "127.0.0.1", "-p", str(self.port)]
        checked = {} if free is None else {"INITIAL_NO_AUTH_ACTION_COUNT": str(free)}
        self.environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder)} | checked


def settings(port, **more):
    """The settings of S3 at a port of loopback, as environment variables."""
    return _KEYS | _HERE | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"} | more


def arrow(port, **options):
    """Arrow's file system of it."""
    from pyarrow.fs import S3FileSystem

    key, secret, region = _KEYS.values()
    place = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": region}
    return S3FileSystem(access_key=key, secret_key=secret, **place, **options)


class Cable(Network):
    """A network that can be cut."""

    def _watcher(self):
        return None


class Command(Program):
    """`inflight fleet WORDS` as a process."""

    command = ()

    def succeed(self):
        assert self.status() == 0, self.output()[-2000:]
        return self


class Killer:
    """Starts a command again and again, kills it after a random time, until it is left alone. start: a function that
    returns a Command."""

    def __init__(self, start, dice, longest_s):
        self._start, self._dice, self._longest_s = start, dice, longest_s
        self.kills = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.is_set():
            command = self._start()
            self._over.wait(self._dice.uniform(0, self._longest_s))  # a random time, not a synchronisation
            command.kill()
            self.kills += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
