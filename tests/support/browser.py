"""A real Chromium for tests of pages."""

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = "headless=new no-sandbox disable-gpu no-first-run disable-background-networking disable-component-update"
MISSING = "no Chromium with its driver here: apt-get install chromium chromium-driver"


def open_browser(profile):
    """A browser without a window, with a profile of its own, that logs errors and requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS.split(), "disable-sync", "window-size=1200,900", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, Service(DRIVER))
