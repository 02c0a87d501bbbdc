#!/usr/bin/env python3
"""Uses the page of a study in headless Chromium: hovers, brushes, filters, sorts, copies. Takes some seconds.

    tools/tune_browser_check.py [--screenshots FOLDER] [--open PAGE.html …] PAGE.html …

Works like browser_check.py, whose browser it uses. `--open` names pages with hardly any trials.
"""

import argparse
import pathlib
import sys

from browser_check import Browser, Failure, check, check_clean, move, take_screenshots

# Of a page of 2,000 trials, from its first byte until it is drawn.
SLOWEST_PAGE_MS = 2000
SLOWEST_DRAW_MS = 1000

CHARTS = ["progress", "curves", "memory", "parallel"]
# The middle of a trial's mark in a chart, on the screen.
FIND = """
  const chart = charts.find((it) => it.box.id === arguments[0]);
  chart.box.scrollIntoView({block: 'center'});
  const box = chart.box.getBoundingClientRect();
  const at = chart.pixel(arguments[1]);
  return at && {x: box.left + at[0], y: box.top + at[1]};
"""
SHOWN = "return state.isIn.reduce((sum, is) => sum + is, 0)"


def painted(browser, chart, layer=0):
    """How many colours a canvas has. It is copied, as the browser complains about canvases that are read."""
    return browser.run("""const canvas = byId(arguments[0]).querySelectorAll('canvas')[arguments[1]];
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size""", chart, layer)


def check_drawn(browser):
    """All charts are drawn, soon."""
    browser.settle()
    for chart in CHARTS:
        check(painted(browser, chart) > 5, f"{chart} is not drawn")
    drawn = browser.run("return Number(document.body.dataset.drawnMs)")
    check(0 < drawn < SLOWEST_PAGE_MS, f"the page is drawn after {drawn} ms")
    slowest = browser.run("const all = []; for (let i = 0; i < 3; i += 1) { drawAll(); all.push(Number(document.body.dataset.drawMs)); } return Math.min(...all)")
    check(slowest < SLOWEST_DRAW_MS, f"a redraw takes {slowest} ms")
    return drawn, slowest


def check_hover(browser):
    """The tip names the trial under the pointer, which is highlighted in every chart."""
    best = browser.run("return data.best")
    for chart in ("progress", "memory"):
        at = browser.run(FIND, chart, best)
        browser.hover(at["x"], at["y"])
        hovered = browser.run("return state.hovered")
        check(hovered >= 0, f"no trial under the pointer in {chart}")
        wanted = browser.run("return `trial ${formatCount(TRIALS.number[state.hovered])},`")
        tip = browser.run("return byId('tip').hidden ? '' : byId('tip').textContent")
        check(wanted in tip, f"the tip of {chart} lacks {wanted!r}: {tip!r}")
        for other in ("progress", "curves", "parallel"):
            check(painted(browser, other, 1) > 1 or not browser.run("return TRIALS.steps[state.hovered].length"), f"{other} does not highlight the trial")
    browser.hover(2, 2)
    check(browser.run("return state.hovered === -1 && byId('tip').hidden"), "the tip stays")


def check_choice(browser):
    """A click chooses a trial and shows its parameters; another way back leads to the best."""
    other = browser.run("return [...RANKED].find((trial) => trial !== data.best && PEAK[trial] !== null && state.range.low <= QUALITY[trial])")
    browser.run("table.isDown = !table.isDown; table.fill()")
    browser.press_button("#table tbody tr:nth-child(2) button")
    chosen = browser.run("return state.chosen")
    check(chosen >= 0 and other is not None, "a click on a row chooses no trial")
    title = browser.run("return byId('trial-title').textContent")
    check(browser.run("return `trial ${formatCount(TRIALS.number[state.chosen])}`") in title, f"the card shows {title!r}")
    browser.press_button("#to-best")
    check(browser.run("return state.chosen") == -1, "there is no way back to the best")
    check("best" in browser.run("return byId('trial-title').textContent"), "the card does not show the best trial")


def check_copy(browser):
    """The text to copy has each parameter of the trial, in both forms."""
    count = browser.run("return settings(data.best).length")
    toml = browser.run("return byId('text').textContent")
    check(toml.count(" = ") >= count, f"the TOML lacks parameters: {toml}")
    import tomllib
    read = tomllib.loads(toml)
    check(read, f"this is not TOML: {toml}")
    browser.press_button("#format [data-value=flags]")
    flags = browser.run("return byId('text').textContent")
    check(flags.count("--set ") >= count, f"the flags lack parameters: {flags}")
    import shlex
    words = shlex.split(flags.replace(" \\\n", " "))
    check(words.count("--set") == count and len(words) == 2 * count, f"a shell reads other words: {words}")
    browser.press_button("#copy")
    browser.press_button("#format [data-value=toml]")


