"""The report's page in a real browser, as one opens it from a disk; without one these skip."""

import json
import shutil
from dataclasses import replace

import pytest

from ccml.experiments import report
from ccml.experiments.records import DATASETS, LINEAR, ROWS, RULES, Comparison, Figure, Record

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium isn't installed")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="chromium and chromedriver aren't installed"
)

EVIL = """<script>document.title = "hacked"</script>"'><img src=x onerror=alert(1)>"""
PAPER = [data for data in DATASETS if data != "digits"]
PLACES = [(row, data, rule) for row in ROWS for data in PAPER for rule in RULES]


def records():
    """Fill every place of the table; KNCA has a reason instead, which wants to be markup."""
    for number, (row, data, rule) in enumerate(PLACES):
        measured = Record(
            row, data, rule, error=(number * 7 % 300) / 10, spread=0.25, paper=15.0, seeds=(0, 1),
            settings={"note": EVIL}, seconds=41.2, commit="1a2b3c4", machine=EVIL,
            stand_in=data == "norb", command=f"ccml reproduce --datasets {data} {'long' * 30}",
        )  # fmt: skip
        missing = {"error": None, "spread": None, "seconds": None, "seeds": (), "reason": EVIL}
        if row.startswith("ConvNet"):
            measured = replace(measured, error=1.11)
        yield replace(measured, **missing) if row == "KNCA" else measured


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    from matplotlib.figure import Figure as Canvas

    folder = tmp_path_factory.mktemp("report")
    figures = []
    for form in ("svg", "png"):
        canvas = Canvas(figsize=(10, 5))
        canvas.subplots().plot([1, 2])
        canvas.savefig(folder / f"figure.{form}")
        path = folder / f"figure.{form}"
        figures.append(
            Figure(form, f"A {form}", "What it shows.", path, "ccml", 3.0, (0,), "abc", "m")
        )
    comparisons = [
        Comparison(data, rule, row, 0.5, 0.01, 178, stand_in=False)
        for row in LINEAR if row != "CCML" for data in PAPER for rule in RULES
    ]  # fmt: skip
    return report.write(folder / "report", list(records()), comparisons, figures)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get(page.as_uri())
    return browser


def test_it_needs_nothing_but_itself_and_has_nothing_to_complain_of(browser, page):
    browser.get_log("performance")  # what came before
    browser.get_log("browser")
    browser.get(page.as_uri())
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }
    assert page.as_uri() in requests
    own = ("data:", "chrome:")  # the page's pictures, and what the browser draws itself with
    assert {url for url in requests - {page.as_uri()} if not url.startswith(own)} == set()
    assert browser.get_log("browser") == []
    assert browser.title == "CCML reproduced"  # no script of a record's ran


def test_every_figure_is_shown(opened):
    widths = opened.execute_script("return [...document.images].map(i => i.naturalWidth)")
    assert len(widths) == 3  # two, and the empty one that shows either large
    assert all(widths[:2])
    texts = opened.execute_script("return [...document.images].slice(0, 2).map(i => i.alt)")
    assert texts == ["A svg. What it shows.", "A png. What it shows."]


def test_every_place_of_the_table_has_its_cell(opened):
    cells = opened.execute_script(
        "return [...document.querySelectorAll('#table td[data-place]')]"
        ".map(c => [c.dataset.place, c.colSpan])"
    )
    shared = {" ".join(place) for place in PLACES if place[0].startswith("ConvNet")}
    assert {name for name, n_columns in cells if n_columns == 2} == {
        name for name in shared if not name.endswith("ccknn")
    }
    others = {" ".join(place) for place in PLACES} - shared
    assert {name for name, n_columns in cells if n_columns == 1} == others
    n_rows = opened.execute_script("return document.querySelectorAll('#numbers tbody tr').length")
    assert n_rows == len(PLACES)
    columns = opened.execute_script(
        "return [...document.querySelectorAll('#table tbody tr')]"
        ".map(r => [...r.cells].reduce((n, c) => n + c.colSpan, 0))"
    )
    assert set(columns) == {1 + 2 * len(PAPER)}


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_the_page_never_scrolls_sideways(opened, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened.execute_script("document.querySelector('details').open = true")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_key_enlarges_a_figure_and_another_puts_it_back(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    button = opened.find_element(By.CSS_SELECTOR, "figure button")
    button.send_keys(Keys.ENTER)
    dialog = opened.find_element(By.TAG_NAME, "dialog")
    large = dialog.find_element(By.TAG_NAME, "img")
    assert dialog.get_attribute("open")
    assert large.get_attribute("alt") == "A svg. What it shows."
    assert large.size["width"] >= button.size["width"]
    opened.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog.get_attribute("open")
    assert opened.switch_to.active_element == button


def test_paper_shows_all_of_the_table_and_every_number(opened):
    # A4's width less the margins, in CSS pixels
    metrics = {"width": 703, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        height = opened.execute_script("return document.querySelector('#numbers').offsetHeight")
        ground = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
        widths = opened.execute_script(
            "return ['#table', '#comparison-table', '#numbers']"
            ".map(t => document.querySelector(t).getBoundingClientRect().right)"
        )
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert height > 0  # though nobody opened it
    assert ground == "rgb(255, 255, 255)"
    assert max(widths) <= 703
