# The forms of the set-up, which follow the beginning of a page: see setup_page.

from setup_http import escape

_CODE = '<label>Code <input name="code" placeholder="key of its own Wi-Fi, if yours changes"></label>'


def form(shown, networks, kept, has_ca, answering, buses, device):
    """Yields the form. shown: fields of the form and their contents. networks: (ssid, dBm, whether it needs a key),
    None: there is a cable. kept: names of the secrets that stay as they are if their fields are empty. has_ca: a
    certificate is there. answering: the sensors, (entry, what it measures), None: none can be chosen; buses: SDA, SCL,
    1-Wire. device: the identity without a name."""
    yield b'<form method="post" action="/" autocapitalize="none" autocomplete="off" enctype="multipart/form-data">\n'
    as_before = ' placeholder="empty: as before%s"'
    if networks is not None:
        yield from _wifi(shown, networks, as_before % "" if "wifi_key" in kept else "")
    host, port, user = [escape(str(shown.get(field, ""))) for field in ("host", "port", "user")]
    yield (
        """<section><h2>MQTT broker</h2>
<label>Host <input name="host" required value="%s"></label>
<label>Port <input name="port" inputmode="numeric" value="%s" placeholder="1883; 8883 with TLS"></label>
<label>User <input name="user" value="%s"></label>
<label>Password <input name="password" type="password"%s></label>
<details%s><summary>TLS</summary>
"""
        % (host, port, user, as_before % ", if all else is" if "password" in kept else "", " open" if has_ca else "")
    ).encode()
    if has_ca:
        yield b'<p>A certificate is there.</p><label><input name="plain" type="checkbox"> Without TLS</label>\n'
    yield (
        """<label>Certificate of the broker's CA, PEM or DER <input name="ca" type="file"></label></details></section>
"""
    ).encode()
    if answering is not None:
        yield from _sensors(answering, shown.get("sensors"), buses)
    yield (
        """<section><h2>Device</h2>
<label>Name <input name="device" value="%s" placeholder="%s"></label>
<label><input name="ha" type="checkbox"%s> Show it in Home Assistant</label>%s</section>
<button>Save and start</button></form>
"""
        % (
            escape(shown.get("device", "")),
            escape(device),
            " checked" if shown.get("ha") else "",
            "" if networks is None else _CODE,
        )
    ).encode()


def _sensors(answering, chosen, buses):
    yield b"<section><h2>Sensors</h2>\n"
    if not answering:
        text = "<p>None answers on I2C (SDA %d, SCL %d) or 1-Wire (%d). Connect them, and search again; or later.</p>\n"
        yield (text % buses).encode()
    for i in range(len(answering)):
        entry, measures = answering[i]
        mark = "" if chosen is not None and entry not in chosen else " checked"
        yield (
            """<label><input name="sensor%d" type="checkbox"%s> %s: %s</label>
<input name="name%d" value="%s" aria-label="Name">
"""
            % (i, mark, entry["driver"], measures, i, escape(entry.get("name") or entry["driver"]))
        ).encode()
    yield b"</section>\n"


def _wifi(shown, networks, as_before=""):
    yield b'<section><h2>Wi-Fi</h2><label>Network <select name="ssid">\n'
    hidden = shown.get("wifi_ssid", "")
    chosen = hidden
    for ssid, rssi, locked in networks:
        name = escape(ssid)
        mark = ""
        if ssid == chosen:
            mark = " selected"
            hidden = ""
        more = "" if locked else ", open"
        yield ('<option value="%s"%s>%s (%s dBm%s)</option>\n' % (name, mark, name, rssi, more)).encode()
    yield b'</select></label><p><a href="/scan">Search again</a></p>\n'
    yield (
        """<details%s><summary>The network is hidden</summary>
<label>Its name <input name="other" value="%s"></label></details>
<label>Key <input name="key" type="password"%s></label>
"""
        % (" open" if hidden else "", escape(hidden), as_before)
    ).encode()
    yield b"""<label><input type="checkbox" onclick="key.type=checked?'text':'password'"> Show it</label></section>
"""


def network_form(shown, networks):
    """Yields the form for a device that has a configuration; shown, networks: as for form()."""
    yield b"""<form method="post" action="/" autocapitalize="none" autocomplete="off">
<section><h2>Device</h2><p>This changes the network. All else stays.</p>
<label>Code, the key of this Wi-Fi <input name="code" type="password" required>
</label></section>
"""
    yield from _wifi(shown, networks)
    yield b"<button>Save and start</button></form>\n"
