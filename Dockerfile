# The server with the embedded CPU engine. For another engine: --build-arg EXTRAS=openai
FROM python:3.11-slim AS build
ARG EXTRAS=local
# Further options of pip. Its default index has only PyTorch with CUDA, several gigabytes that the CPU engine never uses:
# --build-arg PIP_OPTIONS="--extra-index-url ADDRESS", where ADDRESS is what the selector on PyTorch's own "Get started"
# page shows for the platform CPU, takes the small build instead (its version, 2.13.0+cpu, counts as the newer one).
ARG PIP_OPTIONS=
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY flightllm flightllm
COPY udfs udfs
COPY config config
RUN python -m venv /opt/flightllm && /opt/flightllm/bin/pip install --no-cache-dir ${PIP_OPTIONS} ".[${EXTRAS}]"

FROM python:3.11-slim
COPY --from=build /opt/flightllm /opt/flightllm
RUN useradd --create-home flightllm && mkdir /data && chown flightllm /data
USER flightllm
ENV PATH=/opt/flightllm/bin:$PATH FLIGHTLLM_HOME=/data
VOLUME /data
EXPOSE 31337
# Beyond this machine the server asks for TLS and users: mount a configuration that has them as /etc/flightllm.toml, or run
# `serve --listen 0.0.0.0:31337 --insecure` where everybody who reaches the port is trusted.
ENTRYPOINT ["flightllm"]
CMD ["serve", "--config", "/etc/flightllm.toml"]
