# gpuparse in an image, for the CPU or for CUDA:
#
#   docker build --target cpu  --build-arg COMMIT="$(git rev-parse HEAD)" --tag gpuparse:cpu  .
#   docker build --target cuda --build-arg COMMIT="$(git rev-parse HEAD)" --tag gpuparse:cuda .
#
# docs/installing.md runs an experiment with it. The network is needed to build, and never to run.

# The tag says what the digest is; the digest decides.
ARG BASE=docker.io/library/python:3.11.15-slim-bookworm@sha256:b18992999dbe963a45a8a4da40ac2b1975be1a776d939d098c647482bcad5cba

FROM ${BASE} AS start
# What Python imports comes from the environment and the program alone, not from the folder it is
# started in, which may hold another gpuparse.
ENV PATH=/opt/environment/bin:$PATH \
    PYTHONPATH=/opt/gpuparse \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
RUN groupadd --gid 10001 gpuparse \
    && useradd --uid 10001 --gid gpuparse --no-create-home --home-dir /nonexistent gpuparse \
    && mkdir /work && chmod 1777 /work \
    && ln -s /opt/gpuparse/configs /work/configs \
    && python -m venv /opt/environment
WORKDIR /work
ENTRYPOINT ["/opt/gpuparse/entry.sh"]
CMD ["--help"]

FROM ${BASE} AS program
# gpuparse, with the library compiled for three sets of instructions. The images take the folder from
# here, without the compiler, and with the right modes: a later chmod would keep it twice.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
COPY native /build/native
RUN python /build/native/build.py --levels --quiet
COPY gpuparse /opt/gpuparse/gpuparse
COPY configs /opt/gpuparse/configs
COPY LICENSE docker/entry.sh docker/install.sh /opt/gpuparse/
ARG COMMIT
RUN mv /build/gpuparse/_native /opt/gpuparse/gpuparse && sh /opt/gpuparse/install.sh "$COMMIT"

FROM start AS cuda-environment
# Triton compiles the few lines that launch a kernel with the C compiler it finds.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY docker/cuda.lock /opt/gpuparse/packages.lock
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement /opt/gpuparse/packages.lock

FROM start AS cpu-environment
# PyTorch's builds without CUDA are in an index of their own; whatever it offers, hashes decide.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY docker/cpu.lock /opt/gpuparse/packages.lock
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
        --extra-index-url "$TORCH_INDEX" \
        --require-hashes --requirement /opt/gpuparse/packages.lock

FROM cuda-environment AS cuda
# The driver is the host's: `docker run --gpus all` with NVIDIA's container toolkit.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NVIDIA_REQUIRE_CUDA="cuda>=13.0"
COPY --from=program /opt/gpuparse /opt/gpuparse
ARG COMMIT
LABEL org.opencontainers.image.revision=$COMMIT org.opencontainers.image.licenses=MIT
USER 10001:10001

FROM cpu-environment AS cpu
COPY --from=program /opt/gpuparse /opt/gpuparse
ARG COMMIT
LABEL org.opencontainers.image.revision=$COMMIT org.opencontainers.image.licenses=MIT
USER 10001:10001
