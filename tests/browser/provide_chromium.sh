#!/usr/bin/env bash
# Prints the path of a Chromium that starts, and installs one where there is none.
# Looks at HEADLIGHT_CHROMIUM, then for a headless shell: the same engine without the browser's windows, with which
# the browser tests take three quarters of the time. As root it installs Debian's; where it cannot, it takes a
# Chromium on PATH, or installs Debian's, or Playwright's own.
# Installs the fonts that the tests use where apt-get can; the tests also pass without them.
# Usage: provide_chromium.sh [PYTHON], a Python that has Playwright. Only the path goes to standard output.
set -euo pipefail
python=${1:-.venv/bin/python}

say() { printf '%s\n' "$*" >&2; }
starts() { [ -n "$1" ] && "$1" --version >/dev/null 2>&1; }

found_on_path() {
    local name path
    for name in "$@"; do
        path=$(command -v "$name") || continue
        # Ubuntu's chromium-browser can be a stub that only asks for a snap, hence the check.
        if starts "$path"; then printf '%s\n' "$path"; return 0; fi
    done
    return 1
}

shell=chromium-headless-shell
browsers=(chromium chromium-browser google-chrome google-chrome-stable)

# Chromium brings no fonts of its own. DejaVu is 1 MB and covers what the tests type: Latin with every
# accent, Greek, Cyrillic, Hebrew, Arabic, arrows and the common emoji. Liberation is narrower: the layout
# is tested with both.
fonts=(fonts-dejavu-core fonts-liberation)

install_debian_packages() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "Installing $* for the browser tests with apt-get ..."
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=0 -o Acquire::http::Timeout=20)
    # A source that cannot be reached need not be the one that has the package, so go on after a failed update.
    "${apt[@]}" update >&2 || say "apt-get update failed; trying with the lists at hand."
    "${apt[@]}" install -y --no-remove --no-install-recommends "$@" >&2
}

install_missing_fonts() {
    local font missing=()
    command -v dpkg-query >/dev/null || return 0
    for font in "${fonts[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$font" 2>/dev/null)" = installed ] || missing+=("$font")
    done
    [ ${#missing[@]} = 0 ] || install_debian_packages "${missing[@]}" || say "Going on without ${missing[*]}."
}

playwrights_own() {
    local path
    say "Asking Playwright for its Chromium ..."
    "$python" -m playwright install chromium >&2 || return 1
    path=$("$python" -c 'from playwright.sync_api import sync_playwright as start
with start() as p: print(p.chromium.executable_path)') || return 1
    starts "$path" && printf '%s\n' "$path"
}

if [ -n "${HEADLIGHT_CHROMIUM:-}" ]; then
    starts "$HEADLIGHT_CHROMIUM" && install_missing_fonts && printf '%s\n' "$HEADLIGHT_CHROMIUM" && exit 0
    say "HEADLIGHT_CHROMIUM is $HEADLIGHT_CHROMIUM, which does not start: correct it or unset it."
    exit 1
fi
found_on_path "$shell" && install_missing_fonts && exit 0
install_debian_packages "$shell" "${fonts[@]}" && found_on_path "$shell" && exit 0
found_on_path "${browsers[@]}" && install_missing_fonts && exit 0
install_debian_packages chromium "${fonts[@]}" && found_on_path chromium && exit 0
playwrights_own && exit 0
say "The browser tests need Chromium and none could be installed: install Chromium or Google Chrome," \
    "or set HEADLIGHT_CHROMIUM to the path of one, and run make test again."
exit 1
