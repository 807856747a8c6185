# What of updates stays loaded, in a device whose configuration has update_keys.

from files import beside, exists
from log import report


def listen(app):
    """Subscribes to announcements of releases and their chunks, for device `app`."""

    def received(message=None):
        # Announcements are retained: an error, of memory for instance, would end each start.
        try:
            if not app.update:
                from updating import Update

                app.update = Update(app)
            if message:
                app.update.received(message)
        except Exception as e:
            report(e)

    if exists(beside(app.board, "update.offer")):
        received()  # a fetch goes on
    app.client.subscribe("%s/%s/update/+" % (app.config.root, app.config.device), 1, received, True)
