# syntax=docker/dockerfile:1
# The server. `docker build .` has the embedded CPU engine; `--build-arg EXTRAS=openai,web` has endpoints instead;
# `--target gpu` has vLLM. To pin the base image: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:DIGEST
ARG PYTHON=python:3.11-slim-bookworm

# hadolint ignore=DL3006
FROM ${PYTHON} AS base
# A number, not a name: Kubernetes checks `runAsNonRoot` by it.
RUN useradd --uid 10001 --create-home flightllm && mkdir /data && chown 10001:10001 /data
ENV PATH=/opt/flightllm/bin:$PATH FLIGHTLLM_HOME=/data PYTHONUNBUFFERED=1
COPY --chmod=755 deploy/entrypoint.sh deploy/healthcheck.py /usr/local/bin/
USER 10001
VOLUME /data
EXPOSE 31337 9090
HEALTHCHECK --interval=15s --timeout=5s --start-period=120s CMD ["python", "/usr/local/bin/healthcheck.py"]
ENTRYPOINT ["entrypoint.sh"]

# hadolint ignore=DL3006
FROM ${PYTHON} AS build
ARG EXTRAS=local,web
# Further options of pip. Its default index has only PyTorch with CUDA, several gigabytes that the CPU engine never uses:
# --build-arg PIP_OPTIONS="--extra-index-url ADDRESS", where ADDRESS is what the selector on PyTorch's own "Get started"
# page shows for the platform CPU, takes the small build instead (its version, 2.13.0+cpu, counts as the newer one).
ARG PIP_OPTIONS=
WORKDIR /src
RUN python -m venv /opt/flightllm
# Dependencies come first, and from a cache: an edit of a source file installs none of them again.
COPY deploy/requirements.py pyproject.toml ./
RUN python requirements.py "${EXTRAS}" > requirements.txt
# hadolint ignore=DL3042,SC2086
RUN --mount=type=cache,target=/root/.cache/pip /opt/flightllm/bin/pip install ${PIP_OPTIONS} -r requirements.txt
COPY . .
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip /opt/flightllm/bin/pip install --no-deps .

FROM build AS build-gpu
# hadolint ignore=DL3042,SC2086
RUN --mount=type=cache,target=/root/.cache/pip python requirements.py gpu,web,vector,kvcache > requirements.txt && \
    /opt/flightllm/bin/pip install ${PIP_OPTIONS} -r requirements.txt

# `docker build --target gpu .`, then `docker run --gpus all --shm-size 8g …`. PyTorch's wheels bring the CUDA runtime; the
# host brings the driver. Triton compiles kernels when vLLM starts, so the image has a compiler.
FROM base AS gpu
USER 0
RUN apt-get update && apt-get install --yes --no-install-recommends gcc=4:* g++=4:* libc6-dev=2.* && \
    rm -rf /var/lib/apt/lists/*
USER 10001
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=build-gpu /opt/flightllm /opt/flightllm

FROM base AS cpu
COPY --from=build /opt/flightllm /opt/flightllm
