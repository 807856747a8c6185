# Set-up of a device that has no configuration: an open access point with a page, and Improv on the serial port. What a
# person enters is tried, and kept if the device reaches its broker with it; then the device restarts. Loaded, like all
# modules setup_*, only without a configuration.

import gc
import json
import select
import sys

from config import check
from files import beside, write
from inflight.compat import const, passed, ticks_add, ticks_diff, ticks_ms
from setup_attempt import Failed, join, place_of, reach
from setup_http import BadRequest, form

_WATCHDOG_MS = const(120_000)
_IDLE_MS = const(500)
_BUSY_MS = const(50)  # while an attempt runs
_FAREWELL_MS = const(15_000)  # for so long the page tells the success, if nobody asks for it
_SOON_MS = const(500)
_SCAN_MS = const(15_000)  # between two scans for the page: each takes seconds, in which nobody is served


class Setup:
    """The site of the web server, see setup_server, and what Improv needs, see setup_serial. radio: the module
    setup_board of the board; a Wired if there is a cable, which has the `fields` of the configuration so far. key: of
    the access point, default: it is open."""

    def __init__(self, board, radio, *key):
        self._board = board
        self._radio = radio
        self.name = "inflight-" + board.device_id()[-6:]
        self._attempt = self._ended = None
        self.networks()
        self.address = radio.open_access_point(self.name, *key)
        self._fields = getattr(radio, "fields", {})
        self._given = dict(self._fields)  # those that were entered, too
        self._found = self._search()
        self._secrets = {}  # {field: (what was entered, all that decides who gets it)}
        self._upload = None
        self._ca = None  # the Upload of the certificate
        self._joined = None  # SSID and key
        self._doing = ""  # what an attempt does now
        self._result = ()  # of the success: what setup_outcome tells of it
        self._note, self._kind = "", ""
        self._wrong = ""  # the name of the form's field that the note is about
        self.ends = None  # ticks when the device restarts
        self._farewell = False  # the page that tells the success was asked for

    # --- attempts ---

    def _start(self, attempt, ended):
        self._attempt = attempt
        self._ended = ended

    def step(self):
        """A step of what is being tried, if anything is."""
        if not self._attempt:
            return
        error = None
        try:
            next(self._attempt)
            return
        except StopIteration:
            pass
        except Failed as e:
            error = str(e)
        except (OSError, ValueError, MemoryError) as e:
            error = "%s: %s" % (type(e).__name__, e)
        self._attempt = None
        gc.collect()
        self._ended(error)

    def _join(self, ssid, key):
        if self._joined == (ssid, key) and self._radio.address():
            return
        self._joined = None
        self._doing = "Joining the network %s." % ssid
        yield from join(self._radio, ssid, key)
        self._joined = ssid, key

    def _configure(self, given):
        config = check(given, self._board.device_id)
        if config.wifi_ssid:
            yield from self._join(config.wifi_ssid, config.wifi_key)
        self._doing = "Connecting to the broker %s." % config.host
        yield  # the page tells it
        yield from reach(self._board, config)
        topic = "%s/%s" % (config.root, config.device)
        self._result = config.device, place_of(config), topic, bool(config.ha), bool(config.setup)
        write(self._board.config_path(), json.dumps(given))

    def _configured(self, error):
        if error:
            self._tell(error)
            return
        self._tell("Saved. The device restarts, and connects to %s." % self._given["host"], "good")
        self.ends = ticks_add(ticks_ms(), _FAREWELL_MS)

    def _tell(self, note, kind="bad"):
        self._wrong, note = _unloaded("setup_outcome").labelled(note)
        self._note, self._kind = note[:1].upper() + note[1:], kind

    # --- the page ---

    def _hosts(self):
        port = "" if self._radio.HTTP_PORT == 80 else ":%d" % self._radio.HTTP_PORT
        return [host + port for host in (self.address, self._radio.address()) if host]

    def url(self):
        """The URL of the page in the network that the device has joined, otherwise at its access point."""
        return "http://%s/" % self._hosts()[-1]

    def check(self, request):
        # Only a browser that shows our page may send the form: not one that shows another page, whose host's name an
        # attacker lets point to this device (DNS rebinding).
        if request.method not in ("GET", "HEAD", "POST"):
            raise BadRequest(405)
        host = request.headers.get("host")
        ours = host in self._hosts()
        if request.method == "POST":
            origin = request.headers.get("origin")
            if not ours or (origin and origin != "http://" + host):
                raise BadRequest(403)
        elif not ours:
            # How phones and computers find out whether there is a page, too.
            return "http://%s/" % self._hosts()[0]

    def form(self, request):
        if self._upload:
            self._upload.discard()  # the connection ended before the form did
            self._upload = None
        return form(request.headers.get("content-type", ""), self._open)

    def _open(self, field):
        if self._upload or field != "ca" or self._attempt or self.ends:
            raise ValueError("one file, the certificate of the CA")
        from setup_certificate import Upload  # seldom needed

        self._upload = Upload(beside(self._board, "ca.der"))
        return self._upload

    def respond(self, request, fields, error):
        if request.method == "POST":
            self._submit(fields, error)
        elif request.path == "/scan":
            if not self._attempt and passed(ticks_ms(), self._scanned, _SCAN_MS):
                self.networks()
                self._found = self._search()
        elif request.path == "/favicon.ico":  # led to the page, it would pass for a person who sees it
            return 404, None, ()
        elif request.path == "/":
            return 200, None, () if request.method == "HEAD" else self._page()
        return 303, "/", ()

    def _submit(self, fields, error):
        upload, self._upload = self._upload, None
        busy = self._attempt or self.ends
        if busy or error or fields is None:
            if upload:
                upload.discard()
            if not busy:
                self._tell(error or "this is no form")
            return
        if upload:
            upload.keep()
        if upload or fields.get("plain"):
            self._ca = upload
        self._given = given = self._settings(fields)
        try:
            config = check(given, self._board.device_id)
            if config.sensors or config.actuators:
                from entries import check as check_entries

                check_entries(config)
            if self._networks is not None and "wifi_ssid" not in given:
                raise ValueError("choose a network")
        except ValueError as e:
            self._tell(str(e))
            return
        self._start(self._configure(given), self._configured)

    def _settings(self, fields):
        # The fields of the configuration.
        given = {name: fields.get(name, "").strip() for name in ("host", "port", "user", "device")}
        given["wifi_ssid"] = fields.get("other", "") or fields.get("ssid", "")
        if self._ca:
            given["tls_ca"] = beside(self._board, "ca.der")
        given = dict(self._fields, **{name: given[name] for name in given if given[name]})
        if self._found:
            given["sensors"] = chosen = []
            for i in range(len(self._found)):
                entry = self._found[i][0]
                if fields.get("sensor%d" % i):
                    entry["name"] = fields.get("name%d" % i) or entry["driver"]
                    chosen.append(entry)
        if fields.get("ha"):
            given["ha"] = True
        try:
            given["port"] = int(given["port"])
        except (KeyError, ValueError):
            pass  # check() tells what is wrong
        if fields.get("code"):  # typed each time: nobody else chooses it
            given["setup"] = {"code": fields["code"]}
        self._secret(given, "wifi_key", fields.get("key"), given.get("wifi_ssid"))
        place = [given.get(name) for name in ("wifi_ssid", "wifi_key", "host", "port", "user")]
        self._secret(given, "password", fields.get("password"), place + [self._ca])
        return given

    def _secret(self, given, name, entered, place):
        # A secret need not be typed again as long as it goes to the same place: whoever else sends a form, with a
        # network, a host or a certificate of his own, must not get it.
        kept, there = self._secrets.get(name, (None, None))
        if not entered and there == place:
            entered = kept
        if entered:
            given[name] = entered
        self._secrets[name] = entered, place

    def _page(self):
        note = (self._doing, "") if self._attempt else (self._note, self._kind)
        return _marked(self._wrong, self._note, _pieces((self.name, note, self.busy), *self._parts()))

    def _parts(self):
        # What follows the note: a module, its function, and the arguments.
        access_point = self.name if self._networks is not None else None
        if self._attempt:
            return ("setup_outcome", "again", access_point) if access_point else ()
        if self.ends:
            self._farewell = True
            return ("setup_outcome", "next_steps", access_point, self._radio.address()) + self._result
        kept = [name for name in self._secrets if self._secrets[name][0]]
        more = self._found, getattr(self._radio, "BUSES", None), self._board.device_id()
        return ("setup_form", "form", self._given, self._networks, kept, self._ca) + more

    def sent(self):
        if self._farewell:
            self.ends = ticks_add(ticks_ms(), _SOON_MS)  # the person knows it

    def _search(self):
        # Sensors at the board's buses, see setup_sensors; None: there are no buses, or the configuration has sensors.
        buses = getattr(self._radio, "BUSES", None)
        if not buses or "sensors" in self._fields:
            return None
        try:
            return _unloaded("setup_sensors").answering(*buses)
        except MemoryError:
            gc.collect()
            return []

    # --- Improv ---

    def networks(self):
        """Scans, and returns (SSID, dBm, whether it needs a key) of the networks here, the strongest first."""
        if not self._attempt:
            self._networks = ()
            try:
                self._networks = self._radio.scan()
            except MemoryError:  # whoever announces hundreds must not bar the set-up: a name can be typed
                gc.collect()
            self._scanned = ticks_ms()
        return self._networks

    def bring(self, ssid, key, ended):
        """Tries a network, and calls ended(error) with a text or None. The page keeps this network, and asks for the
        rest. Returns False if something is being tried."""
        if self._attempt or self.ends:
            return False

        def keep(error):
            if not error:
                self._given["wifi_ssid"] = ssid
                self._secrets["wifi_key"] = key, ssid
            ended(error)

        self._start(self._join(ssid, key), keep)
        return True

    @property
    def busy(self):
        return self._attempt is not None

    def information(self):
        """Firmware, its version, hardware, name of the device."""
        from inflight import __version__

        return "Inflight", __version__, self._board.NAME, self.name


