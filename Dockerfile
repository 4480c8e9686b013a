# The worker (`npm start`) and every command of the README. docker-compose.yml shows how it is run.

# A tag: who wants the same bytes at each build gives a digest, node:26-slim@sha256:…; README.md, "Run it in Docker".
ARG NODE_IMAGE=node:26-slim

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No package needs its install script: DuckDB's and msgpackr's binaries are packages of their own. npm keeps
# the compiler because a library could use its types; those and source maps are for developers.
RUN npm ci --omit=dev --ignore-scripts \
 && rm -rf node_modules/typescript node_modules/@typescript \
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
RUN chmod -R a=rX .

FROM ${NODE_IMAGE}
# An init: it hands SIGTERM on to the worker, and collects the processes of runs that were killed.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir /data \
 && chown node:node /data
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules/
COPY --from=code /app ./
# What the host publishes decides who reaches it: see `ports` in docker-compose.yml.
ENV NODE_ENV=production \
    DATA_DIR=/data \
    HTTP_HOST=0.0.0.0 \
    HTTP_PORT=8080
USER node
EXPOSE 8080
# Each check starts a process (a quarter of a second of one core), so they are rare once it is up.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --start-interval=2s --retries=3 \
  CMD ["node", "jobs/healthcheck.ts"]
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["node", "jobs/main.ts"]
