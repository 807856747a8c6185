"""The settings of one device: its configuration and certificates, as files for its file system."""

import base64
import codecs
import contextlib
import functools
import importlib
import json
import math
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from inflight_tools import dry_run
from inflight_tools.sources import device_sources, search_path

CONFIG = "/config.json"  # its path on every board
APP = "app"  # the folder of one's own modules, beside the configuration
_KEY_BYTES = 3072 // 8  # of the keys that sign releases
_LARGEST = 3.4e38  # of the numbers with a point: a board has 32 bits for them
SECRETS = ("password", "wifi_key", "wifi_networks", "setup")
_DEVICE_CODE = threading.RLock()
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s*(.*?)-----END \1-----", re.DOTALL)


class Field(NamedTuple):
    """Of the configuration: what the comment in the firmware says, its default, "": none, and (least, most) of a
    number."""

    meaning: str
    default: str
    limits: tuple[int, int] | None
    is_text: bool


class Tls(NamedTuple):
    """Files of this computer, PEM or DER: the CA's certificate, the client's, and its private key."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


NO_TLS = Tls()


def settings(
    config_file: Path | str | None, tls: Tls = NO_TLS, board: Any = None, app: Path | None = None, dry: bool = True
) -> dict[str, bytes]:
    """{absolute path on the device: content} of the configuration in `config_file`, None: none, and of the certificates
    it names: the files in `tls` become DER at the paths that tls_ca, tls_cert and tls_key say.
    board: the Variant; by default it has every pin. app: the folder of one's own drivers, by default APP beside the
    configuration. dry: with a dry run; without one for whoever needs the broker alone.
    ValueError, one line without any secret, if something is wrong, missing, or a secret that git tracks."""
    if not config_file:
        if any(tls):
            raise ValueError("--ca, --cert and --key belong to a configuration: name it with --config")
        return {}
    path = Path(config_file)
    fields, content = _checked(path, board, app or path.parent / APP, dry)
    if secrets := [name for name in SECRETS if fields.get(name)]:
        keep_from_git(path, f"holds {' and '.join(secrets)}")
    result = {CONFIG: content}
    for name, local in tls._asdict().items():
        field = f"tls_{name}"
        place = fields.get(field)
        if bool(place) != bool(local):
            raise ValueError(_half(path, field, f"--{name}", place, local))
        if local:
            place = "/" + place.lstrip("/")
            if place in result:
                raise ValueError(f"{path}: {field}: {place} is taken: write another path")
            result[place] = _der(Path(local), private=field == "tls_key")
    if tls.cert and tls.key:
        _check_pair(Path(tls.cert), Path(tls.key), result)
    return result


def configured(text: str | bytes | None) -> Any:
    """The firmware's Config of a configuration in JSON, without one the defaults. ValueError."""
    given = json.loads(text) if text else {"host": "-"}
    with device_code():
        return importlib.import_module("config").check(given, "device")


@functools.cache
def config_fields() -> dict[str, Field]:
    """The fields of the configuration, by name."""
    found: dict[str, Field] = {}
    numbers, fields, required = (of_firmware("config", name) for name in ("_NUMBERS", "_FIELDS", "REQUIRED"))
    texts = {**of_firmware("config", "_TEXTS"), **dict.fromkeys(of_firmware("network_fields", "TEXTS"))}
    for file in ("config.py", "network_fields.py"):
        above: list[str] = []
        for line in (device_sources().firmware / file).read_text("utf-8").splitlines():
            row = re.fullmatch(r' +\(?"(\w+)"(?::.+?)?,?\)?(?:  # (.+))?', line)
            comment = re.fullmatch(r" +# (.+)", line)
            if row and row[1] in fields and (above or row[2]):
                name, meaning = row[1], " ".join([*above, *filter(None, [row[2]])])
                default, *limits = numbers.get(name, (texts.get(name),))
                default = "" if default is None else "needed" if default == required else str(default)
                found[name] = Field(meaning, default, tuple(limits) or None, name in texts)
            above = [*above, comment[1]] if comment else []
    if missing := {*fields} - {*found}:
        raise ValueError(f"no comment says what these fields mean: {sorted(missing)}")
    return dict(sorted(found.items()))


@functools.cache
def of_firmware(module: str, name: str) -> Any:
    """What a module of the firmware has under that name."""
    with device_code():
        return getattr(importlib.import_module(module), name)


def known_drivers(kind: str) -> list[str]:
    """The drivers that the firmware has for a "sensor" or an "actuator"."""
    known: str = of_firmware(f"{kind}s", "KNOWN")
    return known.split(", ")


def _checked(path: Path, board: Any, app: Path, dry: bool) -> tuple[dict[str, Any], bytes]:
    """(the fields of the configuration, the file that a device gets), checked by the firmware's own code."""
    if not path.is_file():
        raise ValueError(f"no file {path}: write one, docs/configuration.md tells the fields, or name it: --config")
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    with device_code():
        config = importlib.import_module("config")
        try:
            fields = config.parse(content, functools.partial(_strict, config.ConfigError))
            checked = config.check(fields, "device")
            own = {file.stem.partition("_")[2] for kind in ("sensor", "actuator") for file in app.glob(f"{kind}_*.py")}
            for problem in dry_run.problems(checked, board, own) if dry else ():
                raise ValueError(problem)
        except ValueError as e:
            problem = str(e)
        else:
            problem = ""
    if problem:  # here the error has no context, which could quote the file
        raise ValueError(f"{path}: {problem}")
    # The firmware knows what one looks like. A wrong one would bar all updates, so here it is looked at again.
    for number, key in enumerate(fields.get("update_keys") or (), 1):
        if not is_public_key(key):
            raise ValueError(f"{path}: update_keys: number {number} is no public key: copy what `inflight keys` prints")
    return fields, content


