"""Pages: their words, their links, and tables that must agree with the code."""

import importlib
import re
import subprocess

import pytest

import sensors
from host_tests.docs.pages import CHECKOUT
from inflight import Client, Journal, RamFlash
from inflight_tools.boards.device.install import OLDEST
from inflight_tools.boards.images.variants import boards

COUNTERS = (CHECKOUT / "docs/guide/counters.md").read_text()
SIZING = (CHECKOUT / "docs/guide/sizing.md").read_text()
FIGURES = (CHECKOUT / "docs/figures.md").read_text()
CONFIGURATION = (CHECKOUT / "docs/configuration.md").read_text()


def test_the_readme_is_short():
    assert len((CHECKOUT / "README.md").read_text().splitlines()) <= 150


def test_numbers_of_the_readme():
    """Drivers as the firmware has them, heaps as in the figures."""
    rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", (CHECKOUT / "README.md").read_text(), re.M))
    assert rows["drivers of sensors"].split(" | ")[0] == str(len(sensors.KNOWN.split(", ")))
    measured = re.search(r"^\| smallest heap that works, bytes \|(.*)\|$", FIGURES, re.M)[1].split("|")
    heaps = [f"{int(measured[i].replace(',', '')) / 1000:.0f} KB" for i in (0, 3)]
    assert rows["smallest heap, .mpy"].split(" | ")[:2] == heaps


def test_numbers_of_sizing():
    """As in the pages that measure them."""
    for number in re.findall(r"\b\d+,\d{3}\b", SIZING.split("## RAM\n")[1].split("\n## ")[0]):
        assert re.search(rf"\b{number}\b", FIGURES), number


def test_the_index_names_every_page():
    docs = CHECKOUT / "docs"
    index = (docs / "index.md").read_text()
    for page in (path.relative_to(docs).as_posix() for path in docs.rglob("*.md")):
        assert page == "index.md" or f"]({page})" in index, page


def test_the_readme_of_the_tests_has_a_row_for_each_folder():
    tests = CHECKOUT / "host_tests"
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.glob("*/__init__.py")} - {"tools"}
    folders |= {path.parent.relative_to(tests).as_posix() for path in tests.glob("tools/*/__init__.py")}
    rows = set(re.findall(r"^\| `([\w/]+)/` \|", (tests / "README.md").read_text(), re.M))
    assert rows - {"device", "spec"} == folders - {"device"}


