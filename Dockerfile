# The worker (`npm start`) and every command of the README, as `editais`. docker-compose.yml shows how to run it.

# Tags; to pin the base images, set digests (node:26-slim@sha256:…): docs/operating/docker.md.
ARG NODE_IMAGE=node:26-slim
ARG DEBIAN_IMAGE=debian:trixie-slim

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No package needs its install script: DuckDB's and msgpackr's binaries are separate packages. The removed files are
# never loaded: the compiler, which npm keeps because a library could use its types; types and source maps; and
# libraries' files for browsers and bundlers.
RUN npm ci --omit=dev --ignore-scripts \
 && rm -rf node_modules/typescript node_modules/@typescript \
 && rm -rf node_modules/echarts/dist node_modules/zrender/dist node_modules/zrender/src node_modules/zod/src \
 && rm -f node_modules/swagger-ui-dist/swagger-ui-es-bundle* \
 && find node_modules -type f \( -name '*.d.*ts' -o -name '*.map' \) -delete \
 && chmod -R a=rX node_modules

FROM ${NODE_IMAGE} AS code
WORKDIR /app
COPY package.json ./
COPY config/*.ts config/
COPY config/metabase config/metabase/
COPY schema schema/
COPY src src/
COPY jobs jobs/
# Independent of the umask of the checkout: all users can read, none can write.
RUN chmod -R a=rX . \
 && chmod a=rx src/cli/main.js

# It contains only the Node.js program: no npm, headers or yarn.
FROM ${DEBIAN_IMAGE}
# tini is the init: it forwards SIGTERM to the worker, and reaps the processes of runs that were killed. Node needs the
# libraries.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libatomic1 libstdc++6 tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 --user-group --no-create-home --home-dir /nonexistent editais \
 && mkdir /data \
 && chown 1000:1000 /data \
 && ln -s /app/src/cli/main.js /usr/local/bin/editais
COPY --from=dependencies /usr/local/bin/node /usr/local/bin/
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules/
COPY --from=code /app ./
# The published ports decide who can reach it: see `ports` in docker-compose.yml.
ENV NODE_ENV=production \
    NODE_COMPILE_CACHE=/tmp/node-compile-cache \
    DATA_DIR=/data \
    HTTP_HOST=0.0.0.0 \
    HTTP_PORT=8080
# Numbers: with runAsNonRoot, Kubernetes refuses a user name.
USER 1000:1000
EXPOSE 8080
# Each check starts a process (a quarter of a second of one core), so checks are rare once the worker is up.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --start-interval=2s --retries=3 \
  CMD ["node", "jobs/healthcheck.ts"]
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["node", "jobs/main.ts"]
# Last, because each commit changes it: `docker compose build --build-arg REVISION=$(git rev-parse HEAD)`.
ARG REVISION=""
LABEL org.opencontainers.image.title="editais-sync" \
      org.opencontainers.image.description="Mirrors a company's public tender notices and their analyses into DuckDB tables and Parquet snapshots" \
      org.opencontainers.image.version="0.3.0" \
      org.opencontainers.image.revision="${REVISION}"
