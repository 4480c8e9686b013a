# The worker (`npm start`) and every command of the README, as `editais`. docker-compose.yml shows how it is run.

# Tags: who wants the same bytes at each build gives digests, node:26-slim@sha256:…; README.md, "Run it in Docker".
ARG NODE_IMAGE=node:26-slim
ARG DEBIAN_IMAGE=debian:trixie-slim

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No package needs its install script: DuckDB's and msgpackr's binaries are packages of their own. What is removed is
# never loaded: the compiler, which npm keeps because a library could use its types; types and source maps; and what
# libraries bring for browsers and bundlers beside the modules that Node imports.
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
# Whatever the umask of who checked it out: anybody may read, nobody may write.
RUN chmod -R a=rX . \
 && chmod a=rx src/cli/main.ts

# Of Node.js it has the program alone: no npm, headers or yarn.
FROM ${DEBIAN_IMAGE}
# tini is an init: it hands SIGTERM on to the worker, and collects the processes of runs that were killed. The libraries
# are Node's.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libatomic1 libstdc++6 tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 --user-group --no-create-home --home-dir /nonexistent editais \
 && mkdir /data \
 && chown 1000:1000 /data \
 && ln -s /app/src/cli/main.ts /usr/local/bin/editais
COPY --from=dependencies /usr/local/bin/node /usr/local/bin/
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules/
COPY --from=code /app ./
# What the host publishes decides who reaches it: see `ports` in docker-compose.yml.
ENV NODE_ENV=production \
    DATA_DIR=/data \
    HTTP_HOST=0.0.0.0 \
    HTTP_PORT=8080
# Numbers: Kubernetes refuses a name where it must not run as root (runAsNonRoot).
USER 1000:1000
EXPOSE 8080
# Each check starts a process (a quarter of a second of one core), so they are rare once it is up.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --start-interval=2s --retries=3 \
  CMD ["node", "jobs/healthcheck.ts"]
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["node", "jobs/main.ts"]
# Last, for each commit changes it: `REVISION=$(git rev-parse HEAD) docker compose build`.
ARG REVISION=""
LABEL org.opencontainers.image.title="editais-sync" \
      org.opencontainers.image.description="Mirrors a company's public tender notices and their analyses into DuckDB tables and Parquet snapshots" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}"
