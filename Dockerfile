# Tensmith in a container: builds the packages of this checkout and installs them where nothing else is.
#   docker build -t tensmith . && docker run --rm -v "$PWD:/work" tensmith run model.onnx
FROM debian:12 AS build
WORKDIR /tensmith
COPY scripts/packages.debian scripts/
RUN apt-get update && sed -e '/^# What follows is for .\/test alone/,$d' -e 's/ *#.*//' scripts/packages.debian \
      | xargs apt-get install -y --no-install-recommends dpkg-dev
COPY . .
RUN python3 -m venv .venv && .venv/bin/pip install -q -r scripts/requirements.txt \
 && cmake --preset release -DTENSMITH_TESTS=OFF -DTENSMITH_STATIC_LLVM=ON -DCMAKE_INSTALL_PREFIX=/usr \
 && ninja -C build/release && cpack -G DEB --config build/release/CPackConfig.cmake -B dist

FROM debian:12
COPY --from=build /tensmith/dist/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/libtensmith-runtime*.deb /tmp/tensmith*.deb \
 && rm -rf /tmp/*.deb /var/lib/apt/lists/* && tensmith doctor
WORKDIR /work
ENTRYPOINT ["tensmith"]
