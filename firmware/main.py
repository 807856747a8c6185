# Starts the application: wiring only.

import board
from app import App, will
from config import load
from inflight import Client, Journal
from telemetry import describe


def _say(error):
    print("inflight:", describe(error))


def build():
    """Returns the App of this board, ready to run. Raises ValueError with what to change."""
    config = load(board.config_path(), board.device_id())
    tls = None
    if config.tls_ca:
        from secure import context

        tls = context(config.tls_ca, config.tls_cert, config.tls_key)
    journal = Journal(board.journal_flash())
    client = Client(
        config.host,
        config.device,
        journal,
        port=config.port,
        tls=tls,
        user=config.user,
        password=config.password,
        will=will(config),
        keepalive=config.keepalive,
        level=config.level,
        buffer=bytearray(config.buffer),
        window=config.window,
        drop=config.drop,
        timeout=config.timeout_ms,
        on_error=_say,
    )
    return App(board, config, journal, client)


def main():
    app = build()  # what is wrong here stays wrong until somebody changes it
    try:
        app.run()
    except KeyboardInterrupt:
        return
    except Exception as e:
        # A bug must not end a device's life.
        _say(e)
        board.sleep(1000)
    board.sleep(0, True)


if __name__ == "__main__":
    main()
