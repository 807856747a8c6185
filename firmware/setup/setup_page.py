# The beginning of each page of the set-up: HTML that needs no scripts. A page is made of pieces, so it never stands in
# RAM as a whole; it is smaller than 8 KB, so it is not compressed. No page shows a secret. Loaded for a page, and
# unloaded before the rest is: see setup. The texts stand where they are used, since each name of a module takes RAM.

from setup_http import escape


def page(name, note, refresh):
    """Yields the beginning of a page in pieces, bytes. name: of the device's access point, or of the device. note: what
    is told, and "good", "bad" or "". refresh: the browser asks again soon."""
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
