"""The way of one message, as far as the tables and landing files show it."""

from inflight_tools.fleet.where import landed

DELIVERED = "delivered"
_PLACES = {"device": "journal", "erased": "erased", "way": "way"}  # of views.missing(), and ours


class Unknown(Exception):
    """The tables do not know the device, or its journal. The text says what they know."""


def _journal(epochs, device, epoch):
    """The epoch that is asked for, by default the epoch of the device's newest journal. Raises Unknown."""
    if not epochs:
        raise Unknown(f"no message with a number has arrived from a device {device}: is it in another --data?")
    if epoch is not None and epoch not in epochs:
        raise Unknown(f"no message of a journal with epoch {epoch} has arrived from {device}, but of {_listed(epochs)}")
    return epochs[-1] if epoch is None else epoch


def _listed(epochs):
    return ", ".join(map(str, epochs))


def answer(history, device, number, landing, root, topics, epoch=None):
    """The way of message `number` of `device` as a dict that can be written as JSON; times are in s since 1970. Raises
    Unknown.

    landing, root: folders or URIs of landing files and tables. topics: root of the devices' topics. epoch: of
    the journal, by default the newest."""
    epochs = history.epochs()
    epoch = _journal(epochs, device, epoch)
    first, last = history.bounds(epoch)
    told = history.told(epoch, number)
    found = {
        "device": device,
        "epoch": epoch,
        "epochs": epochs,
        "number": number,
        "accepted": {"first": first, "next": last + 1, "oldest": told["oldest"]},
        "told": told["last"],
        "acknowledged": told["acknowledged"],
        "deliveries": history.deliveries(epoch, number),
        "tables": history.rows(epoch, number),
        "written": history.written(epoch, number),
        "landed": [],
        "proved": True,
    }
    for delivery in found["deliveries"]:
        delivery["file"] = landed.file_of(landing, root, delivery)
    if found["deliveries"] or history.has(epoch, number):
        is_gone = history.lacks_rows and not found["deliveries"]
        return found | {"place": "damaged" if is_gone else DELIVERED}
    found["landed"] = landed.waiting(landing, topics, device, epoch, number)
    if found["landed"]:
        return found | {"place": "landed"}
    if not first < number < last:
        return found | {"place": "before" if number < first else "after", "proved": False}
    return found | _missing(history, epoch, number)


def _missing(history, epoch, number):
    places = history.places()
    is_there = (row for row in places if row[0] == epoch and row[1] <= number <= row[2])
    _, _, _, place, proved = next(is_there, (epoch, number, number, "way", False))  # a batch was written meanwhile
    if place != "gone":
        return {"place": _PLACES[place], "proved": proved}
    gone = sum(high - low + 1 for _, low, high, where, _ in places if where == "gone")
    counted = history.counted()
    given_up = min(sum(counted.values()), gone)
    place = "lost" if not given_up else "given-up" if given_up == gone else "lost-or-given-up"
    return {"place": place, "proved": proved, "gone": gone, "counted": counted, "expires": history.expires()}
