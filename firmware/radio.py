# Hands the settings of the radio to the board, once, before the first join.

import sys

from telemetry import describe


def set_up(app):
    config = app.config
    try:
        app.board.wifi_setup(
            config.hostname,
            config.wifi_country,
            config.wifi_ip,
            networks=config.wifi_networks,
            security=config.wifi_security,
            txpower=config.wifi_txpower,
            power_save=config.wifi_power_save,
        )
    except (ValueError, OSError) as e:
        app.errors["wifi"] = describe(e)
    sys.modules.pop("radio", None)
