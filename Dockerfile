# The static binary, and nothing else that runs.
#
#   make build && docker build -t assay .
#   docker run --rm -p 127.0.0.1:8080:8080 assay
#   docker run --rm -p 127.0.0.1:8080:8080 -v /srv/models:/models:ro -e ASSAY_API_KEY assay serve -m /models/model.gguf
#
# BASE=scratch works as well: the binary needs no file of its base.
ARG BASE=gcr.io/distroless/static-debian12:nonroot
FROM ${BASE}
COPY LICENSE /LICENSE
COPY assay /assay
# Inside, every address; which one is reachable from outside is for -p to say.
ENV ASSAY_HOST=0.0.0.0 ASSAY_PORT=8080
EXPOSE 8080
# By number, so that Kubernetes can see that it is not root.
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m CMD ["/assay", "health"]
ENTRYPOINT ["/assay"]
CMD ["serve"]
