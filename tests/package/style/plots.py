#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The plots of docs/ show all their text: every glyph, which bench/compare/plot.py writes as an outline, lies in the picture.

    plots.py ROOT
    plots.py --self-test
"""
import glob
import os
import re
import sys
import xml.etree.ElementTree as xml

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
NUMBER = r"-?\d+(?:\.\d*)?(?:e-?\d+)?"


def matrix(text):
    """A transform attribute as (a, b, c, d, e, f)."""
    whole = (1, 0, 0, 1, 0, 0)
    for name, arguments in re.findall(r"(\w+)\(([^)]*)\)", text or ""):
        n = [float(each) for each in re.findall(NUMBER, arguments)]
        if name == "translate":
            step = (1, 0, 0, 1, n[0], n[1] if len(n) > 1 else 0)
        elif name == "scale":
            step = (n[0], 0, 0, n[-1], 0, 0)
        elif name == "matrix":
            step = tuple(n)
        else:
            raise ValueError("a transform that is not known here: " + name)
        whole = times(whole, step)
    return whole


def times(m, n):
    return (m[0] * n[0] + m[2] * n[1], m[1] * n[0] + m[3] * n[1], m[0] * n[2] + m[2] * n[3], m[1] * n[2] + m[3] * n[3],
            m[0] * n[4] + m[2] * n[5] + m[4], m[1] * n[4] + m[3] * n[5] + m[5])


def glyphs(element, outer, outlines):
    """(x, y) of the points of each outline below the element that stands for text."""
    here = times(outer, matrix(element.get("transform")))
    if element.tag == SVG + "use" and element.get(LINK)[1:] in outlines:
        outline = outlines[element.get(LINK)[1:]]
        m = times(here, matrix(outline.get("transform")))
        n = [float(each) for each in re.findall(NUMBER, outline.get("d") or "")]  # a space has none
        yield [(m[0] * x + m[2] * y + m[4], m[1] * x + m[3] * y + m[5]) for x, y in zip(n[::2], n[1::2])]
    for child in element:
        if child.tag != SVG + "defs":
            yield from glyphs(child, here, outlines)


def faults(text):
    """What is wrong with a picture."""
    root = xml.fromstring(text)
    if root.get("viewBox") is None:
        return ["it has no viewBox"]
    if root.find(".//%stext" % SVG) is not None:
        return ["it has text in a font of the reader's, whose width is not known"]
    left, top, width, height = (float(each) for each in root.get("viewBox").split())
    outlines = {each.get("id"): each for each in root.iter(SVG + "path") if re.match(r"DejaVu.*-[0-9a-f]+$", each.get("id") or "")}
    found = [points for points in glyphs(root, (1, 0, 0, 1, 0, 0), outlines) if points]
    outside = [points for points in found
               if not all(left <= x <= left + width and top <= y <= top + height for x, y in points)]
    if not found:
        return ["it has no text"]
    return ["%d of %d glyphs are not whole in the picture, the first at %.0f, %.0f" % (len(outside), len(found), *outside[0][0])] if outside else []


PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 50">
<g transform="translate(%s 20) scale(0.1 -0.1)"><defs><path id="DejaVuSans-38" d="M 0 0 L 640 640 Q 640 0 0 0 z" transform="scale(0.015625)"/></defs>
<use xlink:href="#DejaVuSans-38" transform="translate(100 0)"/></g></svg>"""


def self_test():
    assert faults(PICTURE % "85") == [], faults(PICTURE % "85")
    assert "1 of 1 glyphs" in faults(PICTURE % "89.5")[0]
    assert "1 of 1 glyphs" in faults(PICTURE % "-10.5")[0]
    assert faults("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'/>") == ["it has no text"]
    assert faults("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><text>a</text></svg>")
    assert faults("<svg xmlns='http://www.w3.org/2000/svg' width='9'/>") == ["it has no viewBox"]


def main(root):
    if root == "--self-test":
        return self_test()
    pictures = sorted(glob.glob(os.path.join(root, "docs", "**", "performance-*.svg"), recursive=True))
    errors = [] if pictures else ["docs/ has no plots"]
    for path in pictures:
        with open(path, encoding="utf-8") as file:
            errors += ["%s: %s" % (os.path.relpath(path, root), fault) for fault in faults(file.read())]
    print("\n".join(errors + ["%d pictures, %d errors" % (len(pictures), len(errors))]))
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
