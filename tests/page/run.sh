#!/bin/sh
# The report page in a real browser: rendered, hovered, clicked, typed at, printed, served live.
# Usage: run.sh PATH-OF-MAKE_PAGE
# Needs chromium and python3; without them it says so and exits with 77, which means skipped.
set -eu
make_page=${1:?usage: run.sh PATH-OF-MAKE_PAGE}
here=$(cd "$(dirname "$0")" && pwd)
chromium=$(command -v "${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then echo "skipped: chromium is not installed"; exit 77; fi
if ! command -v python3 >/dev/null; then echo "skipped: python3 is not installed"; exit 77; fi
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-page-XXXXXX")
trap 'rm -rf "$work"' EXIT
"$make_page" "$work"
PYTHONDONTWRITEBYTECODE=1 python3 "$here/check.py" "$chromium" "$work"
