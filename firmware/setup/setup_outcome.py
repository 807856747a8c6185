# What follows the beginning of a page of the set-up, see setup_page, when a form was sent; and the texts of its errors.

from setup_http import escape

# {field of the configuration: (its name in the form, its label there)}
_LABELS = {
    "wifi_key": ("key", "Key"),
    "wifi_ssid": ("other", "Name"),
    "host": ("host", "Host"),
    "port": ("port", "Port"),
    "user": ("user", "User"),
    "password": ("password", "Password"),
    "device": ("device", "Name"),
    "setup": ("code", "Code"),
}


def labelled(error):
    """(the name of the form's field that this text of an error is about, or "", the text for a person who sees the
    form)."""
    field = error.split(" ")[0].rstrip(":")
    name, label = _LABELS.get(field, ("", field))
    return name, (label + error[len(field) :]).split(': write {"')[0].split(', "')[0] if name else error


def again(access_point):
    """Yields what follows while settings are tried. access_point: the name of the device's own network."""
    yield ("<p>If this page goes away, join the Wi-Fi <b>%s</b> again, and reload it.</p>\n" % access_point).encode()


def next_steps(access_point, address, device, broker, topic, home, code):
    """Yields what follows when the device is set up. access_point: None if there is a cable. address: of the device in
    the network, None: it has none. device: its name. broker: host and port. topic: the beginning of its topics. home:
    whether it announces itself to Home Assistant. code: whether the access point comes back."""
    yield b"<section><h2>What comes next</h2>\n"
    if access_point:
        yield (
            "<p>The Wi-Fi <b>%s</b> goes away: join your own network again with this phone or computer.</p>\n"
            % access_point
        ).encode()
    device, broker, topic = [escape(text) for text in (device, broker, topic)]
    text = "<p>The readings of <b>%s</b> arrive at the broker <b>%s</b>, with the topic <b>%s/telemetry</b>.</p>\n"
    yield (text % (device, broker, topic)).encode()
    host, _, port = broker.rpartition(":")
    root = topic.rpartition("/")[0]
    root = "" if root == "inflight" else " --root " + root
    text = "<p>To see them in a browser: <b>inflight serve --broker %s%s</b>, if it asks with --user USER. Without \
Inflight: <b>mosquitto_sub -h %s -p %s -v -t %s/#</b>, with -u USER -P PASSWORD.</p>\n"
    yield (text % (broker, root, host, port, topic)).encode()
    if home:
        yield ("<p>Home Assistant lists <b>%s</b> in its integration MQTT.</p>\n" % device).encode()
    if code:
        text = "<p>If your Wi-Fi changes: an hour later <b>%s</b> is there again. Its key is your code.</p>\n"
        yield (text % access_point).encode()
    if address:
        yield ("<p>The device's address in the network is <b>%s</b>.</p>\n" % address).encode()
    yield b"</section>\n"
