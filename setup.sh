#!/bin/sh
# Make $VENV ready. `setup.sh demo` installs the package with its adapters; `setup.sh test` what developers need too.
# Packages of the system (venv support, a Vulkan driver) are installed where root allows; else this says what to do.
set -eu

purpose=$1
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

say() { printf '%s\n' "setup: $*" >&2; }
die() { say "$*"; exit 1; }

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }
install_system() {
    say "installing $* with apt-get"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    die "Python 3.11 or newer is needed and $PYTHON is not; name another with PYTHON=/path/to/python3.11"

if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    can_install || die "the venv module is missing: sudo apt-get install python3-venv"
    install_system python3-venv
fi

has_vulkan() {
    for folder in /usr/share/vulkan/icd.d /etc/vulkan/icd.d "${XDG_DATA_HOME:-$HOME/.local/share}/vulkan/icd.d"; do
        for file in "$folder"/*.json; do [ -e "$file" ] && return 0; done
    done
    [ -n "${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-}" ]
}

if [ "$(uname -s)" = Linux ] && ! has_vulkan; then
    if can_install; then
        install_system mesa-vulkan-drivers libvulkan1
    elif [ "$purpose" = test ]; then
        die "no Vulkan driver, and the tests run on one (a software driver will do): sudo apt-get install mesa-vulkan-drivers"
    else
        say "no Vulkan driver found: the demo runs on NumPy. For a GPU adapter: sudo apt-get install mesa-vulkan-drivers"
    fi
fi

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
if [ "$purpose" = test ]; then
    "$VENV/bin/python" -m pip install --quiet --editable '.[all]' --group dev
else
    "$VENV/bin/python" -m pip install --quiet --editable '.[all]'
fi
