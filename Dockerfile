# streamrank with Kafka, Redis and the server, run by a user without rights
FROM python:3.11-slim
RUN useradd --create-home streamrank && mkdir /snapshots && chown streamrank /snapshots
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[kafka,redis,serve,parquet]'
USER streamrank
WORKDIR /home/streamrank
ENTRYPOINT ["streamrank"]
