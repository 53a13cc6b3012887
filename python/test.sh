#!/bin/sh
# Builds the wheel, installs it into an environment of its own and tests it there. BUILD is a built fedloom to take the library
# from (build); the environment and the installation stay in build-python, for the next time.
set -eu
cd "$(dirname "$0")/.."
BUILD=${1:-build}
WORK=$PWD/build-python
PYTHON=${PYTHON:-/usr/bin/python3}

if [ ! -x "$WORK/venv/bin/jupyter-execute" ]; then
    # Debian's NumPy, PyTorch and matplotlib, and what is compiled against that NumPy. A newer matplotlib-inline wants a newer
    # matplotlib.
    $PYTHON -m venv --system-site-packages "$WORK/venv"
    "$WORK/venv/bin/pip" install -q "scikit-build-core>=0.10" "cffi>=1.16" \
        pytest nbclient ipykernel "matplotlib-inline<0.2"
fi
cmake --install "$BUILD" --prefix "$WORK/fedloom" >/dev/null
"$WORK/venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall ./python \
    --config-settings=cmake.define.FEDLOOM_PREBUILT="$WORK/fedloom"
cd python
exec "$WORK/venv/bin/python" -m pytest -q -p no:cacheprovider tests
