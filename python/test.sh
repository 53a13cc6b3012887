#!/bin/sh
# Builds the wheel, installs it into an environment of its own and tests it there, with everything that any test needs: a test
# that is skipped counts as failed. BUILD is a built fedloom to take the library from (build); the environment and the
# installation stay in build-python, for the next time. `test.sh BUILD made` skips the tests if there is no such environment yet.
set -eu
cd "$(dirname "$0")/.."
BUILD=${1:-build}
WORK=$PWD/build-python
if [ "${2:-}" = made ] && [ ! -e "$WORK/packages" ]; then echo "skipped: make python has made no environment yet"; exit 77; fi
PYTHON=${PYTHON:-/usr/bin/python3}
export FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0 PIP_DISABLE_PIP_VERSION_CHECK=1

# Beside Debian's PyTorch, pandas, SciPy and matplotlib: Flower wants a newer NumPy than Debian's, and Debian's PyTorch none
# that is newer than 1; a newer matplotlib-inline wants a newer matplotlib, and a newer pyarrow NumPy 2.
set -- "scikit-build-core>=0.10" "cffi>=1.16" pytest "numpy>=1.26,<2" "flwr[simulation]>=1.22" safetensors \
    nbclient ipykernel "matplotlib-inline<0.2" "pyarrow<25" onnx onnxruntime pillow
if [ "$(cat "$WORK/packages" 2>/dev/null)" != "$*" ]; then
    rm -rf "$WORK/venv"
    $PYTHON -m venv --system-site-packages "$WORK/venv"
    "$WORK/venv/bin/pip" install -q "$@" || {
        echo "python/test.sh: the packages that the tests need could not be installed from PyPI (is there a network?): $*" >&2
        exit 1
    }
    echo "$*" >"$WORK/packages"
fi
cmake --install "$BUILD" --prefix "$WORK/fedloom" >/dev/null
"$WORK/venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall ./python \
    --config-settings=cmake.define.FEDLOOM_PREBUILT="$WORK/fedloom"
export FEDLOOM_PROGRAM="$WORK/fedloom/bin/fedloom" # the server that clients in Python join
PATH="$WORK/venv/bin:$PATH" tests/guide/run.sh "$FEDLOOM_PROGRAM" docs/guide/10-from-python.md
cd python
exec "$WORK/venv/bin/python" -m pytest -q -p no:cacheprovider --no-skips tests
