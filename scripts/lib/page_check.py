"""What scripts/lib/check-page looks at; prints a line for each check, then `N passed, N failed`.

Chromium lays each page out at two widths, and a script in a copy of the page measures it: whether something leaves the
page, whether words lie on each other or are too small to read, and whether every picture is there."""

import json
import pathlib
import subprocess
import sys
import traceback

CHROMIUM, *PATHS = sys.argv[1:]
SCRATCH, *PAGES = (pathlib.Path(path).resolve() for path in PATHS)
# Of a screen, and of half of one.
WIDTHS = (1280, 640)
HEIGHT = 900
# Pixels: less is rounding.
SLACK = 1.5
# Of letters on the screen. Wide pictures of the sections with rows scroll, and keep their size.
SMALLEST = 7.0

MEASURE = """
const out = { width: document.documentElement.clientWidth, scrollWidth: document.documentElement.scrollWidth };
const scrolls = element => {
  for (let up = element.parentElement; up; up = up.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return up;
  return null;
};
const words = element => element.tagName + ' ' + (element.textContent || '').trim().slice(0, 40);
const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
document.querySelectorAll('details').forEach(each => each.open = true);
out.beyond = [...document.body.querySelectorAll('*')].filter(element => {
  const [left, , right] = box(element);
  return (left < -SLACK || right > out.width + SLACK) && !scrolls(element) && right > left;
}).map(words).slice(0, 5);
out.pictures = [...document.querySelectorAll('svg.chart')].map(svg => {
  const [left, top, right, bottom] = box(svg);
  const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim() !== '');
  const boxes = texts.map(box), on = [], out = [];
  for (let i = 0; i < boxes.length; ++i) {
    const [l, t, r, b] = boxes[i];
    if (l < left - SLACK || r > right + SLACK || t < top - SLACK || b > bottom + SLACK) out.push(texts[i].textContent);
    for (let j = 0; j < i; ++j) {
      const [l2, t2, r2, b2] = boxes[j];
      const wide = Math.min(r, r2) - Math.max(l, l2), high = Math.min(b, b2) - Math.max(t, t2);
      // Boxes have the room of accents and tails, which the words of two lines may share.
      if (wide > SLACK && high > (b - t) / 2) on.push(texts[i].textContent + ' / ' + texts[j].textContent);
    }
  }
  const letters = texts.map(text => parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a);
  return { width: right - left, height: bottom - top, on: on.slice(0, 3), out: out.slice(0, 3), texts: texts.length,
    smallest: letters.length ? Math.min(...letters) : 0, marks: svg.querySelectorAll('circle,rect,polyline,path,line').length,
    name: (svg.closest('figure')?.querySelector('h3, figcaption')?.textContent || svg.getAttribute('aria-label') || '?').slice(0, 60) };
});
out.sections = [...document.querySelectorAll('h2')].filter(h => h.getBoundingClientRect().height > 0).length;
const note = document.createElement('pre');
note.id = 'measured';
note.textContent = JSON.stringify(out);
document.body.append(note);
"""

passed = failed = 0


def check(name, what):
    global passed, failed
    try:
        told = what()
    except Exception:
        failed += 1
        print(f"{traceback.format_exc()}FAILED: {name}")
    else:
        passed += 1
        print(f"passed: {name}" + (f" ({told})" if told else ""))


def chromium(width, *words):
    """What it prints. A profile of its own: nothing of the user's is touched, and nothing is fetched."""
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--disable-background-networking", f"--user-data-dir={SCRATCH}/profile", f"--window-size={width},{HEIGHT}",
        "--virtual-time-budget=5000", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def measured(page, width):
    text = page.read_text()
    script = f"<script>/*<![CDATA[*/const SLACK = {SLACK};{MEASURE}/*]]>*/</script></body>"
    assert text.count("</body>") == 1, "a page with one end"
    copy = SCRATCH / f"measured-{width}.html"
    copy.write_text(text.replace("</body>", script))
    dom = chromium(width, "--dump-dom", copy.as_uri())
    assert '<pre id="measured">' in dom, "the script did not run"
    said = dom.split('<pre id="measured">')[1].split("</pre>")[0]
    for name, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        said = said.replace(name, sign)
    return text, json.loads(said)


def fits(found, width):
    assert found["width"] == width, f"the window is {found['width']} wide"
    assert found["scrollWidth"] <= width + SLACK, f"the page is {found['scrollWidth']} wide"
    assert not found["beyond"], f"beyond the page: {found['beyond']}"


def pictures_are_there(text, found):
    drawn = text.count('<svg class="chart') + text.count("<svg class='chart")
    pictures = found["pictures"]
    assert drawn > 0 and len(pictures) == drawn, f"{len(pictures)} pictures of {drawn}"
    for picture in pictures:
        assert picture["width"] > 100 and picture["height"] > 50, f"nothing to see: {picture}"
        assert picture["marks"] > 0 and picture["texts"] > 1, f"empty: {picture}"
    assert found["sections"] == text.count("<h2"), f"{found['sections']} sections are seen of {text.count('<h2')}"
    return f"{drawn} pictures, {found['sections']} sections"


def is_legible(found):
    wrong = [(p["name"], p["on"], p["out"]) for p in found["pictures"] if p["on"] or p["out"]]
    assert not wrong, "words on each other, or cut off:\n" + "\n".join(map(str, wrong[:10]))
    smallest = min(found["pictures"], key=lambda picture: picture["smallest"])
    assert smallest["smallest"] >= SMALLEST, f"letters of {smallest['smallest']:.1f} px: {smallest['name']}"
    return f"letters of {smallest['smallest']:.1f} px at least"


def is_painted(page, width):
    """A screenshot has that width, and is no blank sheet."""
    shot = SCRATCH / f"{page.stem}-{width}.png"
    chromium(width, f"--screenshot={shot}", page.as_uri())
    bytes_ = shot.read_bytes()
    assert bytes_[:8] == b"\x89PNG\r\n\x1a\n" and bytes_[12:16] == b"IHDR", "no PNG"
    size = tuple(int.from_bytes(bytes_[at : at + 4], "big") for at in (16, 20))
    assert size == (width, HEIGHT), f"the picture is of {size}"
    assert len(bytes_) > 10_000, f"{len(bytes_)} bytes: a blank sheet"


for page in PAGES:
    for width in WIDTHS:
        name = f"{page.stem}, {width} wide"
        text, found = measured(page, width)
        check(f"{name}: nothing leaves the page", lambda: fits(found, width))
        check(f"{name}: every picture and section is there", lambda: pictures_are_there(text, found))
        check(f"{name}: words are legible, and none lies on another", lambda: is_legible(found))
        check(f"{name}: it is painted", lambda: is_painted(page, width))
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
