#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at the pages that the target doc makes, in Chromium, as wide as a desk's screen and as a telephone, in light and dark, and keeps what
it sees as pictures.

    browser.py PAGES PICTURES    the pages have doxygen-awesome-css: Doxygen's own look is not for telephones

Nothing that a page asks for may be missing, no page may be wider than the screen, images and style sheets are there, the menu opens, and the
search box finds a function.
"""
import functools
import http.server
import os
import shutil
import struct
import sys
import threading

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

SCREENS = (('desk', 1280, 800, 'light'), ('telephone', 390, 844, 'light'), ('telephone-dark', 390, 844, 'dark'))
LIMIT_S = 30
LEAST_BYTES = 8000  # of a picture: an empty page has less

# A page's width, also of the part that scrolls by itself.
TOO_WIDE = """
return [document.documentElement, document.body, document.getElementById('doc-content')]
    .filter(one => one && one.scrollWidth > Math.min(one.clientWidth, innerWidth))
    .map(one => (one.id || one.tagName) + ' is ' + one.scrollWidth + ' wide, of ' + Math.min(one.clientWidth, innerWidth));
"""
# Pictures without a size have not come. A drawing is an <object>, which has a document if it has come, and is cut off, where it is wider than
# the page, unless it has a viewBox.
BROKEN = """
return [...document.querySelectorAll('#doc-content img')].filter(one => !one.complete || !one.naturalWidth).map(one => one.src)
    .concat([...document.querySelectorAll('object')].filter(one => !one.contentDocument || !one.offsetWidth ||
        one.offsetWidth > innerWidth || !one.contentDocument.documentElement.hasAttribute('viewBox')).map(one => one.data));
"""
UNSTYLED = """
return [...document.styleSheets].filter(one => !one.cssRules.length).map(one => one.href)
    .concat(getComputedStyle(document.documentElement).getPropertyValue('--page-background-color') ? [] : ['doxygen-awesome-css']);
