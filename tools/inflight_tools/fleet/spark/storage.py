"""Files beside the tables: in a folder of this machine, or as Spark's Hadoop sees them, there or at a URI."""

import contextlib
import fnmatch
import functools
import io
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_BUFFER = 1 << 20  # bytes of a request
_AT_ONCE = 16  # files that are copied from object storage
_CREDENTIALS = re.compile(r"(?<=://)(?:[^/:@]*:.*?|[^/@]*)@")
ARCHIVE = "landed"  # folder beside the tables, for landing files that were read


def sync(path, since_ns=0):
    """Makes a file durable, or a folder with all in it that has changed at that time or later. Another process may have
    written it: fsync() is about the file, not about who has it open. What is deleted meanwhile is left out."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        if entry.is_dir() or entry.stat().st_ctime_ns >= since_ns:
                            sync(entry.path, since_ns)
        sync_alone(path)


def sync_alone(path):
    """Makes a file durable, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_asked_for(name, pattern):
    return not name.startswith(".") or pattern.rpartition("/")[2].startswith(".")


def shown(text):
    """`text` without the credentials of URIs in it."""
    return _CREDENTIALS.sub("", text)


def without_credentials(uri):
    """Returns `uri`, a folder or a URI. ValueError if it is one of S3 with credentials in it: they would be in the list
    of processes, and in logs."""
    if uri.startswith(("s3://", "s3a://")) and shown(uri) != uri:
        raise ValueError(
            f"{shown(uri)}: credentials stand in no URI, since all users see it in the list of processes: set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    return uri


def arrow_files(uri):
    """(pyarrow FileSystem, folder in it) of a URI that Arrow knows. S3 takes its settings from the environment."""
    from pyarrow.fs import FileSystem

    return FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))


class Folder:
    """The files in the folder `root` of this machine, without Spark. Names are relative to it."""

    def __init__(self, root):
        self._root = str(root).rstrip("/")

    def path(self, name):
        return f"{self._root}/{name}"

    @property
    def is_local(self):
        """Whether it is a folder of this machine. What object storage has accepted is durable."""
        return "://" not in self._root

    def sync(self, *names, since_ns=0):
        """Makes files and folders durable, see sync(), and the folders from theirs up to the root."""
        if not self.is_local:
            return
        for name in names:
            sync(self.path(name).rstrip("/"), since_ns)
        above = {parent for name in names for parent in Path(self.path(name)).parents}
        for folder in sorted(above - set(Path(self._root).parents), reverse=True):
            sync_alone(folder)

    def text(self, name):
        """The text of a file. Raises FileNotFoundError; ValueError if it is damaged."""
        return Path(self.path(name)).read_text(encoding="utf-8")

    def lines(self, name):
        """Yields the lines of a file, as bytes; none if it is missing."""
        with contextlib.suppress(FileNotFoundError), open(self.path(name), "rb") as file:
            yield from file

    def glob(self, pattern):
        """{name: (bytes, time of its last change in s since 1970)}. As in a shell, a pattern finds names with a dot in
        front (checksums, files that are being written) only if it has one."""
        return self._found(Path(self._root).glob(pattern), pattern, lambda path: path.name)

    def find(self, folder, pattern):
        """The same in a folder and in those below it, by their names relative to the root."""
        found = Path(self._root, folder).rglob(pattern)
        return self._found(found, pattern, lambda path: str(path.relative_to(self._root)))

    def _found(self, paths, pattern, name_of):
        found = {}
        for path in paths:
            if _is_asked_for(path.name, pattern):
                with contextlib.suppress(FileNotFoundError):  # moved away meanwhile
                    about = path.lstat() if path.is_symlink() and not path.exists() else path.stat()
                    found[name_of(path)] = (about.st_size, about.st_mtime)
        return found

    def bring(self, folder, names, to):
        """Makes the files `names` of `folder` readable in `to`, a path of this machine where nothing is yet."""
        os.symlink(os.path.abspath(self.path(folder)), to)

    def last_number(self, folder):
        """The highest number that is the name of a file in `folder`, -1 if there is none."""
        return max((int(name) for name in self.glob(f"{folder}/*") if name.isdigit()), default=-1)