def _strict(error: type[Exception], text: str) -> Any:
    """What the JSON `text` says. error(text) where it says nothing, or not the same to everybody."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise error(f'"{name}" is there twice: remove one of them')
            found[name] = value
        return found

    def number(digits: str) -> float:
        if abs(value := float(digits)) > _LARGEST:
            raise error(f"{digits} is too large: a device knows numbers up to {_LARGEST:g}")
        return value

    def refuse(name: str) -> NoReturn:
        raise error(f"{name} is no JSON: write a number")

    try:
        return json.loads(text, object_pairs_hook=once, parse_float=number, parse_constant=refuse)
    except json.JSONDecodeError as e:
        line = e.lineno
    except RecursionError:
        raise error("nests too deep") from None
    raise error(f"not JSON: look for a missing quote, comma or brace in line {line}, or before")


@contextlib.contextmanager
def device_code() -> Iterator[None]:
    """Within it, modules of the firmware, and the modules of boards that they import, have their own names, which other
    packages may have as well. One thread at a time is within it."""
    sources = device_sources()
    folders = [*search_path(sources.firmware), sources.boards / "common"]
    names = {file.stem for folder in folders for file in folder.glob("*.py")}
    with _DEVICE_CODE:
        hidden = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
        before = list(sys.path)
        sys.path[:0] = map(str, folders)
        try:
            yield
        finally:
            sys.path[:] = before
            for name in names:
                sys.modules.pop(name, None)
            sys.modules.update(hidden)


def is_public_key(text: str) -> bool:
    """True if `text` may be a public key that checks releases: the modulus of an RSA key in base64. Such a number has
    no small factors; nine of ten in which a digit was changed have one."""
    try:
        modulus = base64.b64decode(text, validate=True)
    except ValueError:
        return False
    number = int.from_bytes(modulus, "big")
    return len(modulus) == _KEY_BYTES and modulus[0] >= 0x80 and math.gcd(number, _small_primes()) == 1


@functools.cache
def _small_primes() -> int:
    """The product of all primes below 2**16."""
    is_prime = bytearray(b"\1") * (1 << 16)
    for n in range(2, 1 << 8):
        is_prime[n * n :: n] = bytes(len(range(n * n, 1 << 16, n)))
    return math.prod(n for n in range(2, 1 << 16) if is_prime[n])


def _half(path: Path, field: str, option: str, place: str | None, local: Path | None) -> str:
    if local:
        return f'{path}: {field} is missing: write where {local} goes on the device, "{field}": "/{field[4:]}.der"'
    return f"{path}: {field} is {place}: name the file that goes there with {option} <PEM or DER file>"


def _der(path: Path, private: bool) -> bytes:
    """The one certificate or private key in a PEM or DER file, as DER: MicroPython on boards does not read PEM."""
    kind = "private key" if private else "certificate"
    if not path.is_file():
        raise ValueError(f"no file {path}: name the {kind}'s file")
    if private:
        keep_from_git(path, "is a private key")
    data = path.read_bytes()
    if b"-----BEGIN " in data:
        wanted = b"PRIVATE KEY" if private else b"CERTIFICATE"
        found = [body for label, body in _PEM.findall(data) if label.endswith(wanted)]
        if len(found) != 1:
            raise ValueError(f"{path}: {len(found)} PEM blocks with a {kind}: a device takes exactly one")
        if private and b"ENCRYPTED" in data:
            raise ValueError(f"{path}: the key is encrypted: decrypt it first, a device knows no pass phrase")
        data = base64.b64decode(found[0])
    if not _is_der(data) or not (private or _is_certificate(data)):
        raise ValueError(f"{path}: not a {kind} in PEM or DER")
    return data


def _check_pair(cert: Path, key: Path, files: dict[str, bytes]) -> None:
    """ValueError unless the private key, the last of `files`, belongs to the certificate before it."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from cryptography.hazmat.primitives.serialization import load_der_private_key
        from cryptography.x509 import load_der_x509_certificate
    except ImportError:
        return  # the pipeline alone: it brings nothing to a device, and connects with both
    *_, certificate, private = files.values()
    try:
        found = load_der_private_key(private, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise ValueError(f"{key}: a device knows private keys of RSA and EC alone, and no pass phrase")
    if found.public_key() != load_der_x509_certificate(certificate).public_key():
        raise ValueError(f"{key} is not the private key of {cert}: name the key with which it was made")


def _is_der(data: bytes) -> bool:
    """True if `data` is one ASN.1 sequence from its first byte to its last."""
    if data[:1] != b"\x30" or len(data) < 4:
        return False
    head = 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)
    length = int.from_bytes(data[2:head], "big") if data[1] & 0x80 else data[1]
    return head + length == len(data)


def _is_certificate(data: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data)
    except ssl.SSLError:
        return False
    return True


def _git(path: Path, *words: str) -> bool:
    """True if git confirms that about the file `path`; False without git."""
    command = ["git", "-C", str(path.absolute().parent), *words, path.name]
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def keep_from_git(path: Path, why: str) -> None:
    """Prevents the commit of secrets: refuses a file that git tracks, and warns of one that it could track."""
    if _git(path, "ls-files", "--error-unmatch", "--"):
        raise ValueError(f"{path} {why} and git tracks it: move it, or `git rm --cached` it and list it in .gitignore")
    if _git(path, "ls-files", "--error-unmatch", "--others", "--exclude-standard", "--"):
        print(f"note: {path} {why} and git does not ignore it: list it in .gitignore", file=sys.stderr)
