"""Each test runs with each broker: with mosquitto always, with the others if INFLIGHT_BROKERS is set."""

import pytest

from host_tests.clients import make, pump  # noqa: F401 (fixtures)
from inflight import ConnectRefused, RamFlash
from tools.patience import Patience
from tools.peers.brokers import BROKERS

_NOT_YET = 0x83  # Implementation specific error


def _parameter(kind):
    return pytest.param(
        kind, id=kind.name, marks=() if kind.name == "mosquitto" else pytest.mark.long("INFLIGHT_BROKERS")
    )


@pytest.fixture(scope="session", params=[_parameter(kind) for kind in BROKERS])
def kind(request):
    """The class of a broker that this host has."""
    if reason := request.param.unavailable():
        pytest.skip(f"{request.param.name} is unavailable: {reason}")
    return request.param


@pytest.fixture(scope="session")
def shared(kind, tmp_path_factory):
    with kind(tmp_path_factory.mktemp(kind.name)) as broker:
        yield broker


@pytest.fixture
def broker(shared, request):
    """A running broker. `root`: this test's first topic level, and the prefix of its client ids."""
    shared.root = "t%08x" % (hash(request.node.nodeid) & 0xFFFFFFFF)
    return shared


@pytest.fixture
def mortal(kind, tmp_path):
    """A running broker that only this test uses, so it may stop it."""
    with kind(tmp_path / kind.name) as broker:
        broker.root = "t"
        yield broker


@pytest.fixture(params=[5, 4], ids=["level5", "level4"])
def level(request, kind):
    """The protocol level of the clients."""
    if request.param == 5 and not kind.level_5:
        pytest.skip(f"{kind.name} has no MQTT 5")
    if request.param == 3 and not kind.level_3:
        pytest.skip(f"{kind.name} has no MQTT 3.1: see test_another_level")
    return request.param


@pytest.fixture(params=[0, 1, 2], ids=["qos0", "qos1", "qos2"])
def qos(request, kind):
    if request.param == 2 and not kind.qos_2:
        pytest.skip(f"{kind.name} has no QoS 2: see test_qos_2")
    return request.param


def numbers(count):
    """Payloads that sort in the order of publishing."""
    return [b"%03d" % k for k in range(count)]


@pytest.fixture
def join(make, level):  # noqa: F811
    """join(broker, name, filter) is a connected client. `got`: its messages, (topic without the first level, payload,
    qos, retain). receive_maximum is large, since some brokers do not limit messages in flight."""

    def start(broker, name, filter=None, device=None, qos=2, **options):
        device = RamFlash(16, 4096) if device is None else device
        options = {"receive_maximum": 400, "protocol_level": level, **options}
        client = make(broker.port, device, client_id=f"{broker.root}{name}", **options)
        vars(client)["got"] = []

        def note(m):
            client.got.append((m.topic[len(broker.root) + 1 :], m.payload, m.qos, m.retain))

        if filter:
            client.subscribe(f"{broker.root}/{filter}", qos, note, stream=True)
        try:
            client.connect()
        except ConnectRefused as e:
            if broker.replaces_at_once or e.code != _NOT_YET:
                raise
            patience = Patience(30)
            while not client.connected and not patience.over(client.counters()["refused"]):
                client.run_for(100)
        return client

    return start


@pytest.fixture
def together():
    """together(clients, condition, ms) runs the clients in turn until the condition is true, or none has received a
    message for `ms`. Returns whether it is true."""

    def run(clients, condition, ms=30_000):
        patience = Patience(ms / 1000)
        while not condition() and not patience.over([len(client.got) for client in clients]):
            for client in clients:
                client.run_for(1)
        return condition()

    return run


@pytest.fixture
def arrived(together):
    """arrived(broker, listener, wanted) waits until all of `wanted` have arrived, or a time-out. Reconnects if the
    broker delivers some messages only on the next connection. Returns the payloads."""

    def wait(broker, listener, wanted):
        def done():
            return set(wanted) <= {payload for _, payload, _, _ in listener.got}

        if broker.prompt:
            together([listener], done, 30_000 if broker.answers_pubrel else 5_000)
        for _ in range(0 if broker.prompt else 15):
            if together([listener], done, 2_000):
                break
            listener.disconnect()
            listener.connect()
        payloads = [payload for _, payload, _, _ in listener.got]
        return payloads if broker.ordered else sorted(payloads)

    return wait
