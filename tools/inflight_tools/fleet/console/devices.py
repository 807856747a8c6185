"""The pages of the console that devices make with their own messages: a broker alone is needed, no tables."""

from inflight_tools.devices import tables
from inflight_tools.fleet.console.server import HTML, TEXT, Refused
from inflight_tools.fleet.report import render_roster


def of_devices(connection):
    """{path: page} of a devices.roster.Connection, for a server.Console."""
    roster, broker = connection.roster, connection.broker
    place = f"{broker.root}/+ on {broker.place}"

    def fresh(_=None):
        return TEXT, f"{roster.version}-{roster.trouble}"

    def fleet(_):
        live = fresh()[1]
        return HTML, render_roster(place, live, roster.trouble, [tables.words(one) for one in roster.devices.values()])

    def device(query):
        live, found = fresh()[1], roster.devices.get(query.get("name", ""))
        if found is None:
            raise Refused(404, "There is no status of a device of this name.")
        return HTML, render_roster(place, live, roster.trouble, device=tables.rows(found))

    return {"/": fleet, "/device": device, "/fresh": fresh}
