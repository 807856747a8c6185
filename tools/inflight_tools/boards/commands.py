"""`inflight board`: its commands, each from the module of its name."""

from inflight_tools import boards
from inflight_tools.boards import deploy, flash, freeze, image, library, monitor, traceback
from inflight_tools.group import Group

app = Group("board", help=boards.__doc__)

app.add("image --board esp32 --config attic.json --out attic.bin")(image.main)
app.add("flash --board esp32 --port /dev/ttyUSB0 --config attic.json")(flash.main)
app.add("deploy --board pico_w --port /dev/ttyACM0 --config attic.json")(deploy.main)
app.add("monitor --port /dev/ttyACM0 --config attic.json")(monitor.main)
app.add("traceback < crash.txt")(traceback.main)
app.add("freeze build/frozen")(freeze.main)
app.add("library build/library --board pico_w")(library.main)
