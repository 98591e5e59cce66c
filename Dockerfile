# The image of one Strogoff node, described in docs/container.md. It runs without root, keeps its data on a volume, and
# stops in order on SIGTERM.
#   docker build -t strogoff .
#   docker run -p 1883:1883 -v strogoff:/strogoff/data -e DOCKER_VERNEMQ_ALLOW_ANONYMOUS=on strogoff
FROM docker.io/library/python:3.13-slim-bookworm AS build
# pip installs only libraries with the versions and hashes of locks/.
COPY locks /src/locks
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --require-hashes -r /src/locks/build.txt \
    && python3 -m venv /opt/strogoff \
    && /opt/strogoff/bin/pip install --no-cache-dir --require-hashes -r /src/locks/container.txt
COPY . /src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel /src \
    && /opt/strogoff/bin/pip install --no-cache-dir --no-deps --no-index /wheel/*.whl

FROM docker.io/library/python:3.13-slim-bookworm
COPY --from=build /opt/strogoff /opt/strogoff
# A tmpfs on the log folder takes its mode from it, and belongs to root. The links are the paths of VerneMQ's image.
RUN mkdir -p /strogoff/etc /strogoff/data /strogoff/log \
    && useradd --uid 10000 --home-dir /strogoff --no-create-home strogoff \
    && chown -R strogoff /strogoff \
    && chmod 1777 /strogoff/log \
    && ln -s /strogoff /vernemq \
    && ln -s /strogoff/etc /etc/vernemq \
    && ln -s /strogoff/data /var/lib/vernemq \
    && ln -s /strogoff/log /var/log/vernemq
COPY --chown=strogoff configs/vmq.acl /strogoff/etc/vmq.acl
# the node also reads conf.d/*.conf beside this file
RUN echo "# the defaults" > /strogoff/etc/vernemq.conf && chown strogoff /strogoff/etc/vernemq.conf
USER 10000
WORKDIR /strogoff
ENV PATH=/opt/strogoff/bin:$PATH PYTHONUNBUFFERED=1 STROGOFF_DATA_DIR=/strogoff/data
# No VOLUME: an anonymous volume at /strogoff/data would cover one that is mounted by its other path, /vernemq/data.
EXPOSE 1883 8883 8080 8888 44053 44054
HEALTHCHECK --interval=30s --timeout=10s --start-period=15s CMD ["vmq-admin", "node", "status"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["strogoff"]
CMD ["start", "--container"]
