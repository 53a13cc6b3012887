#!/bin/sh
# The status page of a server in a real browser, over plain HTTP on this machine. Usage: page.sh PATH-OF-FEDLOOM
# Needs chromium and python3; without them it says so and exits with 77, which means skipped. $PICTURES: a folder for pictures.
set -eu
program=$(realpath "${1:?usage: page.sh PATH-OF-FEDLOOM}")
here=$(cd "$(dirname "$0")" && pwd)
chromium=$(command -v "${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then echo "skipped: chromium is not installed"; exit 77; fi
if ! command -v python3 >/dev/null; then echo "skipped: python3 is not installed"; exit 77; fi
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-status-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../page python3 "$here/page.py" "$chromium" "$program"
