"""The page that runs the simulator in headless Chromium, without a network: its answers are the command's, to the digit."""

import csv
import gzip
import io
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE = os.environ.get("SMRKIT_WEB")
TRACE = "time,op,offset,size\n" + "".join(f"{at / 50},W,{at * 7919 % 9000 * 65536},65536\n" for at in range(3000))
DROP = """([name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], name));
    dispatchEvent(new DragEvent('drop', { dataTransfer: data }));
}"""


def comparable(text):
    """Without what is not the answer's: the commit of the build, and the memory of maps, whose pointers are shorter in a browser."""
    return re.sub(r'"commit": "[0-9a-f]{12}(-changed)?"| \([0-9a-f]{12}(-changed)?\)|"map_bytes": \d+', "", text)


@unittest.skipUnless(PAGE, "SMRKIT_WEB names no page of make web")
@unittest.skipUnless(sync_playwright, "playwright and axe-playwright-python are not installed: scripts/need pages")
@unittest.skipUnless(CHROMIUM, "there is no Chromium: scripts/need pages")
class Web(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        playwright = cls.enterClassContext(sync_playwright())
        cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    def open(self, question="", width=1280, scheme="light"):
        """The page from a disk, without a network, and all that it says on the console or asks of one."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        self.addCleanup(context.close)
        page, noise = context.new_page(), []
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or noise.append(request.url))
        page.goto(pathlib.Path(PAGE).resolve().as_uri() + question)
        page.wait_for_selector("#ask:enabled")
        return page, noise

    def answer(self, page):
        """The whole answer, and the results."""
        page.wait_for_selector("#results:not([hidden])", timeout=120_000)
        self.assertTrue(page.locator("#error").is_hidden())
        return comparable(page.evaluate("answer")), comparable(page.evaluate("json"))

    def command(self, words):
        """What the command writes for the same question."""
        outputs = [self.folder / "answer.html", self.folder / "results.json"]
        asked = [os.environ["SMRKIT"], *words.split(), "--report", outputs[0].name, "--json", outputs[1].name]
        subprocess.run(asked, check=True, capture_output=True, cwd=self.folder)
        return tuple(comparable(output.read_text(encoding="utf-8")) for output in outputs)

    def saved(self, page, button):
        """The text of the file that a button saves."""
        with page.expect_download() as download:
            page.click(button)
        return pathlib.Path(download.value.path()).read_text(encoding="utf-8")

    def editor(self, page):
        """The drive's file in the page, loaded."""
        page.locator("summary", has_text="Edit the drive").click()
        file = page.get_by_role("textbox", name="The drive's file")
        while not file.input_value():
            page.wait_for_timeout(20)
        return file

    def drop(self, page, name, content):
        (self.folder / name).write_bytes(content)
        page.evaluate(DROP, [name, list(content)])

    def test_an_answer_is_the_page_that_the_command_writes(self):
        page, noise = self.open()
        page.get_by_label("Drive", exact=True).fill("wd40efax")
        page.locator("#use").select_option("restic")
        page.get_by_label("bytes: amount that a backup writes").fill("1G")
        page.get_by_label("Done within").fill("1h")
        page.get_by_role("button", name="Ask", exact=True).click()
        self.assertEqual(self.command("advise --drive wd40efax --for restic:bytes=1G --within 1h"), self.answer(page))
        shown = page.frame_locator("#answer")
        self.assertRegex(shown.locator("h1").inner_text(), "^(Yes|No|Perhaps)")
        self.assertGreater(shown.locator(".chart .series, .chart .bar").count(), 0)
        # The whole answer is seen, without a second scroll bar.
        # Its policy forbids the page to evaluate text, and so to wait for an expression.
        beyond = """(answer => answer.contentDocument.documentElement.scrollHeight - answer.clientHeight)(
            document.getElementById('answer'))"""
        end = time.monotonic() + 10
        while page.evaluate(beyond) > 0 and time.monotonic() < end:
            page.wait_for_timeout(50)
        self.assertEqual(0, page.evaluate(beyond))
        self.assertEqual([], noise)

    def test_a_link_asks_by_itself_and_drives_are_compared(self):
        page, noise = self.open("#drive=wd40efax&drive=st8000dm004&for=restic&for.bytes=1G&within=1h")
        words = "advise --drive wd40efax,st8000dm004 --for restic:bytes=1G --within 1h"
        self.assertEqual(self.command(words), self.answer(page))
        self.assertIn("drive=wd40efax&drive=st8000dm004", page.url)
        self.assertEqual([], noise)

    def test_an_array_and_further_options_are_asked_of(self):
        page, _ = self.open("#drive=wd40efax&array=raidz1&disks=3&for=restic&for.bytes=1G&within=1h&more=--seed+2")
        words = "advise --drive wd40efax --array raidz1:disks=3 --for restic:bytes=1G --within 1h --seed 2"
        self.assertEqual(self.command(words), self.answer(page))

    def test_recordings_are_dropped_onto_the_page(self):
        page, noise = self.open()
        for name, pack in (("trace.csv", bytes), ("trace.csv.gz", gzip.compress), ("trace.csv.xz", lzma.compress)):
            with self.subTest(name):
                self.drop(page, name, pack(TRACE.encode()))
                page.get_by_label("Drive", exact=True).fill("tiny")
                page.get_by_role("button", name="Ask", exact=True).click()
                self.assertEqual(self.command(f"advise --drive tiny --trace {name} --arrival trace"), self.answer(page))
        self.assertEqual([], noise)

    def test_the_files_of_all_cpus_are_one_recording(self):
        page, _ = self.open()
        folder = pathlib.Path(os.environ["SMRKIT_TESTDATA"]) / "traces"
        names = ["sdb.blktrace.0", "sdb.blktrace.1"]
        for name in names:
            shutil.copy(folder / name, self.folder)
        page.set_input_files("#file", [folder / name for name in names])
        page.get_by_role("button", name="Ask", exact=True).click()
        self.assertEqual(self.command("advise --trace sdb.blktrace.0 --arrival trace"), self.answer(page))

    def test_what_can_not_be_read_here_is_told(self):
        page, _ = self.open()
        for name, content, why in (
            ("trace.zst", b"\x28\xb5\x2f\xfd" + bytes(20), "zstd -d"),
            ("notes.txt", b"no trace at all\n" * 9, "notes.txt"),
        ):
            self.drop(page, name, content)
            page.get_by_role("button", name="Ask", exact=True).click()
            page.wait_for_selector("#error:not([hidden])")
            self.assertIn(why, page.locator("#error").inner_text())
        page.goto(page.url.split("#")[0] + "#drive=nonsense&for=restic")
        page.wait_for_selector("#error:not([hidden])")
        self.assertIn("nonsense", page.locator("#error").inner_text())

    def test_researchers_run_layers(self):
        page, noise = self.open()
        page.get_by_role("tab", name="For researchers").click()
        page.get_by_label("Drive", exact=True).fill("tiny")
        page.get_by_label("Layers").fill("in-place,set-assoc")
        page.get_by_role("textbox", name="In the words of the command").fill("zipf:count=3000")
        page.get_by_label("Parameters").fill("set-assoc.region_sectors=256 set-assoc.cache_percent=5,10")
        page.get_by_role("button", name="Run", exact=True).click()
        words = "run --drive tiny --workload zipf:count=3000 --layer in-place,set-assoc"
        options = " --set set-assoc.region_sectors=256 --set set-assoc.cache_percent=5,10"
        self.assertEqual(self.command(words + options), self.answer(page))
        self.assertEqual(len(json.loads(self.saved(page, "#json"))["runs"]), 3)
        rows = list(csv.DictReader(io.StringIO(self.saved(page, "#csv"))))
        elapsed = [str(run["elapsed_ns"]) for run in json.loads(page.evaluate("json"))["runs"]]
        self.assertEqual(elapsed, [row["elapsed_ns"] for row in rows])
        self.assertEqual([], noise)

    def test_a_drive_is_edited_in_place(self):
        page, noise = self.open("#tab=run&drive=tiny&layer=in-place&workload=zipf:count=3000")
        unedited, _ = self.answer(page)
        file = self.editor(page)
        file.fill(file.input_value().replace("rpm = { value = 7200", "rpm = { value = 5400"))
        page.get_by_role("button", name="Run", exact=True).click()
        page.wait_for_selector("#results", state="hidden")
        found = self.answer(page)
        self.assertNotEqual(unedited, found[0])
        (self.folder / "edited.toml").write_text(self.saved(page, "#save-drive"), encoding="utf-8")
        self.assertEqual(self.command("run --drive edited.toml --workload zipf:count=3000 --layer in-place"), found)
        # A link brings the edited drive along.
        page, _ = self.open(page.url[page.url.index("#") :])
        self.assertEqual(found, self.answer(page))
        self.assertEqual([], noise)

    def test_the_editor_has_the_file_of_the_drive_that_is_named(self):
        page, noise = self.open("#drive=tiny&drive=wd40efax&for=restic&for.bytes=1G")
        self.answer(page)
        page.get_by_role("tab", name="For researchers").click()
        self.editor(page).fill("what was edited")
        page.get_by_role("tab", name="Ask").click()
        page.get_by_role("button", name="Remove").first.click()
        page.get_by_role("tab", name="For researchers").click()
        self.assertIn('name = "wd40efax"', self.editor(page).input_value())
        # Another drive is named before the first one's file has come.
        page.evaluate("""async () => {
            const [edit, drive] = [document.getElementById('edit'), document.querySelector('[name="drive"]')];
            const name = model => { drive.value = model; drive.dispatchEvent(new Event('change', { bubbles: true })); };
            const toggled = () => new Promise(done => edit.addEventListener('toggle', done, { once: true }));
            name('st8000dm004');
            await toggled();
            edit.open = true;
            await toggled();
            name('tiny');
        }""")
        page.wait_for_timeout(1000)
        self.assertIn('name = "tiny"', self.editor(page).input_value())
        self.assertEqual([], noise)

    def test_a_dropped_file_stays_as_it_is_when_it_is_edited(self):
        page, noise = self.open("#tab=run&drive=tiny&layer=in-place&workload=zipf:count=3000")
        self.answer(page)
        self.drop(page, "edited.toml", self.editor(page).input_value().encode())
        expected = self.command("run --drive edited.toml --workload zipf:count=3000 --layer in-place")

        def answer():
            page.get_by_role("button", name="Run", exact=True).click()
            page.wait_for_selector("#results", state="hidden")
            return self.answer(page)

        file = self.editor(page)
        file.fill(file.input_value().replace("rpm = { value = 7200", "rpm = { value = 5400"))
        self.assertNotEqual(expected, answer())
        page.locator("summary", has_text="Edit the drive").click()
        self.assertEqual(expected, answer())
        self.assertEqual([], noise)

    def test_the_keyboard_is_enough(self):
        page, _ = self.open()
        focused = lambda: page.evaluate("document.activeElement.getAttribute('name') ?? document.activeElement.id")
        for _ in range(20):
            page.keyboard.press("Tab")
            if focused() == "drive":
                break
        page.keyboard.type("wd40efax")
        for wanted in ("for", "for.bytes"):
            for _ in range(20):
                page.keyboard.press("Tab")
                if focused() == wanted:
                    break
            self.assertEqual(wanted, focused())
        page.keyboard.type("1G")
        page.keyboard.press("Enter")
        self.answer(page)
        page.locator("#tab-advise").focus()
        page.keyboard.press("ArrowRight")
        self.assertEqual("tab-run", focused())
        self.assertTrue(page.get_by_label("Layers").is_visible())

    def test_cancel_ends_it_at_once(self):
        page, _ = self.open("#drive=st8000dm004&for=surveillance")
        page.get_by_role("button", name="Cancel").click()
        self.assertEqual("Cancelled.", page.locator("#doing").inner_text())
        self.assertTrue(page.get_by_role("button", name="Cancel").is_hidden())

    def test_the_page_fits_the_screen_and_is_accessible(self):
        for width, scheme in ((390, "dark"), (1440, "light")):
            for tab in ("Ask", "For researchers"):
                with self.subTest(width=width, scheme=scheme, tab=tab):
                    page, noise = self.open("#drive=wd40efax&for=restic&for.bytes=1G", width, scheme)
                    self.answer(page)
                    page.get_by_role("tab", name=tab).click()
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0)
                    inside = "answer.contentDocument.documentElement.scrollWidth - answer.clientWidth"
                    self.assertLessEqual(page.evaluate(f"(answer => {inside})(document.getElementById('answer'))"), 0)
                    self.assertEqual([], noise)
                    found = Axe().run(page).response["violations"]
                    self.assertEqual([], [v["id"] for v in found if v["impact"] in ("serious", "critical")])

    def test_a_browser_that_can_not_run_it_is_told(self):
        page = self.browser.new_page()
        self.addCleanup(page.close)
        page.add_init_script("WebAssembly.compile = async () => { throw new Error('it is switched off'); }")
        page.goto(pathlib.Path(PAGE).resolve().as_uri())
        page.wait_for_selector("#error:not([hidden])")
        self.assertIn("it is switched off", page.locator("#error").inner_text())
        self.assertEqual("", page.locator("#doing").inner_text())

    def test_a_model_is_told_by_its_name(self):
        page, _ = self.open()
        page.get_by_label("Drive", exact=True).fill("WDC WD40EFAX-68JH4N0")
        page.keyboard.press("Tab")
        page.locator(".drive p", has_text="shingled, drive-managed").wait_for()


if __name__ == "__main__":
    unittest.main()
