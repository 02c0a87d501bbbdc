#!/usr/bin/env python3
"""Reads the rendered book in headless Chromium: every page, its links and pictures, the search, a theme. Takes a minute.

    tools/book_browser_check.py [--screenshots FOLDER] [BOOK]

BOOK is the folder of `cargo xtask book`, target/book/html unless named. Works like browser_check.py, whose browser it uses. Exits
with 1 where a page writes an error to the console, links to what is not there, shows a picture that cannot be read, loads
something from elsewhere, or is wider than a phone.
"""

import argparse
import pathlib
import sys
import time
import urllib.parse

from browser_check import Browser, Failure, check, check_quiet, take_screenshots

# What mdBook makes beside the pages: a list for browsers without scripts, and all pages as one.
NO_PAGES = {"toc.html", "print.html", "404.html"}
SCREENS = {"wide": (1280, 900), "phone": (400, 800)}
# A question that a reader brings, and the page that must be among its first answers.
SEARCHES = {
    "out of memory": "docs/concepts/out-of-memory.html",
    "gradient accumulation": "docs/concepts/micro-batches.html",
    "Lightning": "docs/guides/from-lightning.html",
}
FIRST_ANSWERS = 5
SHOOT = ["index.html", "docs/guides/getting-started.html", "docs/guides/from-lightning.html", "docs/guides/profile.html"]

PAGE = """return {
  title: document.querySelector('main h1')?.textContent.trim(),
  links: [...document.querySelectorAll('main a[href]')].map((it) => it.href),
  pictures: [...document.querySelectorAll('main img')].filter((it) => !(it.complete && it.naturalWidth)).map((it) => it.src),
  loaded: performance.getEntriesByType('resource').map((it) => it.name),
  ids: [...document.querySelectorAll('[id]')].map((it) => it.id),
  wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}"""
# Pictures below the window are loaded when they are scrolled to.
LOAD_PICTURES = """const done = arguments[0];
  const all = [...document.querySelectorAll('main img')];
  all.forEach((it) => { it.loading = 'eager'; });
  Promise.allSettled(all.map((it) => it.decode())).then(() => done(all.length))"""
LISTED = "return [...document.querySelectorAll('#mdbook-sidebar a[href], #sidebar a[href]')].map((it) => it.href.split('#')[0])"


def check_page(browser, page, root):
    """The page has a title, is quiet, loads nothing from elsewhere, and fits the window. Returns its links and anchors."""
    browser.open(page)
    browser.call("POST", f"{browser.session}/execute/async", {"script": LOAD_PICTURES, "args": []})
    found = browser.run(PAGE)
    check(found["title"], "it has no title")
    check_quiet(browser)
    check(not found["pictures"], f"pictures that cannot be read: {found['pictures']}")
    elsewhere = [name for name in found["loaded"] if not name.startswith((root.as_uri(), "data:"))]
    check(not elsewhere, f"it loads {elsewhere}")
    check(found["wider"] <= 0, f"it is {found['wider']} px wider than the window")
    return found


def broken(links, root, anchors):
    """Links into the book whose page or place is not there."""
    missing = []
    for link in links:
        url = urllib.parse.urlsplit(link)
        if url.scheme != "file":
            continue
        path = pathlib.Path(urllib.parse.unquote(url.path))
        place = urllib.parse.unquote(url.fragment)
        is_there = path.is_relative_to(root) and path.is_file()
        if not is_there or (place and path in anchors and place not in anchors[path]):
            missing.append(link.removeprefix(root.as_uri()))
    return missing


def check_pages(browser, pages, root):
    """Every page by itself, then the links among them, then the sidebar, which must list them all."""
    found = {}
    for page in pages:
        try:
            found[page] = check_page(browser, page, root)
        except Failure as failure:
            raise Failure(f"{page.relative_to(root)}: {failure}") from None
    anchors = {page: set(it["ids"]) for page, it in found.items()}
    for page, it in found.items():
        missing = broken(it["links"], root, anchors)
        check(not missing, f"{page.relative_to(root)} links to what is not there: {missing}")
    listed = set(browser.run(LISTED))
    unlisted = [str(page.relative_to(root)) for page in pages if page.as_uri() not in listed]
    check(not unlisted, f"the sidebar lacks {unlisted}")
    return sum(len(it["links"]) for it in found.values())


def search(browser, words):
    """The pages of the first answers, typed as a reader types."""
    browser.press("s")
    for letter in words:
        browser.press(letter)
    answers = """const done = arguments[0]; let left = 100;
      const look = () => {
        const links = [...document.querySelectorAll('#mdbook-searchresults a, #searchresults a')].map((it) => it.href);
        if (links.length || --left === 0) done(links); else setTimeout(look, 50);
      }; setTimeout(look, 600)"""
    return browser.call("POST", f"{browser.session}/execute/async", {"script": answers, "args": []})


def check_search(browser, root):
    for words, page in SEARCHES.items():
        browser.open(root / "index.html")
        browser.settle()
        answers = search(browser, words)
        first = [answer.split("?")[0].split("#")[0].removeprefix(f"{root.as_uri()}/") for answer in answers[:FIRST_ANSWERS]]
        check(page in first, f"a search for `{words}` does not lead to {page} but to {first}")


BRIGHTNESS = """return getComputedStyle(document.documentElement).backgroundColor
  .match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"""
# Chromium may draw the next page in another process, which learns of stored values a moment later.
THEME_WAIT_S = 10


def brightness_becomes(browser, page, expected):
    """Opens the page until it has this brightness. Whether it ever has."""
    deadline = time.monotonic() + THEME_WAIT_S
    while time.monotonic() < deadline:
        browser.open(page)
        if browser.run(BRIGHTNESS) == expected:
            return True
        time.sleep(0.2)
    return False


def choose_theme(browser, theme):
    browser.run("document.querySelector(`#mdbook-theme-${arguments[0]}, #${arguments[0]}`).click()", theme)
    browser.settle()
    return browser.run(BRIGHTNESS)


def check_theme(browser, root):
    """The menu's dark theme makes the page dark, and stays for the next page."""
    browser.open(root / "index.html")
    light = choose_theme(browser, "light")
    dark = choose_theme(browser, "navy")
    check(dark < light / 2, f"the dark theme has a brightness of {dark} beside {light}")
    check(brightness_becomes(browser, root / "docs/index.html", dark), "the next page forgets the theme")
    choose_theme(browser, "light")


def main():
    parser = argparse.ArgumentParser(description="Reads the rendered book as a reader does.")
    parser.add_argument("book", nargs="?", type=pathlib.Path, default=pathlib.Path("target/book/html"))
    parser.add_argument("--screenshots", type=pathlib.Path, help="take screenshots into this folder instead")
    arguments = parser.parse_args()
    root = arguments.book.resolve()
    pages = sorted(page for page in root.rglob("*.html") if str(page.relative_to(root)) not in NO_PAGES)
    if not pages:
        sys.exit(f"error: {arguments.book} has no pages\n\nhint: `cargo xtask book` renders the book")
    if arguments.screenshots:
        return take_screenshots(arguments.screenshots, [root / name for name in SHOOT])
    for screen, (width, height) in SCREENS.items():
        browser = Browser(width, height)
        try:
            links = check_pages(browser, pages, root)
            if screen == "wide":
                check_search(browser, root)
                check_theme(browser, root)
        except Failure as failure:
            sys.exit(f"error: at {width} px: {failure}")
        finally:
            browser.close()
        print(f"{len(pages)} pages, {links} links, on a {screen} screen of {width} px")


if __name__ == "__main__":
    main()
