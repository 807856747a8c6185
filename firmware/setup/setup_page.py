# The pages of the set-up: HTML without scripts, made of pieces, so that none stands in RAM as a whole. Each is smaller
# than 8 KB, so it is not compressed. They show no secret. Loaded for a page, and unloaded: see setup. The texts stand
# where they are used, since each name of a module takes RAM.


def escape(text):
    """Text for HTML."""
    for character, entity in ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"):
        text = text.replace(character, entity)
    return text


def page(name, note, parts=(), refresh=False):
    """Yields a page in pieces, bytes. name: of the device's access point, or of the device. note: what is told, and
    "good", "bad" or "". parts: what follows. refresh: the browser asks again soon."""
    name = escape(name)
    note, kind = note
    yield (
        """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">%s
<title>%s</title>
"""
        % ('<meta http-equiv="refresh" content="2;url=/">' if refresh else "", name)
    ).encode()
    yield b"""<style>
:root{color-scheme:light dark;--page:#f1f3f2;--card:#fff;--ink:#1b1f23;--link:#00609a}
@media(prefers-color-scheme:dark){:root{--page:#121518;--card:#1d2226;--ink:#e7e9eb;--link:#7cc4f0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:30em;margin:auto;padding:1.25em 1em 3em}
h1,h2{font-size:1.15em;margin:0}h1{font-size:1.6em}h1+p{margin:0}
section,.note{background:var(--card);border-radius:12px;padding:1em;margin:1em 0}
.note{border-left:6px solid var(--link);font-weight:600}.good{border-color:#1a9a6c}.bad{border-color:#d55e00}
label,p{display:block;margin:.8em 0 0}
input,select,button,a{display:block;font:inherit;color:inherit;width:100%;min-height:48px;margin-top:4px;\
padding:.7em .75em;border:1px solid #818a92;border-radius:8px;background:var(--card)}
a,button{text-align:center;font-weight:600}
a,summary{color:var(--link);text-decoration:none}
button{background:var(--link);color:var(--card)}
input[type=checkbox]{display:inline;width:24px;vertical-align:middle}
::placeholder{color:inherit;opacity:.7}
summary{min-height:44px;padding:.7em 0;cursor:pointer}
progress{width:100%;height:12px;accent-color:var(--link)}
:focus-visible{outline:3px solid var(--link)}
</style></head>
"""
    yield ("<body><main><h1>Inflight</h1><p>Set-up of %s</p>\n" % name).encode()
    if note:
        yield ('<p class="note %s" role="status" id="outcome">%s</p>\n' % (kind, escape(note))).encode()
    if refresh:
        yield b'<progress aria-label="The device tries the settings"></progress><p>This takes up to a minute.</p>\n'
    yield from parts
    yield b"</main></body></html>\n"


def again(access_point):
    """Yields what follows while settings are tried. access_point: the name of the device's own network."""
    yield ("<p>If this page goes away, join the Wi-Fi <b>%s</b> again, and reload it.</p>\n" % access_point).encode()


def next_steps(access_point, topic, home, address):
    """Yields what follows when the device is set up. access_point: None if there is a cable. topic: of its readings.
    home: whether it announces itself to Home Assistant. address: of the device in the network, None: it has none."""
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
        yield from wifi(shown, networks, as_before % "" if "wifi_key" in kept else "")
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


def wifi(shown, networks, as_before=""):
    """Yields the part of a form with the network. as_before: a placeholder for its key."""
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
