"""The firmware as a process of its own, as a board runs it: power cuts, wrong configurations, TLS."""

import json
import os
import signal
import subprocess
import time

import pytest
import runtimes
from broker import Automatic
from conftest_path import DEVICE_PATH
