# The server with the embedded CPU engine. For another engine: --build-arg EXTRAS=openai
FROM python:3.11-slim AS build
ARG EXTRAS=local
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY flightllm flightllm
COPY udfs udfs
COPY config config
RUN python -m venv /opt/flightllm && /opt/flightllm/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.11-slim
COPY --from=build /opt/flightllm /opt/flightllm
RUN useradd --create-home flightllm && mkdir /data && chown flightllm /data
USER flightllm
ENV PATH=/opt/flightllm/bin:$PATH FLIGHTLLM_HOME=/data
VOLUME /data
EXPOSE 31337
# Publish the port only where you trust the network, or mount a configuration with a token.
ENTRYPOINT ["flightllm"]
CMD ["serve", "--listen", "0.0.0.0:31337"]