class Remote(Folder):
    """The same at a URI that Arrow knows, as s3://bucket/folder, without Spark. It takes the settings for S3 from the
    environment, as delta-rs does."""

    def __init__(self, root):
        super().__init__(root)
        self._files, self._base = arrow_files(self._root)

    def text(self, name):
        with self._files.open_input_stream(f"{self._base}/{name}") as file:
            return file.read().decode()

    def lines(self, name):
        place = f"{self._base}/{name}"
        with contextlib.suppress(FileNotFoundError), self._files.open_input_file(place) as file:
            yield from io.BufferedReader(file, _BUFFER)

    def glob(self, pattern):
        folder, _, names = pattern.rpartition("/")
        found = self._infos(folder, names, recursive=False)
        return {one.base_name: (one.size, one.mtime_ns / 1e9) for one in found}

    def find(self, folder, pattern):
        found = self._infos(folder, pattern, recursive=True)
        return {one.path[len(self._base) + 1 :]: (one.size, one.mtime_ns / 1e9) for one in found}

    def bring(self, folder, names, to):
        from pyarrow.fs import LocalFileSystem, copy_files

        def copy(name):
            os.makedirs(os.path.dirname(f"{to}/{name}"), exist_ok=True)
            copy_files(f"{self._base}/{folder}/{name}", f"{to}/{name}", self._files, LocalFileSystem())

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(copy, names))

    def _infos(self, folder, pattern, recursive):
        from pyarrow.fs import FileSelector

        selector = FileSelector(f"{self._base}/{folder}".rstrip("/"), allow_not_found=True, recursive=recursive)
        found = self._files.get_file_info(selector)
        asked = (one for one in found if fnmatch.fnmatch(one.base_name, pattern))
        return [one for one in asked if _is_asked_for(one.base_name, pattern)]


def files_in(root):
    """A Folder of the folder or URI `root`, without Spark."""
    return (Remote if "://" in str(root) else Folder)(root)


class Storage(Folder):
    """The files in the folder or URI `root`, as Spark sees them. In a folder of this machine Java is asked only where
    Hadoop's checksums count."""

    def __init__(self, spark, root):
        super().__init__(root)
        self._spark = spark

    @functools.cached_property
    def _path(self):
        return self._spark.sparkContext._jvm.org.apache.hadoop.fs.Path

    @functools.cached_property
    def _conf(self):
        return self._spark.sparkContext._jsc.hadoopConfiguration()

    @functools.cached_property
    def _files(self):
        return self._path(self._root).getFileSystem(self._conf)

    def exists(self, name):
        if self.is_local:
            return os.path.exists(self.path(name))
        return self._files.exists(self._path(self.path(name)))

    def text(self, name):
        from py4j.protocol import Py4JJavaError

        if not self.exists(name):
            raise FileNotFoundError(self.path(name))
        stream = self._files.open(self._path(self.path(name)))
        try:
            return bytes(stream.readAllBytes()).decode()
        except Py4JJavaError as e:
            if e.java_exception.getClass().getSimpleName() != "ChecksumException":
                raise
            raise ValueError(f"{self.path(name)} is damaged") from None
        finally:
            stream.close()

    def glob(self, pattern):
        if self.is_local:
            return super().glob(pattern)
        found = self._files.globStatus(self._path(self.path(pattern))) or ()
        return {one.getPath().getName(): (one.getLen(), one.getModificationTime() / 1000) for one in found}

    def archived(self, landing):
        """The folder into which Spark moves files of the folder or URI `landing` when it has read them."""
        whole = self._path(str(landing)).getFileSystem(self._conf).makeQualified(self._path(str(landing)))
        return self.path(ARCHIVE) + whole.toUri().getPath()

    def write(self, name, text):
        """Writes a file, durably. If this is killed, it is the old one or the new one; at a URI it may be missing."""
        if self.is_local:
            return self._write(Path(self.path(name)), text)
        new = self._path(self.path(name + ".new"))
        out = self._files.create(new, True)
        out.write(text.encode())
        out.close()
        self.delete(name)
        self._files.rename(new, self._path(self.path(name)))

    def _write(self, path, text):
        new = path.with_name(f"{path.name}.new")
        new.write_text(text, encoding="utf-8")
        sync(new)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum, of an earlier version's file
        new.replace(path)
        self.sync(path.name)

    def unreadable(self, name):
        """Why Spark cannot read a file; None if it can."""
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(self.path(name)))
            try:
                stream.transferTo(self._spark.sparkContext._jvm.java.io.OutputStream.nullOutputStream())
            finally:
                stream.close()
        except Py4JJavaError as e:
            return str(e.java_exception.getMessage() or e.java_exception.getClass().getName())

    def move(self, name, folder):
        """Moves a file, with Hadoop's checksum, into a folder, which is made."""
        self._files.mkdirs(self._path(self.path(folder)))
        if not self._files.rename(self._path(self.path(name)), self._path(self.path(f"{folder}/{name}"))):
            raise OSError(f"{self.path(name)} cannot be moved to {self.path(folder)}")

    def delete(self, name):
        """Deletes a file, or a folder with all that is in it, if it exists."""
        self._files.delete(self._path(self.path(name)), True)
