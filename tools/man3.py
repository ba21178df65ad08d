#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a manual page for each public function, from the comments of the headers.

    man3.py FOLDER VERSION HEADER...        FOLDER/VipOpenNic.3 and so on
"""
import os
import re
import sys
import textwrap

FUNCTION = re.compile(r"/\*\*\n((?: \*.*\n)*?) \*/\nVIPL_(?:DM_)?API ([^;]+);")
GROUP = re.compile(r"/\* -{20,}\n \* (.+?)\n")
DATE = "November 27, 2026"
CONVENTIONS = ("The conventions of all functions are in vipl(7): handles that are not live ones and null pointers are VIP_INVALID_PARAMETER, any thread may "
               "call, and what signal handlers and forked children may do.")

# What a page says of its library: its name, the module of pkg-config, what holds for all its functions, and other pages.
LIBRARY = ("libvipl", "vipl", CONVENTIONS, (("vipl", 7),))
LIBRARIES = {"device_memory.h": (
    "libvipldm", "vipl-dm", "A function that returns int returns 0, or an errno value, and says in a text what is wrong. One thread at a time may use one "
    "object. No function is for signal handlers. The structures and the kinds of stores, memory and ports are in vipl/device_memory.h and in vipl-gen(1).",
    (("vipl-cap", 1), ("vipl-gen", 1)))}


def roff(text):
    """Doxygen's marks out; a sentence begins on a line of its own."""
    text = re.sub(r"#(VIP)", r"\1", text).replace("@b ", "").replace("**", "").replace("\\", "\\e")
    sentences = re.split(r"(?<=[A-Za-z0-9)\]][.?!]) +(?=[A-Z])", text)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, 78)]
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in lines)


def blocks(comment):
    """(tag, name, text) of each part of a comment: paragraphs have the tag "", list items "-"."""
    parts, tag, name, words = [], "", "", []
    for line in comment.split("\n") + [""]:
        line = re.sub(r"^ \* ?", "", line)
        found = re.match(r"@(param|retval|return) ?(\w*) +(.*)|(- )(.*)", line) or re.match(r"@(return)()\s+(.*)", line)
        if found or not line.strip():
            if words:
                parts.append((tag, name, " ".join(words)))
            tag, name, words = "", "", []
        if found and found.group(4 if found.re.groups > 3 else 1) == "- ":
            tag, words = "-", [found.group(5)]
        elif found and found.group(1) == "return":
            tag, words = "return", [(found.group(2) + " " + found.group(3)).strip()]
        elif found:
            tag, name, words = found.group(1), found.group(2), [found.group(3)]
        elif line.strip():
            words.append(line.strip())
    return parts


def items(title, parts):
    if not parts:
        return []
    lines = [".Sh " + title, ".Bl -tag -width Ds"]
    for _, name, text in parts:
        lines += [".It " + ("Fa \\&" if title == "ARGUMENTS" else "Er ") + (name or "others"), roff(text)]
    return lines + [".El"]


def described(parts):
    lines, listed = [], False
    for tag, _, text in parts:
        if (tag == "-") != listed:
            lines.append(".Bl -bullet" if tag == "-" else ".El")
            listed = tag == "-"
        lines += [".It" if listed else ".Pp", roff(text)]
    return lines[1:] + ([".El"] if listed else []) if lines[:1] == [".Pp"] else lines + ([".El"] if listed else [])


def page(name, comment, declaration, header, version, relatives):
    library, module, conventions, others = LIBRARIES.get(os.path.basename(header), LIBRARY)
    parts = blocks(comment)
    text = [part for part in parts if part[0] in ("", "-")]
    brief = re.split(r"(?<=[a-z)])\. ", text[0][2] + " ")[0].strip().rstrip(".")
    result, arguments = re.match(r"(.*?)\b%s\((.*)\)$" % name, declaration, re.S).groups()
    lines = [".\\\" SPDX-License-Identifier: MIT", ".\\\" Written by tools/man3.py from %s." % header, ".Dd " + DATE,
             ".Dt %s 3" % name.upper(), ".Os VIPL %s" % version, ".Sh NAME", ".Nm " + name,
             ".Nd " + roff(brief[0].lower() + brief[1:]).replace("\n", " "), ".Sh LIBRARY", "%s; programs are linked with what pkg-config --libs %s prints" % (library, module),
             ".Sh SYNOPSIS", ".In " + header, ".Ft " + result.replace("VI_CALL", "").strip(), ".Fo " + name]
    lines += [".Fa \"%s\"" % " ".join(argument.split()) for argument in arguments.split(",")] + [".Fc", ".Sh DESCRIPTION"]
    lines += described(text) + [".Pp", roff(conventions)]
    lines += items("ARGUMENTS", [part for part in parts if part[0] == "param"])
    returns = [part[2] for part in parts if part[0] == "return"]
    codes = [part for part in parts if part[0] == "retval"]
    if returns:
        lines += [".Sh RETURN VALUES"] + [roff(text) for text in returns]
    elif "VIP_RETURN" in result:
        lines += [".Sh RETURN VALUES", "VIP_SUCCESS, or a code that says why nothing changed."]
    lines += items("ERRORS", codes) + [".Sh SEE ALSO"]
    pages = sorted([(3, other) for other in relatives if other != name] + [(section, other) for other, section in others])
    lines += [".Xr %s %d ," % (other, section) for section, other in pages]
    return "\n".join(line for line in lines if line)[:-2] + "\n"


def functions(path):
    """(name, comment, declaration, group) of each, in order."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    groups = [(match.start(), match.group(1)) for match in GROUP.finditer(text)]
    for match in FUNCTION.finditer(text):
        name = re.search(r"(Vipx?\w+|vipl_dm_\w+)\(", match.group(2)).group(1)
        group = [title for at, title in groups if at < match.start()][-1]
        yield name, match.group(1), match.group(2), group


def main(arguments):
    if len(arguments) < 3:
        sys.exit(__doc__)
    folder, version, headers = arguments[0], arguments[1], arguments[2:]
    os.makedirs(folder, exist_ok=True)
    for path in headers:
        found = list(functions(path))
        for name, comment, declaration, group in found:
            relatives = [other for other, _, _, its in found if its == group]
            with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
                file.write(page(name, comment, declaration, "vipl/" + os.path.basename(path), version, relatives))


if __name__ == "__main__":
    main(sys.argv[1:])
