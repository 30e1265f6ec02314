# makeroom in a container: docker build -t makeroom . && docker run -it -v "$PWD:/work" -e ANTHROPIC_API_KEY makeroom
#
# Without user namespaces, which Docker's default profile denies, commands run under Landlock where the kernel has
# it; /status says which sandbox is in use. With --security-opt seccomp=unconfined --security-opt
# systempaths=unconfined, commands run in namespaces of their own.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY agent agent
COPY tools tools
COPY compact compact
COPY transcripts transcripts
COPY docs/makeroom.1 docs/makeroom.1
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates git procps ripgrep \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels && useradd --create-home --uid 1000 dev
USER 1000
WORKDIR /work
ENTRYPOINT ["makeroom"]
