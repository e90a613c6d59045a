# The serving image: two programs, the shared objects they need, two models. No shell, no package manager.
#   docker build -t ckn:0.1.0 .        or podman build --format docker (HEALTHCHECK is not in the OCI format)
#   docker run --read-only --cap-drop all --security-opt no-new-privileges -p 8500:8500 -p 8501:8501 ckn:0.1.0
# A release pins the base by its digest: --build-arg BASE=debian@sha256:...
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS packages
ARG DEBIAN_FRONTEND=noninteractive
COPY cmake/debian-packages.txt /src/cmake/
RUN apt-get update \
 && sed '/^# For the tests only/,$d' /src/cmake/debian-packages.txt | grep -v '^#' \
    | xargs apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*

FROM packages AS build
ARG JOBS=2
WORKDIR /src
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY proto proto
COPY server server
COPY client client
RUN cmake --preset release -DBUILD_TESTING=OFF \
 && CCACHE_DISABLE=1 cmake --build --preset release -j "$JOBS" --target ckn ckn-client
COPY container/root_files container/
RUN container/root_files /root_files build/release/bin/ckn build/release/bin/ckn-client
COPY models /root_files/models

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ckn" \
      org.opencontainers.image.description="Convolutional Kernel Networks: training and gRPC inference" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /root_files /
# Outside a container the server listens on the loopback interface only. The models are ./models, the default.
ENV CKN_LISTEN=0.0.0.0:8500 CKN_HTTP=0.0.0.0:8501
WORKDIR /
USER 65532:65532
EXPOSE 8500 8501
# Without TLS; with it, give --health-cmd with the client's TLS options. Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["/usr/bin/ckn-client", "health", "--timeout", "2"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/ckn"]
CMD ["serve"]
