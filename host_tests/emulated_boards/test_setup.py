"""A board without a configuration opens its access point, which nobody can join here, and obeys Improv."""

import json

import pytest

from host_tests.firmware.setting_up import HEAD, improv, texts
from inflight_tools.boards.build.bundle import files

# The emulated ESP32 has no access point of its own: where the set-up opens one, it says nothing more.
pytestmark = [pytest.mark.boards("pico_w"), pytest.mark.timeout(3600)]
_S = 1200
_WIFI, _DEVICE, _NETWORKS = 1, 3, 4  # commands
_RESULT = 4


def results(console):
    """The results of Improv in what a board has said: (command, [texts])."""
    parts = bytes(console).split(HEAD)[1:]
    return [texts(part[2 : 2 + part[1]]) for part in parts if part[0] == _RESULT and len(part) > 2 + part[1]]


def test_a_board_without_a_configuration(emulated):
    network = json.loads(emulated.SENSOR.config(1883, ""))
    ssid, key = (network.get(name, "").encode() for name in ("wifi_ssid", "wifi_key"))

    async def live(board):
        async def answer(command, last, data=b""):
            # Its results up to one with as many texts as the last has.
            def found():
                mine = [said for number, said in results(board.console) if number == command]
                return mine if mine and len(mine[-1]) == last else None

            board.send(improv(command, data))
            return await board.until(found, _S, f"the result of command {command}")

        await board.until(lambda: b"no configuration: join the network" in board.console, _S, "the set-up")
        settings = bytes([len(ssid)]) + ssid + bytes([len(key)]) + key
        return await answer(_DEVICE, 4), await answer(_NETWORKS, 0), await answer(_WIFI, 1, settings)

    (device, networks, (url,)), flash = emulated.cold(emulated.installed(files(emulated.SENSOR.BOARD)), live)
    assert device[0][0] == "Inflight" and device[0][2] == emulated.SENSOR.BOARD
    assert device[0][3].startswith("inflight-")
    assert ssid.decode() in [found[0] for found in networks[:-1]]
    assert url[0].startswith("http://") and url[0] != "http://192.168.4.1/"
    assert "/config.json" not in emulated.unpack(flash), "a network without a broker is no configuration"