def _anchors(page):
    """The anchors that GitHub makes from the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


FOLDERS = (".github", "boards", "docs", "examples", "firmware", "host_tests", "lib", "tools")
PAGES = [*CHECKOUT.glob("*.md"), *(page for folder in FOLDERS for page in sorted((CHECKOUT / folder).rglob("*.md")))]


# Not by hand, or for tools: made pages, templates, tables of the standard; and what each release adds.
_OTHERS = (
    "CHANGELOG",
    "docs/reference/",
    "docs/results",
    "host_tests/spec/",
    "tools/inflight_tools/project/templates/",
)
BY_HAND = [page for page in PAGES if not page.relative_to(CHECKOUT).as_posix().startswith(_OTHERS)]
WORDS = 27_100  # outside of blocks of code; lower it with what you remove
# A sentence begins with its noun: these are pronouns without one, and what the house wrote in such a way.
_PRONOUN_FIRST = re.compile(
    r"(?:^|[.:;|] |\n(?:- |\d\. )?)(?:(?:Of (?:what|these|those|which)|That of|Those of)\b"
    r"|What (?:is|was|are)\b(?:[^.:|?\n]|\n(?!\n)){1,60}? (?:is|are|was)\b)"
    r"|\bthat there (?:is|are)\b|\b[Tt]he way of an?\b|\b(?:that|those) which\b"
)


def _prose(page):
    # Nor what a command writes between these marks.
    by_hand = re.sub(r"<!-- measured: begin -->.*?<!-- measured: end -->", "", page.read_text(), flags=re.S)
    return re.sub(r"^( *)```.*?^\1```$", "", by_hand, flags=re.M | re.S)


def test_words_do_not_grow():
    words = sum(bool(re.search(r"[^\W\d_]", word)) for page in BY_HAND for word in _prose(page).split())
    assert WORDS - 300 < words <= WORDS, words


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_sentence_begins_with_a_pronoun(page):
    assert not (found := _PRONOUN_FIRST.findall(_prose(page))), found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_link_targets_exist(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not link.startswith("https://"):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in _anchors(target), link


def test_no_text_installs_a_strangers_package():
    """On PyPI, `inflight` is another project: texts name the checkout, or inflight-mqtt."""
    stranger = r"pipx? +install +([-\w.'\"]+ +)*['\"]?inflight(?!-mqtt)\b"
    found = subprocess.run(
        ["git", "grep", "-nIP", stranger, "--", ".", ":!host_tests/docs/test_pages.py"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stdout) == (1, "")
    assert re.search(stranger, "pip install 'inflight[boards]'") and re.search(stranger, "pipx install -q inflight")
    assert not re.search(stranger, "pip install 'inflight-mqtt[boards]'")


def _rows(text, title):
    """[[cell, ...]] of the first table below this heading."""
    part = text.split(f"# {title}\n", 1)[1]
    table = re.search(r"^\|.*\n\|[-:| ]+\n((?:\|.*\n)+)", part, re.M)[1]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]


def _code(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_every_counter_is_explained():
    found = [name for names, _ in _rows(COUNTERS, "Counters") for name in _code(names)]
    assert sorted(found) == sorted(Client("broker.example", "attic-1").counters())


def test_capacities_of_the_journal():
    class Flash(RamFlash):
        volatile = False

    for sectors, size, limit, messages in _rows(SIZING, "Size"):
        journal = Journal(Flash(int(sectors), 4096))
        numbers = [int(text.replace(",", "")) for text in (size, limit, messages)]
        assert numbers == [int(sectors) * 4, journal.limit, journal.limit // 110]


def test_sizes_of_the_journal():
    told = re.findall(r"\b(\d+) KiB on an ESP32, (\d+) on a Pico, (\d+) on Linux", CONFIGURATION)
    assert {int(size) for sizes in told for size in sizes} == {board.journal_kb for board in boards().values()}


def test_the_versions_of_micropython_that_something_is_pinned_to():
    """Of images, interpreters and stubs; and the oldest one that is supported."""
    pinned = r"(RPI|ESP32)_[A-Z0-9_]+-[0-9]+-v1\.[0-9]+|^micropython micropython 1\.[0-9]+|(pyscript|stubs)\W+1\.[0-9]+"
    command = ["git", "grep", "-IhoE", pinned, "--", "boards", "tools/emulators", "tools/setup", "tools/runtimes"]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    versions = set(re.findall(r"1\.\d+$", found, re.M)) | {".".join(map(str, OLDEST))}
    rows = _rows((CHECKOUT / "docs/internals/releasing.md").read_text(), "Versions of MicroPython")
    assert [version for version, *_ in rows] == sorted(versions)


def test_every_driver_is_explained_with_its_fields():
    found = {}
    for names, fields, _ in _rows(CONFIGURATION, "Sensors"):
        found |= dict.fromkeys(_code(names), set(_code(fields)))
    assert sorted(found) == sensors.KNOWN.split(", ")
    for driver, fields in found.items():
        module = importlib.import_module(sensors.module_of("sensor", driver))
        assert fields == set(module.FIELDS), driver


def test_every_driver_is_known():
    modules = {sensors.module_of("sensor", name)[7:] for name in sensors.KNOWN.split(", ")}
    assert modules == {file.stem[len("sensor_") :] for file in (CHECKOUT / "firmware/drivers").glob("sensor_*.py")}
