import importlib.util

from host_tests.absent import absent

REASON = ""
if not importlib.util.find_spec("prometheus_client"):
    REASON = "prometheus-client is not installed: run `make setup-pipeline`"


def pytest_pycollect_makemodule(module_path, parent):
    return absent(parent, module_path, REASON)
