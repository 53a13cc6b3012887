#!/usr/bin/env python3
"""Phrases without a subject, or that only this project uses, in comments, strings and pages: at most MOST are left, where they are
the right words. Above that, all of them are printed with their places. Usage: tools/check-words.py"""
import re
import subprocess
import sys

MOST = 20
PHRASES = re.compile(
    r"\b(?:so many|so long as|whoever|whosever|whatever it|nobody|somebody|anew|likewise|as it is|is said|are said|by itself|"
    r"has it not|who is \w+ed (?:is|are)|where there is (?:none|one))\b", re.I)
PROSE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)  # comments and strings of C, CUDA and JavaScript
CODE = ("src/*.c", "src/*.h", "src/*.cu", "src/*.cuh", "src/*.js", "include/*.h")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "src/*.md", "python/*.md", "experiments/*.md", "bench/*.md",
         "tests/*.md")


def files(patterns):
    return subprocess.run(["git", "ls-files", "--", *patterns], check=True, capture_output=True, text=True).stdout.split()


def found_in(path, spans):
    text = open(path, encoding="utf-8").read()
    for begin, end in spans(text):
        for m in PHRASES.finditer(text, begin, end):
            yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m.group()}"


def main():
    found = [f for p in files(CODE) for f in found_in(p, lambda t: [m.span() for m in PROSE.finditer(t)])]
    found += [f for p in files(PAGES) for f in found_in(p, lambda t: [(0, len(t))])]
    if len(found) > MOST:
        print("\n".join(found))
        print(f"words: {len(found)} phrases that a stranger reads twice, and at most {MOST} may be; name the subject, and say what happens")
        return 1
    print(f"words: {len(found)}, at most {MOST}")
    return 0


sys.exit(main())
