"""The firmware image: MicroPython 1.26.1 for the Pico W, exactly as its makers publish it."""

from tools.emulators.firmware_image import FirmwareImage, Unavailable

FIRMWARE = FirmwareImage(
    "Pico W", "RPI_PICO_W-20250911-v1.26.1.uf2", "710eac1ba5dc10e2cbdf9e070d5b7c662962a57b0ebc4bb0202c87b40413ed85"
)


def unavailable():
    """Why there is no emulated Pico W here; empty when there is one."""
    try:
        import rp2040py  # noqa: F401

        FIRMWARE.find()
    except ImportError:
        return "rp2040py is not installed: run `make setup`"
    except Unavailable as e:
        return str(e)
    return ""
