#!/usr/bin/env python3
"""Uses the page of runs in headless Chromium: hovers, hides runs, switches axes. Takes some seconds.

    tools/runs_browser_check.py [--screenshots FOLDER] [--open PAGE.html …] PAGE.html …

Works like browser_check.py, whose browser it uses. `--open` names pages with hardly any readings.
"""

from browser_check import check, check_clean
from tune_browser_check import painted, use_pages

# Of a page of 40 runs and 20,000 readings, from its first byte until it is drawn.
SLOWEST_PAGE_MS = 2000
SLOWEST_DRAW_MS = 1000

SHOWN = "return charts.filter((chart) => chart.box.clientWidth).map((chart) => chart.id)"
# A place within a chart, on the screen.
PLACE = """
  const chart = charts.find((it) => it.id === arguments[0]);
  chart.box.scrollIntoView({block: 'center'});
  const box = chart.box.getBoundingClientRect();
  return {x: box.left + chart.x.from + (chart.x.to - chart.x.from) * arguments[1], y: box.top + box.height * 0.4};
"""
TIP = "return byId('tip').hidden ? '' : byId('tip').innerText"


def check_drawn(browser):
    """Every chart with readings is drawn, soon; a chart without is not there."""
    browser.settle()
    shown = browser.run(SHOWN)
    check("loss" in shown and "speed" in shown, f"only {shown} are shown")
    for chart in shown:
        check(painted(browser, chart) > 5, f"{chart} is not drawn")
        label = browser.run("return byId(arguments[0]).getAttribute('aria-label')", chart)
        check("from" in label and "to" in label, f"{chart} is described by {label!r}")
    empty = browser.run("return Object.keys(METRICS).filter((id) => !METRICS[id].curves.some((curve) => curve.values.length))")
    check(not set(empty) & set(shown), f"{empty} have no readings and are shown")
    drawn = browser.run("return Number(document.body.dataset.drawnMs)")
    check(0 < drawn < SLOWEST_PAGE_MS, f"the page is drawn after {drawn} ms")
    slowest = browser.run("const all = []; for (let i = 0; i < 3; i += 1) { drawAll(); all.push(Number(document.body.dataset.drawMs)); } return Math.min(...all)")
    check(slowest < SLOWEST_DRAW_MS, f"a redraw takes {slowest} ms")
    return shown, drawn, slowest


def check_hover(browser, shown):
    """The tip has each run's reading at the position, which is marked in all charts."""
    at = browser.run(PLACE, "loss", 0.05)
    browser.hover(at["x"], at["y"])
    tip = browser.run(TIP)
    check(tip.startswith("step "), f"the tip says {tip!r}")
    rows = browser.run("return byId('tip').querySelectorAll('td:first-child').length")
    there = browser.run("return Math.min(TIP_ROWS, charts[0].readings(0).length)")
    check(rows == there > 0, f"the tip has {rows} rows for {there} runs")
    value = browser.run("""const run = NAMES.findIndex((name) => arguments[0].includes(`${name}\\t`));
      const curve = METRICS.loss.curves[run]; return formatNumber(curve.values[curve.nearest(state.at)])""", tip)
    check(value in tip, f"the tip lacks {value}: {tip!r}")
    for chart in shown:
        check(painted(browser, chart, 1) > 1, f"{chart} does not mark the position")
    browser.hover(2, 2)
    check(browser.run("return state.at === null && byId('tip').hidden"), "the tip stays")


def check_keys(browser):
    """Arrow keys move the position of a chart that has the focus."""
    browser.run("byId('loss').focus()")
    browser.press("\ue014")
    first = browser.run("return state.at")
    browser.press("\ue014")
    check(browser.run("return state.at") > first and browser.run(TIP), "the arrow key moves nothing")
    browser.press("\ue00c")
    check(browser.run("return state.at === null"), "the position stays after Escape")


def check_switches(browser):
    """Axes and smoothing change the charts, and time is a time."""
    browser.press_button("#over [data-value=seconds]")
    at = browser.run(PLACE, "loss", 0.05)
    browser.hover(at["x"], at["y"])
    check(not browser.run(TIP).startswith("step"), "the axis of time shows steps")
    browser.hover(2, 2)
    browser.press_button("#over [data-value=step]")
    browser.press_button("#smoothing [data-value='0.08']")
    rough, smooth = browser.run("""const turns = (values) => values.filter((value, index) => index > 1 && (value - values[index - 1]) * (values[index - 1] - values[index - 2]) < 0).length;
      const curve = METRICS.loss.curves[0]; return [turns(curve.values), turns(curve.smoothed())]""")
    check(smooth < rough or rough == 0, f"smoothing leaves {smooth} of {rough} turns")
    browser.press_button("#smoothing [data-value='0']")
    if browser.run("return !byId('values').parentElement.hidden"):
        browser.press_button("#values [data-value=log]")
        check(browser.run("return charts[0].y.isLog"), "the axis of losses stays linear")
        browser.press_button("#values [data-value=linear]")


def check_runs(browser):
    """A run's button hides its curves and brings them back."""
    before = browser.run("return charts[0].shown.length")
    browser.press_button("#runs button")
    hidden = browser.run("return charts[0].shown.length")
    check(hidden < before, "a run is not hidden")
    check(browser.run("return document.querySelector('#runs button').getAttribute('aria-pressed')") == "false", "the button does not say so")
    browser.press_button("#runs button")
    check(browser.run("return charts[0].shown.length") == before, "the run does not come back")


def check_page(browser, path):
    browser.open(path)
    shown, drawn, slowest = check_drawn(browser)
    check_hover(browser, shown)
    check_keys(browser)
    check_switches(browser)
    check_runs(browser)
    wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    check(wide <= 0, f"the page is {wide} px wider than the window")
    check_clean(browser)
    print(f"{path}: {browser.run('return COUNT')} runs, drawn after {drawn} ms, redraw {slowest} ms")


def check_open(browser, path):
    """A page with hardly any readings: no action on it is an error."""
    browser.open(path)
    browser.settle()
    for chart in browser.run(SHOWN):
        at = browser.run(PLACE, chart, 0.5)
        browser.hover(at["x"], at["y"])
    for button in browser.run("return [...document.querySelectorAll('button')].map((_, index) => index)"):
        browser.run("const it = document.querySelectorAll('button')[arguments[0]]; if (it && it.offsetParent) it.click()", button)
    browser.settle()
    check_clean(browser)


def hover_over_the_loss(browser, shoot):
    if "loss" in browser.run(SHOWN):
        at = browser.run(PLACE, "loss", 0.3)
        browser.hover(at["x"], at["y"])
        shoot("hover")


if __name__ == "__main__":
    use_pages("Uses the page of runs as a reader does.", "readings", check_page, check_open, visit=hover_over_the_loss)