def _unloaded(name):
    # Its texts stay while they are used: then an attempt, or the next module, has their space.
    module = __import__(name)
    sys.modules.pop(name)
    return module


def _marked(field, note, pieces):
    # With the note at that field of the form, which gets the focus.
    if field:
        from setup_http import escape

        mark = '<b id="wrong">%s</b><input autofocus aria-invalid="true" aria-describedby="wrong" name="%s"'
        mark = (mark % (escape(note), field)).encode()
    for piece in pieces:
        yield piece.replace(b'<input name="%s"' % field.encode(), mark) if field else piece


def _pieces(head, module=None, what=None, *given):
    yield from _unloaded("setup_page").page(*head)
    if module:
        yield from getattr(_unloaded(module), what)(*given)
    yield b"</main></body></html>\n"


def run(board, radio):
    """Waits until the device is configured, and restarts it. Raises KeyboardInterrupt at Ctrl-C."""
    serve_until_set_up(board, radio, Setup(board, radio), "no configuration", radio.DNS_PORT)
    board.sleep(0, True)


def serve_until_set_up(board, radio, setup, why, improv=False):
    """Serves the page of `setup`, and Improv if wanted, until it ends. why: it is open, for the console."""
    from setup_server import Names, Pages

    poll = select.poll()
    pages = Pages(poll, radio.HTTP_PORT, setup, radio.CONNECTIONS)
    steps = [setup.step, pages.step]
    serial = None
    place = setup.url()
    if radio.DNS_PORT:  # the device is the network
        steps.append(Names(poll, setup.address, radio.DNS_PORT).step)
        place = "join the network %s and open %s" % (setup.name, place)
    else:
        place = "open " + place
    if improv:
        from setup_serial import Serial

        serial = Serial(poll, setup)
        steps.append(serial.step)
    print("inflight: %s: %s" % (why, place))
    try:
        while not setup.ends or ticks_diff(setup.ends, ticks_ms()) > 0:
            board.watchdog(_WATCHDOG_MS)
            poll.poll(_BUSY_MS if setup.busy else _IDLE_MS)
            try:
                for step in steps:
                    step()
            except MemoryError:
                gc.collect()  # what a peer asked for is lost, and asked for again
    finally:
        if serial:
            serial.close()
