# What follows the beginning of a page of the set-up: see setup_page.

from setup_http import escape


def again(access_point):
    """Yields what follows while settings are tried. access_point: the name of the device's own network."""
    yield ("<p>If this page goes away, join the Wi-Fi <b>%s</b> again, and reload it.</p>\n" % access_point).encode()


def next_steps(access_point, address, topic, home):
    """Yields what follows when the device is set up. access_point: None if there is a cable. address: of the device in
    the network, None: it has none. topic: of its readings. home: whether it announces itself to Home Assistant."""
    yield b"<section><h2>What comes next</h2>\n"
    if access_point:
        yield (
            "<p>The Wi-Fi <b>%s</b> goes away: join your own network again with this phone or computer.</p>\n"
            % access_point
        ).encode()
    yield ("<p>The readings arrive at the broker, with the topic <b>%s</b>.</p>\n" % escape(topic)).encode()
    if home:
        yield b"<p>Home Assistant lists the device in its integration MQTT.</p>\n"
    if address:
        yield ("<p>The device's address in the network is <b>%s</b>.</p>\n" % address).encode()
    yield b"</section>\n"


def form(shown, networks, kept, has_ca, device):
    """Yields the form. shown: fields of the form and their contents. networks: (ssid, dBm, whether it needs a key),
    None: there is a cable. kept: names of the secrets that stay as they are if their fields are empty. has_ca: a
    certificate is there. device: the identity without a name."""
    yield b'<form method="post" action="/" enctype="multipart/form-data">\n'
    as_before = ' placeholder="empty: as before%s"'
    if networks is not None:
        yield from _wifi(shown, networks, as_before % "" if "wifi_key" in kept else "")
    host, port, user = [escape(str(shown.get(field, ""))) for field in ("host", "port", "user")]
    yield (
        """<section><h2>MQTT broker</h2>
<label>Host <input name="host" maxlength="128" required autocapitalize="none" value="%s"></label>
<label>Port <input name="port" inputmode="numeric" maxlength="5" value="%s" placeholder="1883; 8883 with TLS"></label>
<label>User <input name="user" maxlength="128" autocapitalize="none" autocomplete="off" value="%s"></label>
<label>Password <input name="password" type="password" maxlength="128" autocomplete="off"%s></label>
<details%s><summary>TLS</summary>
"""
        % (
            host,
            port,
            user,
            as_before % ", if all else is" if "password" in kept else "",
            " open" if has_ca else "",
        )
    ).encode()
    if has_ca:
        yield b'<p>A certificate is there.</p><label><input name="plain" type="checkbox"> Without TLS</label>\n'
    yield (
        """<label>Certificate of the broker's CA, PEM or DER <input name="ca" type="file"></label></details></section>
<section><h2>Device</h2>
<label>Name <input name="device" maxlength="64" autocapitalize="none" value="%s" placeholder="%s"></label></section>
<button>Save and start</button></form>
"""
        % (escape(shown.get("device", "")), escape(device))
    ).encode()


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
    yield (
        """</select></label><p><a href="/scan">Search again</a></p>
<details%s><summary>The network is hidden</summary>
<label>Its name <input name="other" maxlength="32" autocapitalize="none" value="%s"></label></details>
<label>Key <input name="key" type="password" maxlength="64" autocomplete="off"%s></label></section>
"""
        % (" open" if hidden else "", escape(hidden), as_before)
    ).encode()


def network_form(shown, networks):
    """Yields the form for a device that has a configuration; shown, networks: as for form()."""
    yield b"""<form method="post" action="/"><section><h2>Device</h2><p>This changes the network. All else stays.</p>
<label>Code <input name="code" type="password" maxlength="63" required autocomplete="off"></label></section>
"""
    yield from _wifi(shown, networks)
    yield b"<button>Save and start</button></form>\n"
