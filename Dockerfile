# The three images: `docker build --target operator|router|worker .`; docs/images.md has the rest.
#
# BASE is any Debian with Python 3.11 or newer, its venv module and CA certificates.
ARG BASE=docker.io/library/python:3.13-slim-bookworm
ARG VERSION=0.1.0
ARG REVISION=unknown

FROM ${BASE} AS base
# torch looks the user's name up.
RUN echo 'splitpool:x:10001:10001::/tmp:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'splitpool:x:10001:' >> /etc/group
ENV PATH=/opt/splitpool/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1


# What the images are made with, and do not hold.
FROM base AS tools
# Certificates that the building machine mounts over the system's own.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --quiet --no-cache-dir 'uv>=0.9,<1'
COPY images/install /opt/uv/bin/install

# One file of requirements each: what else is said in pyproject.toml leaves the images' layers alone.
FROM base AS requirements
COPY pyproject.toml images/requirements.py /requirements/
RUN python3 /requirements/requirements.py /requirements/pyproject.toml operator router worker

# The C++ operations, for every kind of CPU.
FROM base AS operations
RUN apt-get update -q && apt-get install -q -y --no-install-recommends g++
COPY worker/splitpool_worker/__init__.py /build/splitpool_worker/
COPY worker/splitpool_worker/ops/__init__.py worker/splitpool_worker/ops/compiling.py \
     worker/splitpool_worker/ops/shipped.py worker/splitpool_worker/ops/cpu.cpp \
     /build/splitpool_worker/ops/
COPY worker/splitpool_worker/ops/native /build/splitpool_worker/ops/native
RUN PYTHONPATH=/build python3 -m splitpool_worker.ops.shipped /shipped

# The project's own code, with its bytecode: the root file system of a pod is read-only. Which of the
# shared packages a program may import, pyproject.toml says (import-linter).
FROM base AS operator-code
COPY operator /opt/splitpool/code
COPY lib/splitpool_quantity /opt/splitpool/code/splitpool_quantity
RUN python3 -m compileall -q --invalidation-mode checked-hash /opt/splitpool/code

FROM base AS router-code
COPY router /opt/splitpool/code
COPY lib/splitpool_kube /opt/splitpool/code/splitpool_kube
COPY lib/splitpool_serving /opt/splitpool/code/splitpool_serving
RUN python3 -m compileall -q --invalidation-mode checked-hash /opt/splitpool/code

FROM base AS worker-code
COPY worker /opt/splitpool/code
COPY lib/splitpool_quantity /opt/splitpool/code/splitpool_quantity
COPY lib/splitpool_serving /opt/splitpool/code/splitpool_serving
COPY --from=operations /shipped /opt/splitpool/code/splitpool_worker/ops/shipped
RUN python3 -m compileall -q --invalidation-mode checked-hash /opt/splitpool/code


FROM base AS operator
COPY --from=requirements /requirements/operator.txt /opt/splitpool/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    /opt/uv/bin/install /opt/splitpool
COPY --from=operator-code /opt/splitpool/code /opt/splitpool/code
USER 10001:10001
EXPOSE 8081
ENTRYPOINT ["python", "-m", "splitpool_operator"]
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="splitpool operator" \
      org.opencontainers.image.description="Makes Kubernetes objects of InferencePools" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"


FROM base AS router
COPY --from=requirements /requirements/router.txt /opt/splitpool/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    /opt/uv/bin/install /opt/splitpool
COPY --from=router-code /opt/splitpool/code /opt/splitpool/code
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["python", "-m", "splitpool_router"]
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="splitpool router" \
      org.opencontainers.image.description="Sends requests to the workers of InferencePools" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"


FROM base AS worker
COPY --from=requirements /requirements/worker.txt /opt/splitpool/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    /opt/uv/bin/install /opt/splitpool
# A package of PyPI that holds a model, for python:// sources: its files, not what it depends on.
ARG MODEL_PACKAGE=""
RUN --mount=type=bind,from=tools,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    /opt/uv/bin/install /opt/splitpool "${MODEL_PACKAGE}"
COPY --from=worker-code /opt/splitpool/code /opt/splitpool/code
# Which GPUs a container sees is the device plugin's to say: no NVIDIA_VISIBLE_DEVICES here.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
EXPOSE 8000
ENTRYPOINT ["python", "-m", "splitpool_worker"]
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="splitpool worker" \
      org.opencontainers.image.description="Serves one model to two latency classes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
