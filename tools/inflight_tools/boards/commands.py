"""`inflight board`: its commands, each from the module of its name."""

from inflight_tools import boards
from inflight_tools.app import App
from inflight_tools.boards import deploy, flash, freeze, image, library, monitor, traceback
from inflight_tools.output import epilog

app = App(no_args_is_help=True, help=boards.__doc__)


def add(module, example):
    name = module.__name__.rpartition(".")[2]
    app.command(name, epilog=epilog(f"board {name} {example}"))(module.main)


add(image, "--board esp32 --config attic.json --out attic.bin")
add(flash, "--board esp32 --port /dev/ttyUSB0 --config attic.json")
add(deploy, "--board pico_w --port /dev/ttyACM0 --config attic.json")
add(monitor, "--port /dev/ttyACM0 --config attic.json")
add(traceback, "< crash.txt")
add(freeze, "build/frozen")
add(library, "build/library --board pico_w")
