"""Pages in headless Chromium: what --report of the commands writes is drawn, quiet, linked, and fits a phone."""

import os
import pathlib
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
PAGES = {
    "run": "run --drive st5000as0011 --layer in-place,drive-managed,vguard --workload desktop:count=6000",
    "array": "run --drive tiny --array raid5:disks=3,chunk=64KiB --layer in-place,vguard --workload mix:count=300",
    "advise": "advise --drive tiny --workload random-write:count=2000",
    "buying": "advise --drive wd40efrx,st8000dm004 --for restic:bytes=1G --within 1h",
    "sweep": "sweep caches.toml",
    "layers": "run",
    "falls": "run --drive tiny --layer in-place,drive-managed,vguard --workload random-write:count=3000",
}
SWEEP = """
drive = "tiny"
layer = ["in-place", "drive-managed", "set-assoc"]
workload = ["mix:count=300", "zipf:count=300", "random-write:count=300"]
depth = [1, 8]
repeat = 2
set = { "set-assoc.region_sectors" = 256, "set-assoc.cache_percent" = [5, 10] }
"""
OVERLAPS = """charts => charts.flatMap(chart => {
    const boxes = [...chart.querySelectorAll('.xtick')].map(text => text.getBoundingClientRect());
    const sorted = boxes.filter(box => box.width).sort((one, other) => one.left - other.left);
    return sorted.slice(1).filter((box, i) => box.left < sorted[i].right);
}).length"""
SCREENS = ((390, "dark"), (1440, "light"))


