#!/usr/bin/env python3
"""Every link in a Markdown file that leads into this repository must lead somewhere: to a file, and to a heading of it where the
link has a #. The issue templates must be YAML, and forms as GitHub has them. tools/check-docs.sh calls it.

    tools/check-links.py [FILE...]      these Markdown files; none: all of the repository, and the templates
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILT = re.compile(r"(build.*|results|deployed|\.git|__pycache__)$")
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
bad = 0


def complain(what):
    global bad
    bad = 1
    print("links: " + what)


def text_of(path):
    """The file without blocks and spans of code, line by line."""
    lines, fence = [], None
    with open(path, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            mark = re.match(r" *(```+|~~~+)", line)
            if mark and (fence is None or mark[1].startswith(fence)):
                fence = None if fence else mark[1]
                line = ""
            lines.append("" if fence or line.startswith("    ") else line)
    return lines


def anchors(path):
    """The names that GitHub gives to headings."""
    seen, names = {}, set()
    for line in text_of(path):
        heading = re.match(r"#+ +(.*?) *#*$", line)
        if not heading:
            continue
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1])
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        names.add(name if name not in seen else f"{name}-{seen[name]}")
        seen[name] = seen.get(name, 0) + 1
    return names


def links(path):
    """(line, target) of every link. A link's text may go over the end of a line."""
    text = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), "\n".join(text_of(path)))
    for link in re.finditer(r"\]\(([^()\s]+)\)|^\[[^]]+\]: +(\S+)", text, re.M):
        yield text.count("\n", 0, link.start()) + 1, link[1] or link[2]


def check_links(path):
    for line, target in links(path):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(there):
            complain(f"{os.path.relpath(path, ROOT)}:{line}: there is no {target}")
        elif anchor and there.endswith(".md") and anchor not in anchors(there):
            complain(f"{os.path.relpath(path, ROOT)}:{line}: {os.path.relpath(there, ROOT)} has no heading #{anchor}")


def check_form(path, yaml):
    name = os.path.relpath(path, ROOT)
    try:
        with open(path, encoding="utf-8") as file:
            form = yaml.safe_load(file)
    except yaml.YAMLError as wrong:
        return complain(f"{name}: {wrong}")
    for key in ("name", "description", "body"):
        if not form.get(key):
            complain(f"{name}: it has no {key}")
    ids = [part["id"] for part in form.get("body", []) if "id" in part]
    if len(ids) != len(set(ids)):
        complain(f"{name}: two parts have one id")
    for part in form.get("body", []):
        if part.get("type") not in KINDS:
            complain(f"{name}: {part.get('type')} is no type of a part")
        elif not part.get("attributes", {}).get("value" if part["type"] == "markdown" else "label"):
            complain(f"{name}: a part has no text")
    return None


def check_forms():
    folder = os.path.join(ROOT, ".github", "ISSUE_TEMPLATE")
    if not os.path.isdir(folder):
        return  # a release's source
    try:
        import yaml
    except ImportError:
        print("links: the issue templates are not looked at: Python has no yaml here")
        return
    for file in sorted(os.listdir(folder)):
        check_form(os.path.join(folder, file), yaml)


def main():
    files = [os.path.abspath(file) for file in sys.argv[1:]]
    if not files:
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if not BUILT.match(name)]
            files += [os.path.join(folder, name) for name in names if name.endswith(".md")]
        check_forms()
    for file in sorted(files):
        check_links(file)
    return bad


if __name__ == "__main__":
    sys.exit(main())