"""
STILL = "return !jQuery(':animated').length && document.getAnimations().every(one => one.playState != 'running');"
COLOUR = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number);"
READY = "return document.readyState == 'complete' && !!document.querySelector('#doc-content .contents');"


class Server(http.server.ThreadingHTTPServer):
    """The pages, by HTTP on a port of its own; `missing` are the paths that were asked for in vain."""

    def __init__(self, folder):
        self.missing = []
        super().__init__(('127.0.0.1', 0), functools.partial(Handler, directory=folder))
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.SimpleHTTPRequestHandler):
    def send_error(self, code, message=None, explain=None):
        if self.path != '/favicon.ico':
            self.server.missing.append('%d %s' % (code, self.path))
        super().send_error(code, message, explain)

    def log_message(self, *arguments):
        pass


class Browser:
    def __init__(self, width, height, colours):
        options = Options()
        for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--lang=en'):
            options.add_argument(argument)
        options.binary_location = shutil.which('chromium')
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.driver = webdriver.Chrome(service=Service(shutil.which('chromedriver')), options=options)
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                                    {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': width < 768})
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': colours}]})

    def wait(self, script):
        """Until a script returns something true, which is the result."""
        limit = LIMIT_S * float(os.environ.get('VIPL_TEST_TIMEOUT_SCALE', '1'))
        return WebDriverWait(self.driver, limit).until(lambda driver: driver.execute_script(script))

    def run(self, script):
        return self.driver.execute_script(script)


def look(browser, address, screen, page):
    """What is wrong with a page on a screen."""
    name, _, _, colours = screen
    browser.driver.get(address)
    browser.wait(READY)
    findings = ['no picture: ' + one for one in browser.run(BROKEN)]
    findings += ['too wide: ' + one for one in browser.run(TOO_WIDE)]
    findings += ['no style: ' + one for one in browser.run(UNSTYLED)]
    if (sum(browser.run(COLOUR)) < 3 * 128) != (colours == 'dark'):
        findings.append('the page is not ' + colours)
    findings += [entry['message'] for entry in browser.driver.get_log('browser') if 'favicon' not in entry['message']]
    return ['%s, %s: %s' % (page, name, finding) for finding in findings]


def picture(browser, folder, screen, page):
    """Keeps what is to be seen, and says its size, or what is wrong with it."""
    name, width, height, _ = screen
    path = os.path.join(folder, '%s-%s.png' % (page, name))
    browser.wait(STILL)
    browser.driver.save_screenshot(path)
    with open(path, 'rb') as file:
        data = file.read()
    size = struct.unpack('>II', data[16:24])
    print('%s: %d x %d, %d bytes' % ((os.path.basename(path),) + size + (len(data),)))
    return [] if size == (width, height) and len(data) > LEAST_BYTES else ['%s: too small' % path]


def menu(browser, screen, folder):
    """A telephone's menu is behind a button; a desk's is at the side, with the groups of guides."""
    if screen[1] >= 768:
        groups = browser.wait("return [...document.querySelectorAll('#nav-tree .label')].map(one => one.innerText.trim()).filter(Boolean);")
    else:
        browser.run("document.querySelector('.main-menu-btn').click();")
        groups = browser.wait("var all = [...document.querySelectorAll('#main-menu > li > a')].filter(one => one.offsetHeight);"
                              "return all.length && all.map(one => one.innerText.trim());")
    lacking = [group for group in ('Use', 'Design', 'RDMA card', 'Reference') if not any(one.startswith(group) for one in groups)]
    return picture(browser, folder, screen, 'menu') + ['menu, %s: has no %s' % (screen[0], one) for one in lacking]


def search(browser, screen, folder):
    browser.run("var field = document.getElementById('MSearchField'); field.focus(); field.value = 'VipPostS';"
                "field.dispatchEvent(new KeyboardEvent('keyup', {keyCode: 83, bubbles: true})); searchBox.Search();")
    found = browser.wait("var box = document.getElementById('MSearchResults');"
                         "var page = box && (box.contentDocument || document);"
                         "return page && [...page.querySelectorAll('.SRResult')].filter(one => one.offsetHeight).map(one => one.innerText).join();")
    return picture(browser, folder, screen, 'search') + ([] if 'VipPostSend' in found else ['search, %s: found %s' % (screen[0], found)])


def function_of(browser, address):
    """The address of a function in the reference, by the link on its group's page."""
    browser.driver.get(address)
    browser.wait(READY)
    return browser.run("return [...document.querySelectorAll('.memItemRight a')].find(one => one.innerText == 'VipPostSend').href;")


def main():
    pages, folder = sys.argv[1:]
    if webdriver is None or not shutil.which('chromium') or not shutil.which('chromedriver'):
        print("cannot run: Debian's packages chromium, chromium-driver and python3-selenium are not installed")
        return 1 if os.environ.get('CI') == 'true' else 77
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    server = Server(pages)
    home = 'http://127.0.0.1:%d/' % server.server_port
    findings = []
    for screen in SCREENS:
        browser = Browser(*screen[1:])
        try:
            addresses = {'start': home + 'index.html', 'guide': home + 'use_settings.html', 'plots': home + 'use_performance.html',
                         'group': home + 'group__data__transfer.html'}
            addresses['function'] = function_of(browser, addresses['group'])
            for page, address in addresses.items():
                findings += look(browser, address, screen, page)
                if page == 'plots':
                    browser.run("document.querySelector('#doc-content object').scrollIntoView({block: 'center', behavior: 'instant'});")
                findings += picture(browser, folder, screen, page)
            browser.driver.get(addresses['start'])
            browser.wait(READY)
            findings += menu(browser, screen, folder)
            browser.driver.get(addresses['start'])
            browser.wait(READY)
            findings += search(browser, screen, folder)
        finally:
            browser.driver.quit()
    findings += ['is missing: ' + one for one in sorted(set(server.missing))]
    print('\n'.join(findings + ['%d findings' % len(findings)]))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main())
