"""`inflight fleet service`: units that systemd takes, and that start what they say; a compose file with the same
commands, which no engine runs here."""

import shlex
import shutil
import signal
import subprocess

import pytest
import typer
import yaml

from host_tests.tools.command import inflight
from host_tests.waiting import wait_for
from inflight_tools import cli
from tools.setup.common import CHECKOUT

PATIENCE_S = 240


def written(folder, *words, **variables):
    """{name: text} of the units."""
    done = inflight("fleet", "service", folder, *words, **variables)
    assert done.exit_code == 0 and ("systemctl enable --now" in done.stdout or "--compose" in words), done.output
    return {path.stem: path.read_text() for path in folder.glob("*.service")}


def line(unit, name):
    """The only value of this setting."""
    (found,) = [one.partition("=")[2] for one in unit.splitlines() if one.startswith(f"{name}=")]
    return found


@pytest.mark.parametrize("data", ["/var/lib/inflight", '/srv/50% of "my" data;', "/srv/ü/$x", "/var/lib/../lib/a:b"])
def test_systemd_takes_them(tmp_path, data):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    (tmp_path / "pass word").write_text("secret\n")
    words = ("--broker", "localhost", "--user", "collector-0", "--password-file", tmp_path / "pass word")
    units = written(tmp_path / "units", "--data", data, *words)
    assert units.keys() == {"inflight-collect", "inflight-tables", "inflight-serve"}
    assert "secret" not in "".join(units.values())
    paths = sorted((tmp_path / "units").iterdir())
    done = subprocess.run(["systemd-analyze", "verify", *paths], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    writes = [one.partition("=")[2] for one in units["inflight-serve"].splitlines() if one.startswith("ReadWritePaths")]
    whole = data.replace("/../lib", "").replace("%", "%%")
    assert [shlex.split(one) for one in writes] == ([[whole]] if data != "/var/lib/inflight" else [])


@pytest.mark.parametrize("words", [("--listen", "x y"), ("--run-as", "a\nExecStart=b"), ("--data", "/srv/a\nb")])
def test_what_no_unit_can_have_is_refused(tmp_path, words):
    done = inflight("fleet", "service", tmp_path / "units", "--broker", "localhost", *words)
    assert done.exit_code == (1 if "--data" in words else 2) and not (tmp_path / "units").exists()


def test_what_they_start_ends_quietly(tmp_path, mosquitto):
    """At SIGTERM, with exit status 0: systemd takes another one for a failure. The console is there before data are."""
    units = written(
        tmp_path / "units", "--data", tmp_path / "my data", "--broker", f"127.0.0.1:{mosquitto().port}",
        "--listen", "0", "--metrics", "0", JAVA_HOME="/usr/lib/my java",
    )  # fmt: skip
    assert shlex.split(line(units["inflight-tables"], "Environment"))[1] == "JAVA_HOME=/usr/lib/my java"
    for name, ready in (("serve", "is at http://127.0.0.1:"), ("collect", "connected to")):
        with open(tmp_path / name, "w+") as said:
            process = subprocess.Popen(shlex.split(line(units[f"inflight-{name}"], "ExecStart")), stderr=said)
            try:
                wait_for(lambda n=name, r=ready: r in (tmp_path / n).read_text(), PATIENCE_S)
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0
            finally:
                process.kill()
            assert "Traceback" not in (tmp_path / name).read_text()
    assert (tmp_path / "my data/landing").is_dir() and "there is no folder" in (tmp_path / "serve").read_text()


def test_a_password_that_units_do_not_have_is_refused(tmp_path):
    done = inflight("fleet", "service", tmp_path / "units", "--broker", "localhost", INFLIGHT_PASSWORD="secret")
    assert done.exit_code == 1 and done.stderr.count("\n") == 1
    assert "write it into a file, for --password-file" in done.stderr
    assert not (tmp_path / "units").exists()


def accept(words):
    """Parses the words as `inflight` does, without running the command. Fails if it does not take them."""
    command, name = typer.main.get_command(cli.build(words[0])), "inflight"
    while hasattr(command, "commands"):
        name, command, words = words[0], command.commands[words[0]], words[1:]
    command.make_context(name, list(words))


@pytest.fixture
def composed(tmp_path):
    """The services of a compose file, and those of the units that the same words make."""
    (tmp_path / "pass$word").write_text("secret\n")
    words = ["--user", "collector-0", "--password-file", tmp_path / "pass$word", "--data", "/srv/my data"]

    def make(broker):
        units = written(tmp_path / "units", *words, "--broker", broker)
        written(tmp_path / "compose", *words, "--broker", broker, "--compose")
        assert "secret" not in (text := (tmp_path / "compose/compose.yaml").read_text())
        return yaml.safe_load(text)["services"], units

    return make


def test_containers_run_the_commands_of_the_units(composed):
    services, units = composed("127.0.0.1")
    assert [*services] == ["broker", "collect", "tables", "serve"]
    for name in ("collect", "tables", "serve"):
        command = [word.replace("$$", "$") for word in services[name]["command"]]
        accept(command)
        started = [word.replace("$$", "$") for word in shlex.split(line(units[f"inflight-{name}"], "ExecStart"))]
        more = ["--conf", command[-1]] if name == "tables" else []
        assert started[-len(command) + len(more) :] + more == command
    assert [*composed("broker.example")[0]] == ["collect", "tables", "serve"]


def test_what_containers_may_do(composed):
    """They have no rights and a root that is read-only; each volume is in the command, or in the configuration that the
    command names; the collector alone has the password."""
    services, _ = composed("127.0.0.1")
    configuration = (CHECKOUT / "examples/mosquitto/mosquitto.conf").read_text()
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and int(service["user"].split(":")[0]) > 0
        assert service["security_opt"] == ["no-new-privileges:true"] and service["restart"] == "always"
        assert "0.0.0.0" not in str(service) and service["healthcheck"]["test"][0] == "CMD"
        used = f"{service['command']} {configuration if name == 'broker' else '/tmp'}"
        assert all(volume.split(":")[0] in used for volume in service["volumes"])
        assert ("pass" in str(service["volumes"])) == (name == "collect")
    memory = services["tables"]["command"][-1].removeprefix("spark.driver.memory=")
    assert int(memory[:-1]) + 1024 < int(services["tables"]["mem_limit"][:-1])


def test_a_path_that_no_compose_file_can_have_is_refused(tmp_path):
    done = inflight("fleet", "service", tmp_path / "new", "--compose", "--broker", "localhost", "--data", "/srv/a:b")
    assert done.exit_code == 1 and "no path with a colon" in done.stderr and not (tmp_path / "new").exists()
