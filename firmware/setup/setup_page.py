# The page of the set-up: HTML without scripts, made of pieces, so that it never stands in RAM as a whole. It is smaller
# than 8 KB, so it is not compressed. It shows no secret.

_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">%s
<title>%s</title><style>
body{font:16px sans-serif;max-width:26em;margin:1em auto;padding:0 1em;color:#222;background:#fff}
label{display:block;margin:.8em 0}input,select,button{font:inherit;width:100%%;box-sizing:border-box;padding:.4em}
input[type=checkbox]{width:auto}small{color:#555}.note{padding:.6em;background:#eef}.bad{background:#fdd}.good{background:#dfd}
</style></head><body><h1>%s</h1>
"""
_NOTE = '<p class="note %s" id="outcome">%s</p>\n'
_FORM = """<form method="post" action="/" enctype="multipart/form-data">
<h2>Wi-Fi</h2><label>Network <select name="ssid">
"""
_OPTION = '<option value="%s"%s>%s (%s dBm%s)</option>\n'
_WIFI = """</select></label><p><a href="/scan">Search again</a></p>
<label>Or its name, if it is hidden <input name="other" maxlength="32" autocapitalize="none" value="%s"></label>
<label>Key <input name="key" type="password" maxlength="64" autocomplete="off"%s></label>
<h2>MQTT broker</h2>
<label>Host <input name="host" maxlength="128" required autocapitalize="none" value="%s"></label>
<label>Port <input name="port" inputmode="numeric" maxlength="5" value="%s" placeholder="1883; 8883 with TLS"></label>
<label>User <input name="user" maxlength="128" autocapitalize="none" autocomplete="off" value="%s"></label>
<label>Password <input name="password" type="password" maxlength="128" autocomplete="off"%s></label>
<label>For TLS: certificate of the broker's CA, PEM or DER%s <input name="ca" type="file"></label>
"""
_FORGET_CA = ' (one is there)</label><label><input name="plain" type="checkbox"> Without TLS</label><label>Another'
_END = """<h2>Device</h2>
<label>Name <input name="device" maxlength="64" autocapitalize="none" value="%s" placeholder="%s"></label>
<p><button>Save and start</button></p></form>
"""
_KEPT = ' placeholder="empty: as before"'
_KEPT_PASSWORD = ' placeholder="empty: as before, if all else is"'


def escape(text):
    """Text for HTML."""
    for character, entity in _ESCAPES:
        text = text.replace(character, entity)
    return text


def page(title, note, kind, shown=None, networks=(), kept=(), has_ca=False, device="", refresh=False):
    """Yields the page in pieces, bytes. note: what is told, kind: "good", "bad" or "". shown: fields of the form and
    their contents, None: no form. networks: (ssid, dBm, whether it needs a key). kept: names of the secrets that stay
    as they are if their fields are empty. has_ca: a certificate is there. device: the identity without a name. refresh:
    the browser asks again soon."""
    title = escape(title)
    yield (_HEAD % ('<meta http-equiv="refresh" content="2;url=/">' if refresh else "", title, title)).encode()
    if note:
        yield (_NOTE % (kind, escape(note))).encode()
    if shown is not None:
        yield _FORM.encode()
        yield from _networks(networks, shown.get("wifi_ssid"))
        yield from _fields(shown, networks, kept, has_ca, device)
    yield b"</body></html>\n"


def _networks(networks, chosen):
    for ssid, rssi, locked in networks:
        name = escape(ssid)
        mark = " selected" if ssid == chosen else ""
        yield (_OPTION % (name, mark, name, rssi, "" if locked else ", open")).encode()


def _fields(shown, networks, kept, has_ca, device):
    ssid = shown.get("wifi_ssid", "")
    hidden = "" if ssid in [network[0] for network in networks] else ssid
    values = [hidden] + [str(shown.get(name, "")) for name in ("host", "port", "user")]
    hidden, host, port, user = [escape(value) for value in values]
    key = _KEPT if "wifi_key" in kept else ""
    password = _KEPT_PASSWORD if "password" in kept else ""
    yield (_WIFI % (hidden, key, host, port, user, password, _FORGET_CA if has_ca else "")).encode()
    yield (_END % (escape(shown.get("device", "")), escape(device))).encode()
