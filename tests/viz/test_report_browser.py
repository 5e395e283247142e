"""The HTML report in a real browser: it opens without errors, and works with mouse and keyboard."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageColor
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from support.browser import BROWSER, DRIVER, MISSING, open_browser
from support.episodes import BLOCKS, episodes_with_actions
from support.option_models import single_action_skills

from pyro_options.data import Trajectories
from pyro_options.viz import option_color, write_report

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason=MISSING)

HOSTILE = "<img src=x onerror=document.title='owned'></script><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Three episodes, the first two with frames whose brightness is the step; an action name that wants to be more."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    frames = [np.stack([np.full((40, 60, 3), 12 * t, np.uint8) for t in range(len(block))]) for block in BLOCKS]
    skills = single_action_skills(0, 1, 2, names=("up", HOSTILE, "left", "right"), note=HOSTILE)
    data = episodes_with_actions(*BLOCKS)
    skills.summary = skills.summarize(data)
    write_report(path, skills, data, frames=[*frames[:2], None], title="Small talk")
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    browser.get_log("browser")
    browser.get(address)
    yield browser
    assert browser.get_log("browser") == []  # nothing failed, and nothing was refused by the page's policy


def trajectory(page, number):
    return page.find_elements(By.CSS_SELECTOR, ".trajectory")[number]


def readout(page, number):
    return trajectory(page, number).find_element(By.CSS_SELECTOR, ".readout").text


def slider(page, number):
    return trajectory(page, number).find_element(By.CSS_SELECTOR, "input[type=range]")


def active_cards(page):
    return [
        card.find_element(By.CSS_SELECTOR, ".badge").text
        for card in page.find_elements(By.CSS_SELECTOR, ".card.active")
    ]


def brightness(page, number):
    """Of the frame that is shown, from the pixels on the screen."""
    frame = trajectory(page, number).find_element(By.CSS_SELECTOR, "img.frame")
    picture = Image.open(BytesIO(frame.screenshot_as_png)).convert("RGB")
    return picture.getpixel((picture.width // 2, picture.height // 2))[0]


def test_it_opens_with_hostile_names_as_text(page):
    assert page.title == "Small talk"
    assert page.execute_script("return document.scripts.length") == 2
    assert page.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    assert any(HOSTILE in card.text for card in page.find_elements(By.CSS_SELECTOR, ".card h3"))
    assert (
        len(page.find_elements(By.CSS_SELECTOR, ".card"))
        == len(page.find_elements(By.CSS_SELECTOR, ".trajectory"))
        == 3
    )


def test_the_page_makes_no_network_request(page):
    asked = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in asked if not name.startswith("data:")] == []


def test_the_mouse_scrubs_through_frames(page):
    surface = trajectory(page, 0).find_element(By.CSS_SELECTOR, ".surface")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", surface)
    step = surface.size["width"] / len(BLOCKS[0])
    offset = -surface.size["width"] / 2
    drag = ActionChains(page).move_to_element_with_offset(surface, round(offset + 2.5 * step), 0).click_and_hold()
    drag.move_by_offset(round(5 * step), 0).perform()
    assert readout(page, 0).split()[:3] == ["step", "7", "1"] and slider(page, 0).get_attribute("value") == "7"
    assert abs(brightness(page, 0) - 12 * 7) <= 1 and active_cards(page) == ["1"]
    ActionChains(page).move_by_offset(round(9 * step), 0).release().perform()
    assert readout(page, 0).startswith("step 16") and active_cards(page) == ["2"]
    ActionChains(page).move_by_offset(-100, 0).perform()  # released: the mouse moves nothing any more
    assert readout(page, 0).startswith("step 16") and readout(page, 1).startswith("step 0")


def test_the_keyboard_alone_is_enough(page):
    reached = []
    for _ in range(40):
        page.switch_to.active_element.send_keys(Keys.TAB)
        element = page.switch_to.active_element
        reached.append(element.get_attribute("aria-label") or element.text)
        if reached[-1] == "Step of trajectory 0":
            break
    assert "Show all options" in reached and any(label.startswith("Show only option 0") for label in reached)
    element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert readout(page, 0).startswith("step 2") and abs(brightness(page, 0) - 24) <= 1
    assert "step 2 of 18, option 0: up, action up" in element.get_attribute("aria-valuetext")
    ActionChains(page).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    assert readout(page, 0).startswith("step 6") and active_cards(page) == ["1"]
    element.send_keys(Keys.END)
    assert readout(page, 0).startswith("step 17")
    element.send_keys(Keys.HOME, Keys.ARROW_LEFT)
    assert readout(page, 0).startswith("step 0")
    surface = trajectory(page, 0).find_element(By.CSS_SELECTOR, ".surface")
    assert surface.value_of_css_property("outline-style") == "solid"  # where the keys go can be seen


def test_the_filter_keeps_what_has_the_option(page):
    chip = page.find_element(By.CSS_SELECTOR, ".chip[aria-label^='Show only option 0']")
    chip.send_keys(Keys.SPACE)
    assert [row.is_displayed() for row in page.find_elements(By.CSS_SELECTOR, ".trajectory")] == [True, False, True]
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.find_element(By.CSS_SELECTOR, "[role=status]").text == "2 of 3 trajectories"
    cards = page.find_elements(By.CSS_SELECTOR, ".card")
    assert [card.get_attribute("aria-label") for card in cards if card.is_displayed()] == ["option 0: up"]
    dim = trajectory(page, 2).find_elements(By.CSS_SELECTOR, ".strip rect.dim")
    assert [piece.get_attribute("data-option") for piece in dim] == ["2"]
    trajectory(page, 2).find_element(By.CSS_SELECTOR, "[aria-label^='Next']").click()
    assert readout(page, 2).startswith("step 3")  # the next segment of what was chosen
    page.find_element(By.CSS_SELECTOR, ".chip").click()
    assert all(row.is_displayed() for row in page.find_elements(By.CSS_SELECTOR, ".trajectory"))


def test_an_example_leads_to_its_trajectory(page):
    card = next(c for c in page.find_elements(By.CSS_SELECTOR, ".card") if "option 2" in c.get_attribute("aria-label"))
    button = next(b for b in card.find_elements(By.CSS_SELECTOR, ".example") if "trajectory 0" in b.text)
    button.send_keys(Keys.ENTER)
    assert readout(page, 0).startswith("step 10")
    assert page.switch_to.active_element.get_attribute("aria-label") == "Step of trajectory 0"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_screenshot_shows_each_option_in_its_colour(page, scheme, tmp_path):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    strip = trajectory(page, 0).find_element(By.CSS_SELECTOR, ".surface")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", strip)
    shot = Image.open(BytesIO(strip.screenshot_as_png)).convert("RGB")
    for step, option in ((3, 0), (8, 1), (13, 2)):
        seen = shot.getpixel((round((step + 0.3) * shot.width / len(BLOCKS[0])), 6))
        assert seen == ImageColor.getrgb(option_color(option))
    page.get_screenshot_as_file(str(tmp_path / "report.png"))
    corner = Image.open(tmp_path / "report.png").convert("L").getpixel((5, 700))
    assert corner > 200 if scheme == "light" else corner < 60


def test_a_narrow_window_needs_no_sideways_scrolling(page):
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide = page.execute_script("return document.documentElement.scrollWidth")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= 400


def test_the_page_explains_and_compares(browser, tmp_path):
    """Words, pictures of starts and stops that lead there, and another run beside this one."""
    data = episodes_with_actions(*[[0] * 4 + [1] * 4 + [0] * 4] * 6)
    states = data.states.clone()
    states[:, 4, 1] = 9.0
    data = Trajectories(states, data.actions, num_actions=4).with_names(state_names=["x", HOSTILE, "y"])
    skills = single_action_skills(0, 1)
    frames = [np.stack([np.full((40, 60, 3), 20 * t, np.uint8) for t in range(12)])]
    other = single_action_skills(1, 0, 2)
    write_report(tmp_path / "report.html", skills, data, frames=frames, other=other, run_names=("new", HOSTILE))
    browser.get_log("browser")
    browser.get((tmp_path / "report.html").as_uri())
    words = browser.find_element(By.CSS_SELECTOR, ".glossary")
    words.find_element(By.TAG_NAME, "summary").click()
    assert "share of the steps at which the option is active" in words.text
    section = browser.find_element(By.ID, "comparison")
    assert section.is_displayed() and "Adjusted Rand index of the two segmentations: 1" in section.text
    cells = section.find_elements(By.CSS_SELECTOR, ".overlap tbody td")
    assert [cell.text for cell in cells] == ["", "100 %", "100 %", ""] and HOSTILE in section.text
    cards = browser.find_elements(By.CSS_SELECTOR, ".card")
    card = next(one for one in cards if one.find_element(By.CSS_SELECTOR, ".badge").text == "1")
    assert f"{HOSTILE} 9 to 9" in card.text.split("Starts where")[1]
    card.find_element(By.CSS_SELECTOR, ".moment").click()
    assert readout(browser, 0).startswith("step 4") and browser.title == "Skills"
    assert browser.get_log("browser") == []
