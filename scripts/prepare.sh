# Brings a checkout to the point where its programs can start: packages, Python environment, configuration,
# build. Sourced by ./run and ./test, which then call `prepare TARGET...` with the ninja targets they need.
#
# Each step leaves a stamp that names what it was made from, and is skipped while that still holds, so that a
# prepared checkout costs a few milliseconds: a hash of the two package lists, and one `find` for a source newer
# than the last build. All that is said goes to stderr; stdout belongs to the program.

preset=${TENSMITH_PRESET:-dev}
build=$root/build/$preset
venv=$root/.venv

say() { printf '%s\n' "$*" >&2; }

# phase NAME COMMAND...: runs one step, and says what it is and how long it took.
phase() {
  local name=$1 start=$SECONDS
  shift
  say "== $name"
  "$@" >&2 || { say "== $name: failed after $((SECONDS - start)) s"; exit 1; }
  say "== $name: $((SECONDS - start)) s"
}

# stamped FILE KEY COMMAND...: runs the command unless FILE already holds KEY, then writes it there.
stamped() {
  local stamp=$1 key=$2
  shift 2
  [ -f "$stamp" ] && [ "$(<"$stamp")" = "$key" ] && return
  "$@"
  mkdir -p "${stamp%/*}" && printf '%s\n' "$key" >"$stamp"
}

list() { sed -e 's/[[:space:]]*#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# What a caller needs: ./test sets `with_tests`.
packages() {
  if [ -n "${with_tests:-}" ]; then list "$root/scripts/packages.debian"; else
    list <(sed '/^# What follows is for .\/test alone/,$d' "$root/scripts/packages.debian")
  fi
}

missing_packages() {
  comm -23 <(packages | sort) \
    <(dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n' | sed -n 's/^ii  *\([^:]*\).*/\1/p' | sort -u)
}

# confirm WHAT LIST: says what is about to be done, and asks where somebody can answer: on a terminal, outside of CI.
# TENSMITH_YES=1 answers.
confirm() {
  local answer
  say "$1"
  printf '%s\n' "$2" | fold -s -w 100 | sed 's/^/  /' >&2
  [ -t 0 ] && [ -t 2 ] && [ -z "${CI:-}" ] && [ -z "${TENSMITH_YES:-}" ] || return 0
  read -r -p "Go on? [Y/n] " answer || return 1
  case $answer in '' | [Yy]*) ;; *) return 1 ;; esac
}

say_how_to_install() {
  say "These packages are missing, and $1:"
  say "  $2"
  say "Install them, then start again:"
  say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $2"
}

install_packages() {
  command -v dpkg-query >/dev/null || {
    say "This is not a Debian system. Make sure that it has what scripts/packages.debian lists, then start"
    say "again with TENSMITH_PACKAGES=mine"
    exit 1
  }
  local missing as_root=
  missing=$(missing_packages | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    { sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null; }; } || {
      say_how_to_install "installing them needs root" "$missing"
      exit 1
    }
    as_root="sudo"
  fi
  confirm "These Debian packages are missing, and are installed now${as_root:+ (by sudo)}:" "$missing" || {
    say_how_to_install "were not to be installed" "$missing"
    exit 1
  }
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086 # the list is split into its words
  phase "install $missing" apt_install || exit 1
}

apt_install() {
  # shellcheck disable=SC2086
  $as_root apt-get update -q && $as_root apt-get install -y -q --no-install-recommends $missing || {
    say_how_to_install "apt-get could not install them (no network?)" "$missing"
    return 1
  }
}

# Debian's own interpreter where there is one, since its headers are in the list of packages.
base_python() {
  if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi
}

make_venv() {
  confirm "These Python packages are installed now, in $venv:" "$(list "$root/scripts/requirements.txt" | tr '\n' ' ')" || {
    say "They were not to be installed. Install them, then start again:"
    say "  python3 -m venv $venv && $venv/bin/python -m pip install -r $root/scripts/requirements.txt"
    return 1
  }
  [ -x "$venv/bin/python" ] && [ "$("$venv/bin/python" -c 'import sys; print(sys.prefix)')" = "$venv" ] ||
    "$(base_python)" -m venv --clear "$venv" || return
  "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
    -r "$root/scripts/requirements.txt" || {
    say "The Python packages could not be installed (no network?). Install them, then start again:"
    say "  $venv/bin/python -m pip install -r $root/scripts/requirements.txt"
    return 1
  }
  local packages
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return
  printf '%s\n' "$root/build/dev/python" >"$packages/tensmith-checkout.pth"
}

# As many jobs as there are processors, but no more than memory holds: a file that includes MLIR takes 1.5 GB.
parallel_jobs() {
  local cpus memory
  cpus=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  if [ "$memory" -lt "$cpus" ]; then echo "$memory"; else echo "$cpus"; fi
}

# A folder that once had tests keeps them.
has_tests() { grep -qsxF "TENSMITH_TESTS:BOOL=ON" "$build/CMakeCache.txt"; }

configure() {
  local tests=OFF
  { [ -n "${with_tests:-}" ] || has_tests; } && tests=ON
  (cd "$root" && cmake --preset "$preset" -DPython_EXECUTABLE="$venv/bin/python" -DTENSMITH_TESTS=$tests -Wno-dev \
    --no-warn-unused-cli)
}

# A checkout that was moved is configured afresh, since build folders name their sources by absolute paths.
build_targets() {
  grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" || rm -rf "$build"
  [ -f "$build/build.ninja" ] && [ ! "$root/CMakePresets.json" -nt "$build/build.ninja" ] &&
    { [ -z "${with_tests:-}" ] || has_tests; } ||
    phase "configure ($preset)" configure
  phase "build ($preset: $*)" ninja -C "$build" -j "$(parallel_jobs)" "$@"
}

# tensmith-run for boards, which tests run under an emulator: a minute each on two idle cores.
build_boards() {
  local board
  for board in "$@"; do
    grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$root/build/$board/CMakeCache.txt" || rm -rf "$root/build/$board"
    [ -f "$root/build/$board/build.ninja" ] && [ ! "$root/CMakePresets.json" -nt "$root/build/$board/build.ninja" ] ||
      phase "configure ($board)" eval "(cd '$root' && cmake --preset '$board' -Wno-dev)"
    phase "build ($board: tensmith-run)" ninja -C "$root/build/$board" -j "$(parallel_jobs)" tensmith-run
  done
}

# Whether something that a build could depend on has changed since the stamp; a folder's own time tells of files
# that came or went. What programs leave behind on their own is kept out of it.
changed_since() {
  [ ! -f "$1" ] || [ "$(<"$1")" != "$root" ] || [ -n "$(find "$root" -mindepth 1 \( -name build -o -name .git -o -name .venv -o -name .cache \
    -o -name __pycache__ -o -name .pytest_cache -o -name dist -o -name docs -o -name results \) -prune \
    -o -newer "$1" -print -quit)" ]
}

prepare() {
  local requirements
  [ "${TENSMITH_PACKAGES:-}" = mine ] ||
    stamped "$root/build/.packages${with_tests:+-tests}" "$(packages | sha256sum)" install_packages
  requirements="$(sha256sum <"$root/scripts/requirements.txt") $venv"
  stamped "$venv/.requirements" "$requirements" phase "Python packages" make_venv

  local stamp=$build/.built-${*// /-}
  changed_since "$stamp" || return 0
  mkdir -p "$root/build"
  # What is edited while ninja works is newer than this, and so is built the next time.
  echo "$root" >"$root/build/.begun"
  build_targets "$@"
  mv "$root/build/.begun" "$stamp"
}