def check_filters(browser):
    """A brushed range and a status take trials away from all charts and the table, and bring them back."""
    everything = browser.run(SHOWN)
    at = browser.run("""byId('parallel').scrollIntoView({block: 'center'});
      const box = byId('parallel').getBoundingClientRect();
      return {x: box.left + parallel.axisX(0), top: box.top + parallel.plot.top, height: parallel.plot.height}""")
    middle = at["top"] + at["height"] / 2
    browser.pointer(move(at["x"], at["top"] + 2), {"type": "pointerDown", "button": 0}, move(at["x"], middle - 30),
                    move(at["x"], middle), {"type": "pointerUp", "button": 0})
    browser.settle()
    brushed = browser.run(SHOWN)
    check(0 < brushed < everything, f"a brush keeps {brushed} of {everything} trials")
    low = browser.run("return state.brushes.get(0)[0]")
    right = browser.run("return TRIALS.number.every((_, trial) => !state.isIn[trial] || PARAMETERS[0].numbers[trial] >= arguments[0] * 0.999)", low)
    check(right, "a brush keeps trials outside its range")
    check(f"{brushed}" in browser.run("return byId('table-title').textContent.replace(/\u202f/g, '')"), "the table is not filtered")
    browser.click(at["x"], middle - 40)
    check(browser.run(SHOWN) == everything, "a click does not remove the range")
    browser.press_button("#statuses button")
    check(browser.run(SHOWN) < everything, "a status is not hidden")
    browser.press_button("#clear")
    check(browser.run(SHOWN) == everything, "not all trials come back")


def check_table(browser):
    """Titles sort, and trials without a value come last."""
    browser.press_button("#table th:nth-child(3) button")
    browser.press_button("#table th:nth-child(1) button")
    for sign in (1, -1):
        numbers = browser.run("return [...document.querySelectorAll('#table tbody tr')].map((row) => TRIALS.number[row.dataset.trial])")
        check(numbers == sorted(numbers, reverse=sign < 0), "the table is not sorted by number")
        browser.press_button("#table th:nth-child(1) button")
    browser.press_button("#table th:nth-child(3) button")
    values = browser.run("return table.sorted().map((trial) => QUALITY[trial])")
    known = [value for value in values if value is not None]
    check(values[: len(known)] == known, "trials without a value are not last")
    rows = "return document.querySelectorAll('#table tbody tr').length"
    before = browser.run(rows)
    if not browser.run("return byId('more').hidden"):
        browser.press_button("#more")
        check(browser.run(rows) > before, "there are no more rows")


def check_switches(browser):
    """Axes and lengths are switched."""
    pixels = "return byId('curves').querySelector('canvas').toDataURL()"
    for group in ("lengths", "values"):
        if browser.run("return byId(arguments[0]).offsetParent === null", group):
            continue
        before = browser.run(pixels)
        pressed = browser.run("return byId(arguments[0]).querySelector('[aria-pressed=true]').dataset.value", group)
        browser.press_button(f"#{group} [aria-pressed=false]")
        browser.settle()
        check(browser.run(pixels) != before, f"{group}: the axes look alike")
        browser.press_button(f"#{group} [data-value={pressed}]")
        browser.settle()
        check(browser.run(pixels) == before, f"{group}: the axis does not come back")
    if browser.run("return Boolean(byId('basis'))"):
        browser.press_button("#basis [data-value='1']")
        shown = browser.run("return [...document.querySelectorAll('.basis')].filter((it) => !it.hidden).map((it) => it.dataset.basis)")
        check(shown == ["1"], f"importance shows {shown}")
        browser.press_button("#basis [data-value='0']")


def check_page(browser, path):
    browser.open(path)
    drawn, slowest = check_drawn(browser)
    check_hover(browser)
    check_choice(browser)
    check_copy(browser)
    check_filters(browser)
    check_table(browser)
    check_switches(browser)
    wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
    check(wide <= 0, f"the page is {wide} px wider than the window")
    check_clean(browser)
    print(f"{path}: {browser.run('return COUNT')} trials, drawn after {drawn} ms, redraw {slowest} ms")


def check_open(browser, path):
    """A page with hardly any trials: no action on it is an error."""
    browser.open(path)
    browser.settle()
    for chart in CHARTS:
        at = browser.run("""const box = byId(arguments[0]); box.scrollIntoView({block: 'center'});
          const { left, top, width, height } = box.getBoundingClientRect(); return [left + width / 2, top + height / 2]""", chart)
        browser.hover(*at)
        browser.click(*at)
    for button in browser.run("return [...document.querySelectorAll('button')].map((_, index) => index)"):
        browser.run("const it = document.querySelectorAll('button')[arguments[0]]; if (it && it.offsetParent) it.click()", button)
    browser.settle()
    check_clean(browser)


VIEWS = {"light": (1280, 900, False), "dark": (1280, 900, True), "phone": (480, 900, False), "phone-dark": (480, 900, True)}


def use_pages(about, has_hardly, check_page, check_open, narrow=slice(None), visit=lambda browser, shoot: None):
    """The command line of a page with curves: checks pages on a wide and a narrow screen, of which the narrow one gets a slice."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--open", type=pathlib.Path, action="append", default=[], help=f"a page with hardly any {has_hardly}")
    parser.add_argument("--screenshots", type=pathlib.Path, help="take screenshots into this folder instead")
    arguments = parser.parse_args()
    if arguments.screenshots:
        return take_screenshots(arguments.screenshots, [*arguments.pages, *arguments.open], VIEWS, visit)
    for width, pages in ((1280, arguments.pages), (480, arguments.pages[narrow])):
        browser = Browser(width, 900)
        try:
            for page in pages:
                try:
                    check_page(browser, page)
                except Failure as failure:
                    sys.exit(f"error: {page} at {width} px: {failure}")
            for page in arguments.open:
                check_open(browser, page)
        except Failure as failure:
            sys.exit(f"error: {failure}")
        finally:
            browser.close()


if __name__ == "__main__":
    use_pages("Uses the page of a study as a reader does.", "trials", check_page, check_open, narrow=slice(1))
