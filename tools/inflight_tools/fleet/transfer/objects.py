"""A folder of object storage, through Arrow's file systems.

In S3 an object exists when all of it has been sent, but Arrow completes one as well when an error leaves it half
written. So an object gets its name after it was read back, and whoever reads it compares it with its name: names.py.
"""

import contextlib
import functools
import re
from pathlib import Path
from urllib.parse import urlsplit

from inflight_tools.fleet.spark.storage import arrow_files, shown, sync_alone, without_credentials
from inflight_tools.fleet.transfer.names import ENDING

STAGING = "uploading"  # folder of objects that are not yet compared
_ONE_REQUEST = "allow_delayed_open=true"  # for a file below 10 MB, which leaves no part behind when it is killed
_URI = re.compile(r"(?:[\w.~:/?@!$&'()*+,;=-]|%[0-9A-F]{2})*", re.ASCII | re.IGNORECASE)
_ERROR = re.compile(r"AWS Error (\w+)")
_ENCODE = "percent-encode what a URI cannot have there: %20 for a space, %23 for #, %3F for ?"
_NO_BUCKET = "there is no such bucket: create it, or correct the URI"
_NO_ACCESS = (
    "access is refused: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, of a user who may list the "
    "bucket, and read, write and delete its objects"
)
_REFUSALS = "ACCESS_DENIED INVALID_ACCESS_KEY_ID INVALID_CLIENT_TOKEN_ID MISSING_AUTHENTICATION_TOKEN"
_REFUSALS += " SIGNATURE_DOES_NOT_MATCH UNRECOGNIZED_CLIENT"
_ADVICE = {"NO_SUCH_BUCKET": _NO_BUCKET} | dict.fromkeys(_REFUSALS.split(), _NO_ACCESS)


class Refused(Exception):
    """The storage refuses permanently. The text says what to do."""


def _is_missing(files, bucket):
    from pyarrow.fs import FileType

    with contextlib.suppress(OSError):  # who may only see some of its folders may not ask for the bucket
        return files.get_file_info(bucket).type == FileType.NotFound
    return False


def _asking(work):
    """A method that asks the storage, which is opened before."""

    @functools.wraps(work)
    def asked(self, *words):
        try:
            if not self._files:
                self._open()
            return work(self, *words)
        except FileNotFoundError:
            raise
        except OSError as e:
            raise self._told(e) from None

    return asked


class Objects:
    """The objects directly below `uri`, as s3://bucket/folder. Each method raises Refused, and OSError if the storage
    cannot be reached; ValueError: Arrow does not know such a URI, or it has credentials, or characters that must be
    percent-encoded.

    uri: for messages, without credentials."""

    def __init__(self, uri):
        self._uri = without_credentials(uri.rstrip("/"))
        self.uri = shown(self._uri)
        if not _URI.fullmatch(uri):
            raise ValueError(f"{self.uri}: {_ENCODE}")
        parts = urlsplit(self._uri)
        if not parts.scheme or not (parts.netloc or parts.path.strip("/")):
            raise ValueError(f"{self.uri}: a URI like s3://bucket/folder")
        self._is_s3, self._is_here = parts.scheme in ("s3", "s3a"), parts.scheme == "file"
        if self._is_here and "?" in uri:  # Arrow would cut the path there
            raise ValueError(f"{self.uri}: {_ENCODE}")
        self._files = None

    def check_apart(self, landing, *below):
        """Raises ValueError if this is a folder of this machine in which landing files would be taken for objects, or
        objects for landing files: the folder `landing` or one below it, or if `landing` is in one of the folders
        `below`. There a file would be its own copy, and be deleted as such."""
        if not self._is_here:
            return
        here, landing = Path(self._arrow()[1]).resolve(), Path(landing).resolve()
        if here.is_relative_to(landing) or any(landing.is_relative_to(here / name) for name in below):
            raise ValueError(f"{self.uri} and the landing folder {landing} share files: give a folder outside of it")

    def _arrow(self):
        options = f"{'&' if '?' in self._uri else '?'}{_ONE_REQUEST}" if self._is_s3 else ""
        try:
            return arrow_files(self._uri + options)
        except ValueError as e:
            text = shown(str(e).partition("\n")[0])
            raise ValueError(f"{self.uri}: {text.replace(options, '')}") from None

    def _told(self, error):
        """Refused if the storage does not let us in, FileNotFoundError; otherwise the error itself."""
        text = str(error).partition("\n")[0]
        found = _ERROR.search(text)
        code = found[1] if found else "NO_SUCH_BUCKET" if re.search("Bucket '.*' not found", text) else ""
        if code == "NO_SUCH_KEY":  # deleted between two requests
            return FileNotFoundError(text)
        return Refused(f"{self.uri}: {_ADVICE[code]} ({code})") if code in _ADVICE else error

    def _open(self):
        """Makes a folder that is missing. A bucket is not made: its region and its rules are somebody's decision."""
        from pyarrow.fs import FileSelector

        files, self._folder = self._arrow()
        try:
            files.get_file_info(FileSelector(self._folder))
        except FileNotFoundError:
            if not self._is_s3:
                files.create_dir(self._folder)
            elif _is_missing(files, self._folder.partition("/")[0]):
                raise Refused(f"{self.uri}: {_NO_BUCKET}") from None
        self._files = files

    def _path(self, name):
        return f"{self._folder}/{name}"

    @_asking
    def open(self):
        """Asks the storage, if nothing has been asked so far. Any method does so itself."""

    @_asking
    def names(self):
        """{name: bytes} of landing files. Names with a dot in front are left out."""
        from pyarrow.fs import FileSelector

        found = self._files.get_file_info(FileSelector(self._folder, allow_not_found=True))
        names = {one.base_name: one.size for one in found if one.is_file}
        return {name: size for name, size in names.items() if name.endswith(ENDING) and not name.startswith(".")}

    @_asking
    def read(self, name):
        """The content of an object. Raises FileNotFoundError."""
        return self.read_once(name)

    def read_once(self, name):
        with self._files.open_input_stream(self._path(name)) as file:
            return file.read()

    @_asking
    def write(self, name, content):
        """Writes an object into the folder STAGING, reads it again, and moves it. So nobody sees it, or takes it away,
        before that. It is durable then. Raises OSError if what was read is not the `content`."""
        staged = f"{STAGING}/{name}"
        self._make(STAGING)
        with self._files.open_output_stream(self._path(staged)) as file:
            file.write(content)
        if self.read_once(staged) != content:
            raise OSError(f"{self.uri}/{staged} is not what was written there")
        self._sync(self._path(staged))
        self._files.move(self._path(staged), self._path(name))
        self._sync(self._folder)

    def _sync(self, path):
        """Makes a file or a folder of this machine durable, as S3 does with an object by itself."""
        if self._is_here:
            sync_alone(path)

    def _make(self, folder):
        if not self._is_s3:  # which has no folders
            self._files.create_dir(self._path(folder))

    @_asking
    def delete(self, name):
        """Deletes an object, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))

    @_asking
    def move(self, name, folder):
        """Moves an object into a folder below, if it is there."""
        self._make(folder)
        with contextlib.suppress(FileNotFoundError):
            self._files.move(self._path(name), self._path(f"{folder}/{name}"))
