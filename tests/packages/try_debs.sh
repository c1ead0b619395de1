#!/bin/sh
# What a user does first with the Debian packages, where nothing else of Tensmith is: /debs, /examples and /trial (this
# folder) are there. Run by `scripts/package test debs` in a bare root.
set -eux
apt-get update -qq
apt-get install -y -qq --no-install-recommends /debs/tensmith_*.deb /debs/libtensmith-runtime_*.deb
cd /tmp
tensmith version
tensmith compile /examples/fashion/fashion.onnx -o fashion.so
tensmith run fashion.so --input 1x1x28x28xf32=random
tensmith doctor
test -f /usr/share/man/man1/tensmith.1.gz

apt-get install -y -qq --no-install-recommends /debs/libtensmith-dev_*.deb gcc g++ libc6-dev pkg-config cmake make
gcc -o by-pkg-config /examples/embed/embed.c $(pkg-config --cflags --libs tensmith-runtime) -lm
./by-pkg-config fashion.so
gcc -o compiles /trial/compile.c $(pkg-config --cflags --libs tensmith-compiler)
./compiles /examples/fashion/fashion.onnx again.so
./by-pkg-config again.so
cmake -S /examples/embed -B by-cmake >/dev/null
cmake --build by-cmake
by-cmake/embed_c again.so
by-cmake/embed_cpp again.so

apt-get install -y -qq --no-install-recommends /debs/tensmith-mpi_*.deb
apt-get purge -y -qq tensmith-mpi

# The compiler may go, and what was built against the runtime stays as it is.
apt-get purge -y -qq tensmith
rm -r by-cmake
cmake -S /examples/embed -B by-cmake >/dev/null
cmake --build by-cmake --target embed_c
by-cmake/embed_c fashion.so

apt-get purge -y -qq libtensmith-dev libtensmith-runtime
left=$(find /usr /etc /var/lib -name '*tensmith*')
test -z "$left"
