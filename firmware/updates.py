# What of updates stays loaded, in a device whose configuration has update_keys.


def listen(app):
    """Subscribes to announcements of releases and their chunks, for device `app`."""

    def received(message):
        if not app.update:
            from updating import Update

            app.update = Update(app)
        app.update.received(message)

    app.client.subscribe("%s/%s/update/+" % (app.config.root, app.config.device), 1, received, True)
