"""How many syncs of flash messages cost, where those that arrive together share one."""

import pytest

from nor import CachedFile
from tools.reference.kinds import PUBLISH, PUBREL
from tools.reference.wire import puback, pubcomp, pubrec

BOTH_CLIENTS = True
WINDOW = 8
N = 80


@pytest.mark.parametrize("qos, most", [(1, 0.2), (2, 0.4)])
def test_a_backlog_drains(broker, make, qos, most):
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] Acknowledgements that arrive together: a sync for the PUBRELs of a window; a
    message that is done needs none."""
    device = CachedFile(16, 4096)
    client = make(broker.port, device, max_inflight=WINDOW)
    for k in range(N):
        client.publish("t", b"%d" % k, qos=qos)

    def script(b):
        b.welcome()
        for k in range(0, N, WINDOW):
            packets = [b.expect(PUBLISH, payload=b"%d" % i, qos=qos) for i in range(k, k + WINDOW)]
            b.send(*[puback(p.mid) if qos == 1 else pubrec(p.mid) for p in packets])
            if qos == 2:
                b.send(*[pubcomp(b.expect(PUBREL, mid=p.mid).mid) for p in packets])

    with broker.play(script):
        client.connect()
        syncs = device.syncs
        assert client.drain(60_000)
    assert device.syncs - syncs <= most * N
    make.cut_power(client)
    device.lose_power()
    assert make(broker.port, device).pending == 0
