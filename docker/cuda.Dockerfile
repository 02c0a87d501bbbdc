# oomph for NVIDIA's GPUs. In the root of the repository:
#
#     docker build -f docker/cuda.Dockerfile -t oomph:cuda .
#     docker run --rm --init --gpus all -v "$PWD:/work" --user "$(id -u):$(id -g)" oomph:cuda doctor --devices cuda:0
#
# The host has NVIDIA's driver and the NVIDIA Container Toolkit, which puts the driver's libraries into the container.
# docs/guides/install.md explains both commands.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The caches keep crates and Burn, so that a change of oomph does not build them again.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target-cuda \
    CARGO_TARGET_DIR=/src/target-cuda cargo install --path . --locked --features cuda --root /opt/oomph

# What Burn loads at run time: NVRTC, which compiles the kernels, with the headers that kernels include, and NCCL, which
# connects several GPUs. The first three versions are those of `cargo xtask gpu`.
FROM python:3.13-slim-bookworm AS cuda
RUN pip install --no-cache-dir --no-deps --target /pip \
    nvidia-cuda-nvrtc-cu12==12.9.86 \
    nvidia-cuda-runtime-cu12==12.9.79 \
    nvidia-cuda-nvcc-cu12==12.9.86 \
    nvidia-cuda-cccl-cu12==12.9.27 \
    nvidia-nccl-cu12==2.27.7
# As a toolkit lays them out. Burn looks for `libnccl.so`, not for `libnccl.so.2`.
RUN mkdir -p /opt/cuda/include /opt/cuda/lib \
    && cp -r /pip/nvidia/cuda_runtime/include/. /pip/nvidia/cuda_nvcc/include/. /opt/cuda/include/ \
    && cp -r /pip/nvidia/cuda_cccl/include /opt/cuda/include/cccl \
    && cp /pip/nvidia/cuda_nvrtc/lib/libnvrtc*.so.12* /pip/nvidia/nccl/lib/libnccl.so.2 /opt/cuda/lib/ \
    && ln -s libnccl.so.2 /opt/cuda/lib/libnccl.so

FROM debian:bookworm-slim
# `--user` may name any user: all of them write to these folders.
RUN useradd --uid 1000 --no-create-home oomph \
    && mkdir /work /data /cache \
    && chmod 1777 /work /data /cache
COPY --from=cuda /opt/cuda /opt/cuda
COPY --from=build /opt/oomph/bin/oomph /usr/local/bin/oomph
# The last two tell the NVIDIA Container Toolkit what to put into the container.
ENV CUDA_PATH=/opt/cuda \
    LD_LIBRARY_PATH=/opt/cuda/lib \
    XDG_CACHE_HOME=/cache \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER oomph
WORKDIR /work
VOLUME ["/work", "/data", "/cache"]
ENTRYPOINT ["oomph"]
CMD ["--help"]
