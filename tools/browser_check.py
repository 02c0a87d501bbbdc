#!/usr/bin/env python3
"""Uses a timeline page in headless Chromium: hovers, zooms, clicks, toggles. Takes some seconds.

    tools/browser_check.py [--screenshots FOLDER] [--chart CHART.html] [--open PAGE.html …] PAGE.html …

Speaks WebDriver to chromedriver over its HTTP interface, with the standard library only. `OOMPH_CHROMEDRIVER` and
`OOMPH_CHROMIUM` name other programs than `chromedriver` and `chromium`. Exits with 1 where the page misbehaves, writes an
error to the console, or tries to load a resource.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
]
# Far above the 50 ms of a quiet machine: tests run beside others, without a GPU.
SLOWEST_DRAW_MS = 400
SLOWEST_FIRST_FRAME_S = 10


class Failure(Exception):
    """The page misbehaved."""


def check(holds, sentence):
    if not holds:
        raise Failure(sentence)


def free_port():
    """A port of this machine that nothing listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Browser:
    """One session of chromedriver."""

    def __init__(self, width, height, dark=False):
        self.profile = tempfile.mkdtemp(prefix="oomph-browser-")
        port = free_port()
        driver = os.environ.get("OOMPH_CHROMEDRIVER", "chromedriver")
        self.driver = subprocess.Popen(
            [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.root = f"http://127.0.0.1:{port}"
        self.session = None
        arguments = [*ARGUMENTS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]
        if dark:
            arguments.append("--force-dark-mode")
        chromium = os.environ.get("OOMPH_CHROMIUM") or next(
            filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
        )
        options = {"args": arguments, **({"binary": chromium} if chromium else {})}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self.wait_for_driver()
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self.session = f"/session/{made['sessionId']}"
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            self.devtools("Emulation.setEmulatedMedia", {"features": scheme})
            self.devtools("Emulation.setDeviceMetricsOverride",
                          {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        except BaseException:
            self.close()
            raise

    def wait_for_driver(self):
        for _ in range(100):
            try:
                return self.call("GET", "/status")
            except OSError:
                time.sleep(0.1)
        raise Failure("chromedriver does not answer")

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failure(f"{path}: {json.load(error)['value']['message']}") from None

    def devtools(self, command, parameters):
        return self.call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, path):
        self.call("POST", f"{self.session}/url", {"url": pathlib.Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        return self.call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def settle(self):
        """Waits for two frames, after which the page is drawn."""
        script = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(true)))"
        self.call("POST", f"{self.session}/execute/async", {"script": script, "args": []})

    def pointer(self, *actions):
        source = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(actions)}
        self.call("POST", f"{self.session}/actions", {"actions": [source]})
        self.settle()

    def hover(self, x, y):
        self.pointer(move(x, y))

    def click(self, x, y):
        self.pointer(move(x, y), {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})

    def double_click(self, x, y):
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.pointer(move(x, y), *press, *press)

    def drag(self, x0, x1, y):
        self.pointer(move(x0, y), {"type": "pointerDown", "button": 0}, move((x0 + x1) // 2, y), move(x1, y),
                     {"type": "pointerUp", "button": 0})

    def wheel(self, x, y, amount):
        action = {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": amount, "origin": "viewport"}
        self.call("POST", f"{self.session}/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [action]}]})
        self.settle()

    def press(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", f"{self.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
        self.settle()

    def press_button(self, selector):
        self.run("const it = document.querySelector(arguments[0]); it.scrollIntoView({block: 'center'}); it.click()", selector)
        self.settle()

    def console(self):
        return self.call("POST", f"{self.session}/se/log", {"type": "browser"})

    def screenshot(self, path):
        image = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))

    def close(self):
        if self.session:
            try:
                self.call("DELETE", self.session)
            except (OSError, Failure):
                pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


def move(x, y):
    return {"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y), "origin": "viewport"}


# The screen position and the name of the largest block at the chosen moment.
FIND_LARGEST = """
  stage.scrollIntoView({block: 'center'});
  const box = stage.getBoundingClientRect();
  const block = timeline.alive(state.moment, state.shown).sort((a, b) => timeline.bytes[b] - timeline.bytes[a])[0];
  const track = new BlockBand(scene, block);
  const column = scene.columns.most.indexOf(state.moment);
  if (column < 0) return null;
  const event = track.eventOf(scene.columns.least[column], scene.columns.most[column]);
  const y = toY(track.at(event) + timeline.bytes[block] / 2);
  return {x: box.left + scene.layout.plot.left + (column + 0.5) / scene.layout.ratio, y: box.top + y,
          title: titleOf(timeline, block), size: formatBytes(timeline.bytes[block]),
          category: CATEGORIES[timeline.category[block]]};
"""
MIDDLE = """
  stage.scrollIntoView({block: 'center'});
  const box = stage.getBoundingClientRect();
  const {plot} = scene.layout;
  return {x: box.left + plot.left + plot.width / 2, y: box.top + plot.top + plot.height / 2,
          left: box.left + plot.left, right: box.left + plot.left + plot.width, tracks: box.top + 10};
"""


def check_hover(browser):
    """The tooltip names the block under the pointer."""
    target = browser.run(FIND_LARGEST)
    check(target, "the moment of the peak is not on the chart")
    browser.hover(target["x"], target["y"])
    tip = browser.run("return byId('tip').hidden ? null : byId('tip').innerText")
    check(tip, "no tooltip where a block is")
    for part in ("title", "size", "category"):
        check(" ".join(target[part].split()) in " ".join(tip.split()), f"the tooltip lacks {target[part]!r}: {tip!r}")


def check_zoom(browser):
    """The wheel, a drag, keys and a double click change the window."""
    span = "return view.span / (view.last - view.first)"
    middle = browser.run(MIDDLE)
    check(browser.run(span) == 1, "not everything is shown at first")
    browser.wheel(middle["x"], middle["y"], -240)
    wheeled = browser.run(span)
    check(wheeled < 0.9, "the wheel does not zoom")
    browser.drag(middle["x"] - 100, middle["x"] + 100, middle["y"])
    check(browser.run(span) < wheeled, "a drag does not zoom")
    low = browser.run("return view.low")
    browser.run("stage.focus()")
    browser.press("\ue012")
    check(browser.run("return view.low") < low, "the arrow does not pan")
    browser.press("0")
    check(browser.run(span) == 1, "0 does not show everything")
    browser.press("+")
    check(browser.run(span) < 1, "+ does not zoom")
    browser.double_click(middle["x"], middle["y"])
    check(browser.run(span) == 1, "a double click does not show everything")
    browser.click((middle["left"] * 3 + middle["right"]) / 4, middle["tracks"] + 22)
    check(browser.run(span) < 1, "a click on a phase does not zoom to it")
    browser.press("0")


def check_choices(browser):
    """A row highlights its block; a moment is picked and left; categories and kinds of drawing are switched."""
    browser.press_button("#blocks tbody tr:nth-child(2) button")
    chosen = browser.run("return [state.chosen, document.querySelectorAll('#blocks tr.chosen').length]")
    check(chosen[0] >= 0 and chosen[1] == 1, "a click on a row does not highlight its block")
    browser.press_button("#clear")
    check(browser.run("return state.chosen") == -1, "the highlight does not go")
    middle = browser.run(MIDDLE)
    browser.click(middle["x"], middle["y"])
    check(browser.run("return state.moment !== timeline.peak && !byId('peak').hidden"), "a click picks no moment")
    check("chosen moment" in browser.run("return byId('caption').textContent"), "the table stays at the peak")
    browser.press_button("#peak")
    check(browser.run("return state.moment === timeline.peak"), "there is no way back to the peak")
    pixels = "return byId('base').toDataURL()"
    before = browser.run(pixels)
    browser.press_button("#mode [data-value=block]")
    by_block = browser.run(pixels)
    check(by_block != before, "by block looks like by category")
    check_hover(browser)
    browser.press_button("#mode [data-value=category]")
    check(browser.run(pixels) == before, "by category does not come back")
    browser.press_button("#legend [data-category='3']")
    check(browser.run("return scene.totals[timeline.peak] < timeline.levels.reduce((sum, it) => sum + it[timeline.peak], 0)"),
          "the legend does not take a category away")
    browser.press_button("#legend [data-category='3']")
    check(browser.run(pixels) == before, "the legend does not bring a category back")
    if not browser.run("return byId('axis').hidden"):
        browser.press_button("#axis [data-value=event]")
        check(browser.run(pixels) != before, "events look like time")
        browser.press_button("#axis [data-value=time]")


def check_speed(browser):
    """The slowest of several ways to draw."""
    slowest = 0
    for mode in ("block", "category"):
        browser.press_button(f"#mode [data-value={mode}]")
        for factor in (1, 0.5, 0.1, 0.01):
            slowest = max(slowest, browser.run(
                "view.reset(); view.zoom(arguments[0]); const all = [];"
                "for (let i = 0; i < 3; i += 1) { draw(); all.push(Number(stage.dataset.drawMs)); }"
                "view.reset(); return Math.min(...all)", factor))
    check(slowest < SLOWEST_DRAW_MS, f"a redraw takes {slowest} ms")
    return slowest


def check_quiet(browser):
    """The console is empty."""
    loud = [entry["message"] for entry in browser.console() if entry["level"] != "DEBUG"]
    check(not loud, f"the console says {loud}")


def check_clean(browser):
    """The console is empty, and the page loaded nothing."""
    check_quiet(browser)
    check(browser.run("return window.owned === undefined"), "a name of the data was run as code")
    loaded = browser.run("return performance.getEntriesByType('resource').map((it) => it.name)")
    check(not loaded, f"the page loads {loaded}")


def check_drawn(browser):
    """A page draws with its next frame, which is late on a busy machine."""
    last = time.monotonic() + SLOWEST_FIRST_FRAME_S
    while not (drawn := browser.run("return Number(stage.dataset.drawMs) >= 0")) and time.monotonic() < last:
        time.sleep(0.05)
    check(drawn, "nothing is drawn")


def check_page(browser, path):
    browser.open(path)
    check_drawn(browser)
    check_hover(browser)
    check_zoom(browser)
    check_choices(browser)
    slowest = check_speed(browser)
    check_clean(browser)
    print(f"{path}: {browser.run('return timeline.events')} events, slowest redraw {slowest} ms")


def check_devices(browser, path):
    """A page of several devices: a track each, and the memory of the one that is chosen."""
    browser.open(path)
    count = browser.run("return DEVICES.length")
    check(count > 1 and browser.run("return byId('device').children.length") == count, "no button for each device")
    check(browser.run("return trackBox.clientHeight >= DEVICES.length * TRACK"), "tracks have no room")
    painted = """const { data } = trackBox.getContext("2d").getImageData(0, 0, trackBox.width, trackBox.height);
      return new Set(new Uint32Array(data.buffer)).size"""
    check(browser.run(painted) > len(browser.run("return KINDS.filter((_, kind) => tracksOfDevices[0].spans.some((it) => it.kind === kind))")),
          "tracks are not painted")
    place = """const span = tracksOfDevices[arguments[0]].spans.reduce((best, it) => it.end - it.start > best.end - best.start ? it : best);
      const box = trackBox.getBoundingClientRect();
      return [box.left + toX(view.fromTime((span.start + span.end) / 2)), box.top + arguments[0] * ROW + TRACK / 2, span.name]"""
    x, y, name = browser.run(place, 1)
    browser.hover(x, y)
    check(name in browser.run("return byId('tip').textContent"), f"the tip does not say {name}")
    window = browser.run("return [view.low, view.high]")
    browser.click(x, y)
    check(browser.run("return [state.device, timeline === device(1).timeline]") == [1, True], "a click on a track does not choose it")
    check(browser.run("return [view.low, view.high]") == window, "another device is shown over another time")
    browser.click(x, y)
    check(browser.run("return view.span") < window[1] - window[0], "a click on a span does not zoom")
    browser.press_button("#axis [data-value=event]")
    browser.press_button("#device button")
    check(browser.run("return state.device") == 0, "a button does not choose its device")
    check_clean(browser)


def check_open(browser, path):
    """A nearly empty page: no action on it is an error."""
    browser.open(path)
    check_drawn(browser)
    middle = browser.run(MIDDLE)
    browser.hover(middle["x"], middle["y"])
    browser.click(middle["x"], middle["y"])
    browser.wheel(middle["x"], middle["y"], -240)
    browser.press_button("#mode [data-value=block]")
    browser.run("stage.focus()")
    for key in "+-0,.p":
        browser.press(key)
    check_clean(browser)


def check_chart(browser, path):
    browser.open(path)
    check(browser.run("return document.querySelectorAll('svg rect').length > 5"), "no bars")
    check(browser.run("return document.scripts.length === 0"), "a page of bars needs no script")
    loud = [entry["message"] for entry in browser.console()]
    check(not loud, f"the console says {loud}")


VIEWS = {"light": (1440, 1180, False), "dark": (1440, 1180, True), "phone": (400, 1500, False)}


def choose_a_block(browser, shoot):
    """What is shot of a timeline's page after its first screenshot."""
    if not browser.run("return typeof stage !== 'undefined'"):
        return
    target = browser.run(FIND_LARGEST)
    if target:
        browser.hover(target["x"], target["y"])
        shoot("hover")
    browser.press_button("#mode [data-value=block]")
    browser.run("scrollTo(0, 0)")
    shoot("block")
    browser.press_button("#blocks tbody tr:nth-child(3) button")
    browser.run("scrollTo(0, 0)")
    browser.settle()
    shoot("chosen")


def take_screenshots(folder, pages, views=VIEWS, visit=choose_a_block):
    """Shoots each page in each view, then what `visit(browser, shoot)` makes of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for view, (width, height, dark) in views.items():
        browser = Browser(width, height, dark)
        try:
            for page in pages:
                browser.open(page)
                browser.settle()
                browser.screenshot(folder / f"{page.stem}-{view}.png")
                visit(browser, lambda what: browser.screenshot(folder / f"{page.stem}-{view}-{what}.png"))
        finally:
            browser.close()


def main():
    parser = argparse.ArgumentParser(description="Uses the timeline's page as a reader does.")
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--open", type=pathlib.Path, action="append", default=[], help="a page that is hardly one")
    parser.add_argument("--devices", type=pathlib.Path, help="a page of several devices")
    parser.add_argument("--chart", type=pathlib.Path, help="a page that compares")
    parser.add_argument("--screenshots", type=pathlib.Path, help="take screenshots into this folder instead")
    arguments = parser.parse_args()
    if arguments.screenshots:
        return take_screenshots(arguments.screenshots, [*arguments.pages, *filter(None, [arguments.chart])])
    browser = Browser(1400, 1000)
    try:
        for page in arguments.pages:
            try:
                check_page(browser, page)
            except Failure as failure:
                sys.exit(f"error: {page}: {failure}")
        for page in arguments.open:
            check_open(browser, page)
        if arguments.devices:
            check_devices(browser, arguments.devices)
        if arguments.chart:
            check_chart(browser, arguments.chart)
    except Failure as failure:
        sys.exit(f"error: {failure}")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
