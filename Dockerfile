# A model behind HTTP. Build it in a checkout, and give it a model that `adacsl train` has saved:
#   docker build -t adacsl .
#   docker run --rm -p 8000:8000 -v "$PWD/model:/model:ro" adacsl
# Boosters are extras: --build-arg EXTRAS=serve,lightgbm
FROM python:3.11-slim AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md CITATION.cff ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
ARG EXTRAS=serve
# LightGBM and scikit-learn compute with OpenMP
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /tmp/constraints.txt
# pictures and nets run on the processor here: torch without CUDA is a tenth as large
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --from=wheel /wheels /tmp/wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt --extra-index-url "$TORCH_INDEX" \
    "$(ls /tmp/wheels/adacsl-*.whl)[$EXTRAS]"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin adacsl
USER adacsl
# nothing is written but what several workers count together
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["adacsl", "serve", "/model", "--host", "0.0.0.0", "--port", "8000", "--device", "cpu"]
