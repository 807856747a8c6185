"""The commands `inflight fleet ...`, each from the package that does its work."""

from inflight_tools import fleet
from inflight_tools.app import App
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
from inflight_tools.output import epilog

app = App(no_args_is_help=True, help=fleet.__doc__)


def _add(main, example, status="", **more):
    """Adds the command `name`. status: a further exit status, and what it means."""
    name = example.split()[0]
    app.command(name, epilog=epilog(f"fleet {example}", status), **more)(main)


_add(collect, "collect --broker broker.example --landing telemetry/landing")
_add(tables, "tables --data telemetry --once")
_add(
    upload,
    "upload s3://bucket/landing --data telemetry",
    help="""Moves finished landing files into object storage, until it is stopped or --once. A file is deleted here
    after it was read back from there and compared; --keep-moved moves it into the folder `uploaded` of the landing
    folder instead. It may be killed at any time: the next run continues.""",
)
_add(
    download,
    "download s3://bucket/landing --data telemetry",
    help="""Downloads landing files from object storage for `tables`, each exactly once, until it is stopped or --once.
    The object is deleted afterwards; --keep-moved moves it into the folder `downloaded` beside the others instead. It
    may be killed at any time: the next run continues.""",
)
_add(report, "report --data telemetry --device attic", "3 with --fail-on: messages are lost")
_add(check, "check --data telemetry --since 24h", "or more of something than its option says")
_add(where, "where attic 1234 --data telemetry", "3 the message is not in the tables: the output says why")
_add(compact, "compact --data telemetry --keep 90d")
_add(export, "export folder --data telemetry")
_add(history, "history --home-assistant https://homeassistant.local:8123 --token-file token")
_add(service, "service --broker broker.example --ca ca.pem --user collector-0 --password-file password")
_add(pipeline, "pipeline --broker broker.example --data telemetry")
app.add_typer(device.app, name="device")
