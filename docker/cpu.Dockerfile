# oomph for the CPU. In the root of the repository:
#
#     docker build -f docker/cpu.Dockerfile -t oomph .
#     docker run --rm --init -v "$PWD:/work" --user "$(id -u):$(id -g)" oomph train resnet
#
# docs/guides/install.md explains both commands.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The caches keep crates and Burn, so that a change of oomph does not build them again.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo install --path . --locked --root /opt/oomph

FROM debian:bookworm-slim
# `--user` may name any user: all of them write to these folders.
RUN useradd --uid 1000 --no-create-home oomph \
    && mkdir /work /data /cache \
    && chmod 1777 /work /data /cache
COPY --from=build /opt/oomph/bin/oomph /usr/local/bin/oomph
ENV XDG_CACHE_HOME=/cache
USER oomph
WORKDIR /work
VOLUME ["/work", "/data", "/cache"]
ENTRYPOINT ["oomph"]
CMD ["--help"]