@unittest.skipUnless(sync_playwright, "playwright and axe-playwright-python are not installed: scripts/need pages")
@unittest.skipUnless(CHROMIUM, "there is no Chromium: scripts/need pages")
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / "caches.toml").write_text(SWEEP, encoding="utf-8")
        for name, command in PAGES.items():
            words = [os.environ["SMRKIT"], *command.split(), "--report", f"{name}.html"]
            subprocess.run(words, check=True, capture_output=True, cwd=cls.folder)
        playwright = cls.enterClassContext(sync_playwright())
        cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    def open(self, name, width=1440, scheme="light", unfolded=True):
        """A page, and all that it says on the console or asks of a network."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.addCleanup(context.close)
        # A busy machine takes long to draw the first page.
        context.set_default_timeout(240_000)
        page, noise = context.new_page(), []
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or noise.append(request.url))
        page.goto((self.folder / f"{name}.html").as_uri())
        page.wait_for_load_state("load")
        if unfolded:
            page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        return page, noise

    def hover(self, page, chart, series):
        """Moves the pointer to a point of a chart's series."""
        page.locator(f"#chart{chart} .series").nth(series).scroll_into_view_if_needed()
        at = page.evaluate("""([i, series]) => {
            const { panel, drawn: { svg, x, y } } = charts[i], box = svg.getBoundingClientRect(), line = panel.series[series];
            return [box.x + x(line.x[200]), box.y + y(line.y[200])];
        }""", [chart, series])
        page.mouse.move(at[0] - 9, at[1])
        page.mouse.move(*at, steps=4)

    def test_pages_are_drawn_quiet_and_accessible_and_fit_the_screen(self):
        for name in PAGES:
            for width, scheme in SCREENS:
                with self.subTest(name=name, width=width, scheme=scheme):
                    page, noise = self.open(name, width, scheme)
                    marks = "charts => charts.map(c => c.querySelectorAll('.series, .bar').length)"
                    drawn = page.locator(".chart").evaluate_all(marks)
                    self.assertTrue(all(drawn), drawn)
                    # A sweep's page is a table.
                    self.assertEqual(bool(drawn), name != "sweep")
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0)
                    self.assertEqual(0, page.locator(".chart").evaluate_all(OVERLAPS), "labels of axes lie over each other")
                    found = Axe().run(page).response["violations"]
                    self.assertEqual([], [v["id"] for v in found if v["impact"] in ("serious", "critical")])
                    self.assertEqual([], noise)

    def test_the_page_of_all_layers_stays_small(self):
        self.assertLessEqual((self.folder / "layers.html").stat().st_size, 1_500_000)

    def test_zoom_and_hover_move_every_chart_over_the_same_time(self):
        page, noise = self.open("run")
        linked = page.evaluate("charts.flatMap(({ panel }, i) => panel.series && panel.x.label.startsWith('Time') ? [i] : [])")
        self.assertGreater(len(linked), 3)
        chart = page.locator(f"#chart{linked[0]} svg")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=4)
        page.mouse.up()
        ranges = page.evaluate("all => all.map(i => charts[i].range)", linked)
        self.assertEqual([ranges[0]] * len(linked), ranges)
        self.assertLess(ranges[0][0], ranges[0][1])
        page.mouse.dblclick(box["x"] + box["width"] * 0.5, box["y"] + 60)
        self.assertEqual([None] * len(linked), page.evaluate("all => all.map(i => charts[i].range)", linked))
        page, _ = self.open("run")
        self.hover(page, linked[0], 1)
        shown = page.evaluate("all => all.map(i => charts[i].place.querySelectorAll('.hover').length)", linked)
        self.assertGreaterEqual(sum(map(bool, shown)), 4, shown)
        self.assertEqual([], noise)

    def test_many_runs_have_a_chart_each_on_the_same_axes(self):
        page, noise = self.open("layers")
        panels = page.locator("section", has=page.locator("h2", has_text="Requests per second")).locator(".chart")
        ids = panels.evaluate_all("all => all.map(panel => Number(panel.id.slice(5)))")
        names = page.evaluate("ids => ids.map(i => charts[i].panel.series.map(series => series.name))", ids)
        self.assertEqual(len(names), page.locator("table").first.locator("tbody tr").count())
        self.assertEqual([1] * len(names), [len(drawn) for drawn in names])
        ranges = page.evaluate("ids => ids.map(i => [charts[i].panel.x.range, charts[i].panel.y.range])", ids)
        self.assertEqual([ranges[0]] * len(names), ranges)
        self.hover(page, ids[0], 0)
        shown = page.evaluate("ids => ids.map(i => charts[i].place.querySelectorAll('.hover').length)", ids)
        self.assertEqual([1] * len(names), shown)
        self.assertEqual([], noise)

    def test_a_page_of_runs_begins_with_what_tells_most_and_folds_the_rest(self):
        page, _ = self.open("run", unfolded=False)
        first = page.locator("section").first
        self.assertIn("Drive: st5000as0011", first.inner_text())
        self.assertTrue(page.evaluate("charts[0].panel.y.log"), "a fall is seen on a logarithmic axis")
        shown = page.locator("h2:visible").all_inner_texts()
        self.assertEqual(["How fast over time", "What happens", "How fast"], shown)
        self.assertEqual(3, page.locator("table").first.locator("tbody tr").count(), "a verdict a run")
        page, _ = self.open("run")
        self.assertIn("desktop:count=6000", page.locator(".copied pre").inner_text())
        wrote = time.localtime((self.folder / "run.html").stat().st_mtime)
        self.assertEqual(time.strftime("%Y-%m-%d %H:%M:%S", wrote), page.locator("#date").inner_text())

    def test_falls_close_to_each_other_are_told_one_below_the_other(self):
        page, _ = self.open("falls", width=390)
        marks = page.locator(".chart").first.locator(".mark")
        boxes = marks.evaluate_all("all => all.map(mark => mark.getBoundingClientRect().toJSON())")
        self.assertGreater(len(boxes), 1)
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                aside = one["left"] >= other["right"] or other["left"] >= one["right"]
                self.assertTrue(aside or abs(one["top"] - other["top"]) > 12, (one, other))

    def test_charts_that_were_folded_are_as_wide_as_the_page_once_they_are_seen(self):
        page, _ = self.open("run", unfolded=False)
        page.locator("summary", has_text="Over time").click()
        chart = page.locator("details[open] .chart svg").first
        page.wait_for_function("chart => chart.clientWidth > 600", arg=chart.element_handle())

    def test_links_to_a_page_show_its_title_description_and_a_picture(self):
        page, _ = self.open("advise")
        meta = lambda name: page.locator(f'meta[property="og:{name}"]').get_attribute("content")
        self.assertEqual(page.title(), meta("title"))
        self.assertTrue(meta("description").startswith("How fast: "))
        size = page.evaluate("""src => new Promise(done => {
            const image = new Image();
            image.onload = () => done([image.width, image.height]);
            image.src = src;
        })""", meta("image"))
        self.assertEqual([1200, 630], size)

    def test_advice_answers_over_time_in_bars_and_in_cards(self):
        page, noise = self.open("advise", unfolded=False)
        self.assertRegex(page.locator("h1").inner_text(), "^(Yes|No|Perhaps)")
        cards = page.locator(".cards h2").all_inner_texts()
        self.assertEqual(["Will a disk be dropped?", "What to do", "How sure is this?"], cards)
        rows = page.evaluate("charts.flatMap(({ panel }) => panel.estimates ?? []).map(row => row.name)")
        self.assertEqual(["as it is", "CMR disks"], rows[:2])
        self.assertRegex(page.locator(".mark").first.text_content(), "(cache full|cleaning begins), ")
        page, _ = self.open("advise")
        table = page.locator("section", has=page.locator("h2", has_text="Changes that were tried")).locator("table")
        self.assertEqual(1, table.locator("tr.best").count())
        self.assertNotIn("", table.locator("thead tr > *").all_inner_texts())
        texts = page.locator(".copied pre").all_inner_texts()
        self.assertIn("smrkit advise --drive tiny --workload random-write:count=2000", texts)
        self.assertTrue(any(text.startswith("**") for text in texts) and any(text.startswith("[b]") for text in texts))
        button = page.locator(".copied button").first
        button.click()
        self.assertEqual("Copied", button.inner_text())
        self.assertEqual([], noise)

    def test_drives_that_are_compared_have_a_bar_each(self):
        page, _ = self.open("buying")
        rows = page.evaluate("charts.flatMap(({ panel }) => panel.estimates ?? [])")
        self.assertEqual(["wd40efrx", "st8000dm004"], [row["name"] for row in rows])
        self.assertIsNotNone(rows[1]["range"], "some of its figures are estimates")

    def test_paper_shows_what_is_folded(self):
        page, _ = self.open("run", unfolded=False)
        page.pdf()
        self.assertEqual(0, page.locator("details:not([open])").count())

    def test_the_best_of_each_case_of_a_sweep_is_marked(self):
        page, noise = self.open("sweep")
        self.assertEqual(9 * 2 // 3, page.locator("table").first.locator("tr.best").count())
        self.assertEqual([], noise)

    def test_keys_hide_and_buttons_hand_out_the_charts(self):
        page, noise = self.open("run")
        key = page.locator("button.key").first
        key.click()
        self.assertEqual("false", key.get_attribute("aria-pressed"))
        self.assertEqual(2, page.locator("#chart0 .series").count(), "of three runs")
        saved = [(f"#chart0 [data-format={ending}]", f".{ending}") for ending in ("svg", "png")]
        for button, ending in saved:
            with page.expect_download() as download:
                page.click(button)
            self.assertTrue(download.value.suggested_filename.endswith(ending))
            self.assertGreater(pathlib.Path(download.value.path()).stat().st_size, 100)
        self.assertEqual([], noise)


if __name__ == "__main__":
    unittest.main()
