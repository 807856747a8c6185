"""The commands `inflight fleet ...`, each from the package that does its work."""

from inflight_tools import fleet
from inflight_tools.fleet import device
from inflight_tools.fleet.collect.command import collect
from inflight_tools.fleet.home_assistant.command import history
from inflight_tools.fleet.monitoring.command import check
from inflight_tools.fleet.pipeline.command import pipeline
from inflight_tools.fleet.query.command import export
from inflight_tools.fleet.report.command import report
from inflight_tools.fleet.service import service
from inflight_tools.fleet.spark.command import compact, tables
from inflight_tools.fleet.transfer.command import download, upload
from inflight_tools.fleet.where.command import where
from inflight_tools.group import Group

app = Group("fleet", help=fleet.__doc__)

app.add("collect --broker broker.example --landing telemetry/landing")(collect)
app.add("tables --data telemetry --once")(tables)
app.add(
    "upload s3://bucket/landing --data telemetry",
    help="""Moves finished landing files into object storage, until it is stopped or --once. A file is deleted here
    after it was read back from there and compared; --keep-moved moves it into the folder `uploaded` of the landing
    folder instead. It may be killed at any time: the next run continues.""",
)(upload)
app.add(
    "download s3://bucket/landing --data telemetry",
    help="""Downloads landing files from object storage for `tables`, each exactly once, until it is stopped or --once.
    The object is deleted afterwards; --keep-moved moves it into the folder `downloaded` beside the others instead. It
    may be killed at any time: the next run continues.""",
)(download)
app.add("report --data telemetry --device attic", ", 3 with --fail-on: messages are lost")(report)
app.add("check --data telemetry --since 24h", ", or more of something than its option says")(check)
app.add("where attic 1234 --data telemetry", ", 3 the message is not in the tables: the output says why")(where)
app.add("compact --data telemetry --keep 90d")(compact)
app.add("export folder --data telemetry")(export)
app.add("history --home-assistant https://homeassistant.local:8123 --token-file token")(history)
app.add("service --broker broker.example --ca ca.pem --user collector-0 --password-file password")(service)
app.add("pipeline --broker broker.example --data telemetry")(pipeline)
app.add_typer(device.app, name="device")
