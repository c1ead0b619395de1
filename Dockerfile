# Tensmith in a container: builds the Debian packages of this checkout, and installs them where nothing else is.
#   docker build -t tensmith . && docker run --rm -v "$PWD:/work" tensmith run model.onnx
FROM debian:12 AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /tensmith
COPY scripts/packages.debian scripts/requirements.txt scripts/
RUN apt-get update \
 && sed -e '/^# What follows is for .\/test alone/,$d' -e 's/ *#.*//' scripts/packages.debian \
      | xargs apt-get install -y --no-install-recommends dpkg-dev file \
 && python3 -m venv .venv && .venv/bin/pip install --no-cache-dir -r scripts/requirements.txt
COPY . .
RUN scripts/package debs

FROM debian:12
COPY --from=build /tensmith/dist/*.deb /tmp/
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/libtensmith-runtime_*.deb /tmp/tensmith_*.deb \
 && rm -rf /tmp/*.deb /var/lib/apt/lists/* && tensmith doctor
WORKDIR /work
ENTRYPOINT ["tensmith"]
